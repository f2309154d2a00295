"""Orders over HTTP: what their checks measured, what changed since the preview, and what they rest on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.tables.orders import Order, OrderCheck, Preview
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.orders.audit import log_path
from tests.tasks.cli.orders.test_halt import place_orders
from tests.tasks.web.conftest import Floor as Chained
from tests.tasks.web.routes.test_trading import Floor, trading_floor
from tests.tasks.web.test_security import problem
from tests.tools.orders.desk import action


@pytest.fixture(scope="module")
def waiting() -> Iterator[Floor]:
    """AAPL is filled, IBM is at the broker, GE waits for a person, KO was too large."""
    with trading_floor() as floor:
        place_orders(floor.desk)
        assert floor.desk.run(action("KO", quantity=100_000))[0].state == "denied"
        yield floor


def get(floor: Floor | Chained, path: str, **params: Any) -> Any:
    response = floor.client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


def order_of(floor: Floor, symbol: str) -> str:
    return next(order.id for order in floor.desk.orders() if order.symbol == symbol)


def row(found: Any, code: str) -> Any:
    return next(one for one in found["checks"] if code in one["codes"])


def test_an_order_that_waits_has_every_check_with_its_figure_now(waiting: Floor) -> None:
    found = get(waiting, f"/orders/{order_of(waiting, 'GE')}/checks")
    assert (found["state"], found["denial"], found["missing"]) == ("approval_pending", None, None)
    assert {one["answer"] for one in found["checks"]} == {"passed"}
    notional = row(found, "notional_per_order")
    quantity = next(order.quantity or 0 for order in waiting.desk.orders() if order.symbol == "GE")
    price = waiting.desk.market.quote("GE").price
    assert notional["figure"] == f"notional {quantity * price:,.2f}"
    assert list(notional["limits"]) == ["DESK_MAX_ORDER_NOTIONAL"]
    for code in ("share_per_symbol", "gross_notional", "daily_loss", "drawdown", "quote_stale", "buying_power"):
        assert row(found, code)["figure"], code
    changes = found["changes"]
    assert (changes["price_then"], changes["price_now"], changes["moved"], changes["intact"]) == (price, price, 0, True)
    assert 0 < changes["seconds_left"] <= 15 * 60
    assert changes["denied"] is None


def test_an_orders_effect_is_told_with_the_others_and_with_what_its_stop_costs(waiting: Floor) -> None:
    id_, other = (order_of(waiting, symbol) for symbol in ("GE", "IBM"))
    effect = get(waiting, f"/orders/{id_}/checks")["effect"]
    assert (effect["others"], effect["at_risk"], effect["stop_distance"]) == (1, None, None), "IBM; no stop is known"
    with waiting.desk.store.session() as session:
        order, price = session.get_one(Order, id_), waiting.desk.market.quote("GE").price
        sent = session.exec(select(Preview).where(Preview.order_id == other)).one()
        order.plan = {**(order.plan or {}), "stop": price * 0.9}
        session.add(order)
        quantity = order.quantity or 0
    assert effect["cash_after"] - effect["cash_all"] == pytest.approx(sent.notional, rel=0.01)
    assert effect["share_all"] == pytest.approx(effect["share_after"]), "the other is of another symbol"
    effect = get(waiting, f"/orders/{id_}/checks")["effect"]
    assert effect["stop_distance"] == pytest.approx(0.1)
    assert effect["at_risk"] == pytest.approx(quantity * price * 0.1)
    held = get(waiting, "/accounts/paper")
    assert effect["at_risk_share"] == pytest.approx(effect["at_risk"] / held["value"], rel=0.01)
    with waiting.desk.store.session() as session:
        order = session.get_one(Order, id_)
        order.plan = {**(order.plan or {}), "stop": price * 1.1}
        session.add(order)
    assert get(waiting, f"/orders/{id_}/checks")["effect"]["at_risk"] == 0, "beyond its stop, nothing is gained by it"
    with waiting.desk.store.session() as session:
        order = session.get_one(Order, id_)
        order.plan = None
        session.add(order)


def test_the_check_that_would_refuse_it_now_is_named(waiting: Floor) -> None:
    order = order_of(waiting, "GE")
    with waiting.desk.store.session() as session:
        preview = session.exec(select(Preview).where(Preview.order_id == order)).one()
        hash_, preview.payload_hash = preview.payload_hash, "0" * 64
        session.add(preview)
    changes = get(waiting, f"/orders/{order}/checks")["changes"]
    assert (changes["intact"], changes["denied"]["code"]) == (False, "preview_altered")
    with waiting.desk.store.session() as session:
        preview = session.exec(select(Preview).where(Preview.order_id == order)).one()
        preview.payload_hash = hash_
        session.add(preview)
    assert get(waiting, f"/orders/{order}/checks")["changes"]["denied"] is None


def test_a_denied_order_has_the_figure_and_the_limit_it_broke(waiting: Floor) -> None:
    found = get(waiting, f"/orders/{order_of(waiting, 'KO')}/checks")
    first, *_ = [one for one in found["checks"] if one["answer"] == "denied"]
    assert first["denied_as"] == "notional_per_order"
    assert first["figure"].startswith("notional ")
    assert first["limit"] == "at most 10,000.00"
    assert found["denial"]["measured"] == first["figure"]
    others = [one for one in found["checks"] if one["answer"] == "passed"]
    assert len(others) > 10
    assert row(found, "quote_stale")["figure"]
    assert (found["at"], found["changes"]) == (market_now(waiting), None)


def test_of_an_order_of_before_figures_were_recorded_none_are_made_up(waiting: Floor) -> None:
    sent, denied = order_of(waiting, "AAPL"), order_of(waiting, "KO")
    with waiting.desk.store.session() as session:
        rows = [session.get_one(OrderCheck, id_) for id_ in (sent, denied)]
        held = [row.model_dump() for row in rows]
        for row in rows:
            session.delete(row)
    found = get(waiting, f"/orders/{sent}/checks")
    assert {(one["answer"], one["figure"]) for one in found["checks"]} == {("passed_then", None)}
    found = get(waiting, f"/orders/{denied}/checks")
    assert [one["answer"] for one in found["checks"][:2]] == ["denied", "not_recorded"]
    assert {one["figure"] for one in found["checks"][1:]} == {None}
    assert found["at"] is None
    with waiting.desk.store.session() as session:
        session.add_all(OrderCheck(**row) for row in held)


def market_now(waiting: Floor) -> str:
    return waiting.desk.market.clock.now().astimezone(dt.UTC).isoformat().replace("+00:00", "Z")


def test_orders_are_listed_by_day_and_account(waiting: Floor) -> None:
    today = exchange_day(waiting.desk.market.clock.now()).isoformat()
    whole = get(waiting, "/orders", day=today, limit=100)
    assert {one["order"]["symbol"] for one in whole} == {"IBM", "GE", "KO"}
    assert [one["order"]["symbol"] for one in get(waiting, "/orders", day="2010-08-12")] == ["AAPL"]
    assert get(waiting, "/orders", day="2010-08-11") == get(waiting, "/orders", account="alpaca-live") == []
    assert get(waiting, "/orders", day=today, offset=1, limit=2) == whole[1:3]
    (one,) = get(waiting, "/orders", state="denied", account="paper", day=today)
    assert one["order"]["symbol"] == "KO"
    assert problem(waiting.client.get("/orders", params={"day": "yesterday"}), 422) == "wrong_request"


def test_an_altered_line_of_the_audit_log_shows(waiting: Floor) -> None:
    found = get(waiting, "/audit")
    (chain,) = found["chains"]
    assert (found["verified"], chain["verified"], chain["problems"]) == (True, True, [])
    log = log_path(waiting.desk.settings)
    text = log.read_text()
    assert chain["entries"] == len(text.splitlines())
    log.write_text(text.replace('"AAPL"', '"MSFT"', 1))
    altered = get(waiting, "/audit")
    assert (altered["verified"], bool(altered["chains"][0]["problems"])) == (False, True)
    log.write_text(text)
    assert get(waiting, "/audit")["verified"] is True
