"""Accounts over HTTP: books, values at the market's prices, equity, and that paper and live are never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, EquityMark, Position, Reconciliation, Submitter
from tests.tasks.cli.orders.test_halt import place_orders
from tests.tasks.web.routes.test_trading import Floor, trading_floor
from tests.tasks.web.test_security import problem

LIVE = "alpaca-live"


@pytest.fixture(scope="module")
def books() -> Iterator[Floor]:
    """AAPL is held on paper; a live account beside it holds KO, and its books differed from the broker's."""
    with trading_floor() as floor:
        place_orders(floor.desk)
        with floor.desk.store.session() as session:
            session.add(Account(name=LIVE, cash=7.0, opening_cash=9.0))
            session.add(Submitter(account=LIVE, token=3, owner="trade@elsewhere"))
            session.flush()
            day = utcnow()
            session.add(Position(account=LIVE, symbol="KO", quantity=2, average_cost=1, filled_at=day))
            session.add(EquityMark(account=LIVE, day=day.date(), opening=9.0, last=9.0, high_water=9.0))
            found = {"kind": "position", "symbol": "KO", "desk": "2", "broker": "<script>", "repaired": False}
            session.add(Reconciliation(account=LIVE, owner="the test", agreed=False, differences=[found]))
        yield floor


def get(books: Floor, path: str, **params: Any) -> Any:
    response = books.client.get(path, params=params)
    assert response.status_code == 200, response.text
    return response.json()


def test_accounts_are_listed_own_first_and_never_added_up(books: Floor) -> None:
    paper, live = get(books, "/accounts")
    assert (paper["account"], paper["own"], paper["positions"], paper["trading"]) == ("paper", True, 1, "active")
    assert (live["account"], live["own"], live["cash"], live["agreed"]) == (LIVE, False, 7.0, False)
    assert live["equity"]["equity"] == 9.0
    assert paper["cash"] == books.desk.cash()


def test_the_own_account_is_valued_at_the_markets_prices(books: Floor) -> None:
    found = get(books, "/accounts/paper")
    (aapl,) = found["holdings"]
    price = books.desk.market.quote("AAPL").price
    assert (aapl["symbol"], aapl["market_price"], aapl["missing"]) == ("AAPL", price, None)
    assert aapl["value"] == pytest.approx(aapl["quantity"] * price)
    assert aapl["gain"] == pytest.approx(aapl["quantity"] * (price - aapl["average_cost"]))
    assert found["value"] == pytest.approx(found["cash"] + aapl["value"])
    assert aapl["share"] == pytest.approx(aapl["value"] / found["value"])
    (sector,) = found["sectors"]
    listing = books.desk.market.listing("AAPL")
    assert (sector["sector"], sector["symbols"]) == (listing.sector if listing else None, ["AAPL"])
    assert sector["exposure"] == pytest.approx(found["gross"]) == pytest.approx(aapl["value"])
    assert found["as_of"] is not None
    assert found["missing"] == {}


def test_an_account_of_another_broker_is_shown_without_prices_and_with_the_reason(books: Floor) -> None:
    found = get(books, f"/accounts/{LIVE}")
    (ko,) = found["holdings"]
    assert (ko["quantity"], ko["market_price"], ko["value"], found["value"], found["gross"]) == (
        2.0,
        None,
        None,
        None,
        None,
    )
    assert "market of its own account alone" in found["missing"]["KO"]
    assert (found["sectors"], found["as_of"], found["cash"]) == ([], None, 7.0)
    (line,) = found["reconciliation"]["differences"]
    assert line == "open: position KO: 2 here, <script> at the broker"


def test_a_position_without_a_price_has_no_value_and_neither_has_the_account(books: Floor) -> None:
    books.desk.hold("NOSUCH", 3)
    found = get(books, "/accounts/paper")
    row = next(one for one in found["holdings"] if one["symbol"] == "NOSUCH")
    assert (row["market_price"], row["value"], row["gain"], found["value"], found["gross"]) == (
        None,
        None,
        None,
        None,
        None,
    )
    assert list(found["missing"]) == ["NOSUCH"]
    priced = next(one for one in found["holdings"] if one["symbol"] == "AAPL")
    assert priced["value"] is not None
    assert priced["share"] is None, "a share of what is not known"
    with books.desk.store.session() as session:
        row = session.exec(select(Position).where(Position.symbol == "NOSUCH")).one()
        session.delete(row)


def test_the_ledger_adds_up_to_the_cash(books: Floor) -> None:
    rows = get(books, "/accounts/paper/ledger")
    assert rows[0]["kind"] in ("fill", "delivered")
    fills = [row for row in rows if row["kind"] == "fill"]
    detail = get(books, "/accounts/paper")
    assert sum(row["cash"] for row in rows) == pytest.approx(detail["cash"] - detail["opening_cash"])
    assert {row["row"]["symbol"] for row in fills} == {"AAPL"}
    assert get(books, f"/orders/{fills[0]['row']['order_id']}")["order"]["run_id"] == fills[0]["run_id"]
    assert get(books, "/accounts/paper/ledger", limit=1, offset=1) == rows[1:2]
    assert get(books, f"/accounts/{LIVE}/ledger") == []


def test_an_account_that_there_is_not(books: Floor) -> None:
    for path in ("/accounts/none", "/accounts/none/equity", "/accounts/none/ledger"):
        missing = books.client.get(path)
        assert problem(missing, 404) == "not_found"
        assert missing.json()["remedy"] == f"there are paper, {LIVE}"
    assert problem(books.client.get("/accounts/a%00b"), 422) == "wrong_request"
    assert problem(books.client.get("/accounts/paper/equity?days=0"), 422) == "wrong_request"
