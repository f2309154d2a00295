"""The rule of DESK_PROTECT, and the stop that it asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.order_terms import Protection, parse_protection
from chordesk.models.settings.sources import load_settings
from chordesk.tools.market.price_steps import symbol_terms
from chordesk.tools.orders.stops import ProtectiveStop, holdings, preview_of, preview_text, stop_for, stop_price
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.watch import a_pass, sizes
from tests.tools.risk.test_options import Options


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("none", None),
        ("stop:8%", Protection("stop", 8)),
        ("trail:5%", Protection("trail", 5)),
        ("trail:0.1%", Protection("trail", 0.1)),
        ("stop:50%", Protection("stop", 50)),
    ],
)
def test_a_rule_is_a_kind_and_a_percentage(rule: str, found: Protection | None) -> None:
    assert parse_protection(rule) == found


@pytest.mark.parametrize("rule", ["stop", "stop:8", "stop:0.09%", "stop:50.1%", "trail:-5%", "STOP:8%", "none%"])
def test_anything_else_is_refused_in_one_line_that_names_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PROTECT", rule)
    with pytest.raises(SettingError) as refused:
        load_settings()
    line = str(refused.value)
    assert "DESK_PROTECT" in line
    assert "allowed are none, stop:N% and trail:N% with N from 0.1 to 50" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("percent", "side", "cost", "price"),
    [
        (8, "sell", "100", "92"),
        (8, "sell", "100.33", "92.31"),  # 92.3036: never further away than asked for
        (8, "buy", "100.33", "108.35"),  # 108.3564
        (5, "sell", "0.5", "0.475"),
        (0.1, "sell", "5", "4.99"),  # no cent within: the next one, for a stop at the cost is met at once
        (0.1, "buy", "5", "5.01"),
        (50, "sell", "0.0001", None),
    ],
)
def test_a_stop_is_a_whole_cent_within_its_percentage(percent: float, side: str, cost: str, price: str | None) -> None:
    assert stop_price(symbol_terms("AAA"), percent, side, Decimal(cost)) == (price and Decimal(price))


def test_a_short_position_is_protected_by_a_stop_to_buy() -> None:
    closing = ProtectiveStop("AAA", "buy", Decimal(7), None, Decimal(100), None)
    stop = stop_for(Protection("trail", 5), closing, Decimal(100))
    assert stop is not None
    assert (stop.side, stop.quantity, stop.stop_price, stop.order_type) == ("buy", 7, 105, "trailing_stop")


def test_a_preview_states_the_protective_order_of_an_opening_order_alone() -> None:
    bare = ProtectiveStop("AAA", "sell", Decimal(10), None, Decimal(100), None)
    found = preview_of("stop:8%", "open", bare)
    assert preview_text(json.dumps({"protection": found})) == "sell 10, stop 92.00, gtc"
    trail = preview_of("trail:5%", "add", bare)
    assert preview_text(json.dumps({"protection": trail})) == "sell 10, stop that trails by 5 % from 95.00, gtc"
    assert preview_of("stop:8%", "close", bare) is None
    assert preview_of("none", "open", bare) is None


NewDesk = Callable[..., Desk]
CALL, LATER, PUT = "AAA100918C00095000", "AAA101218C00100000", "AAA100918P00090000"
PRICES = {"AAA": 92.0, CALL: 0.9, LATER: 0.9, PUT: 2.0}
ALLOWED: dict[str, Any] = {
    "stock_only": False, "options_mode": "both", "max_symbol_share": 1, "max_symbol_notional": 1e6,
    "max_order_notional": 1e6,
}  # fmt: skip


@pytest.fixture
def desk(new_desk: NewDesk) -> Desk:
    """A desk with 300 AAA and a stop for all of them."""
    desk = new_desk(Options(dict(PRICES)), protect="stop:8%", **ALLOWED)
    desk.hold("AAA", 300, 92.0)
    a_pass(desk)
    assert sizes(desk) == [("AAA", 300, 84.64)]
    return desk


def free(desk: Desk) -> Decimal:
    with desk.store.read() as session:
        (found,) = holdings(session, "paper", "AAA")
    return found.free


def test_all_of_a_fraction_of_a_coin_is_protected(new_desk: NewDesk) -> None:
    desk = new_desk(Options({"BTC-USD": 60_000.0}), protect="stop:8%", **ALLOWED)
    desk.hold("BTC-USD", 0.0817, 60_000.0)
    a_pass(desk)
    assert sizes(desk) == [("BTC-USD", 0.0817, 55_200.0)]


def option(contract: str, limit: float, kind: str = "open", side: str = "sell", **more: Any) -> dict[str, Any]:
    terms: dict[str, Any] = {"quantity": 1.0, "contract": contract, "orderType": "limit", "limitPrice": limit}
    return action(kind=kind, side=side, **terms, **more)


def package(side: str, net: float, *legs: str) -> dict[str, Any]:
    return action(side=side, quantity=1.0, orderType="limit", limitPrice=net, legs=list(legs))


def run(desk: Desk, wanted: dict[str, Any], state: str) -> None:
    (found,) = desk.run(wanted, instrument="option")
    assert found.state == state, found


# Sold below the price they fill, above it they rest.
@pytest.mark.parametrize(("limit", "state"), [(0.9, "filled"), (0.94, "submitted")])
def test_a_written_call_needs_its_shares_from_its_order_on(desk: Desk, limit: float, state: str) -> None:
    run(desk, option(CALL, limit), state)
    assert free(desk) == 200
    assert sizes(desk) == [("AAA", 200, 84.64)]


@pytest.mark.parametrize(("net", "state"), [(1.1, "filled"), (1.05, "submitted")])
def test_a_call_among_legs_needs_its_shares_though_the_whole_is_bought(desk: Desk, net: float, state: str) -> None:
    run(desk, package("buy", net, f"buy 1 {PUT}", f"sell 1 {CALL}"), state)
    assert free(desk) == 200
    assert sizes(desk) == [("AAA", 200, 84.64)]


def test_a_roll_needs_no_more_shares_than_the_call_that_it_buys_back(desk: Desk) -> None:
    run(desk, option(CALL, 0.9), "filled")
    run(desk, package("sell", 0.05, f"buy 1 {CALL}", f"sell 1 {LATER}"), "submitted")
    assert free(desk) == 200
    assert sizes(desk) == [("AAA", 200, 84.64)]


def test_orders_that_need_no_shares_leave_the_stop_where_it_is(desk: Desk) -> None:
    before = desk.orders()
    run(desk, option(PUT, 2.0), "filled")
    run(desk, package("sell", 1.2, f"sell 1 {PUT}", "buy 1 AAA100918P00085000"), "denied")  # no price of the other leg
    assert free(desk) == 300
    assert [order.state for order in desk.orders() if order.id == before[0].id] == ["submitted"]


def test_a_call_that_is_held_and_sold_takes_no_shares(desk: Desk) -> None:
    desk.hold(CALL, 1, 0.9)
    before = desk.orders()
    run(desk, option(CALL, 0.9, "close"), "filled")
    assert free(desk) == 300
    assert [order.state for order in desk.orders() if order.id == before[0].id] == ["submitted"]
