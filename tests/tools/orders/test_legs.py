"""Orders with legs: several contracts as one order, checked at its worst case, filled as a whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import select, update

from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order, Preview
from chordesk.tasks.approval_requests import WaitingOrder, waiting
from chordesk.tasks.cli.show.amount_text import units_text
from chordesk.tasks.cli.show.order_display import size_of
from chordesk.tools.orders import halting
from chordesk.tools.orders.flow import maintain_orders
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import Desk, Outcome, action
from tests.tools.risk.test_options import Options

NewDesk = Callable[..., Desk]
PUT90, PUT85, CALL95 = "AAA100918P00090000", "AAA100918P00085000", "AAA100918C00095000"
LATER = "AAA101218P00085000"
PRICES = {"AAA": 92.0, "BBB": 500.0, PUT90: 2.0, PUT85: 0.8, CALL95: 0.9, LATER: 2.5}
ALLOWED: dict[str, Any] = {"stock_only": False, "options_mode": "both", "max_symbol_share": 1}
SPREAD = [f"sell 1 {PUT90}", f"buy 1 {PUT85}"]


def package(
    kind: str = "open", side: str = "sell", quantity: float = 2.0, net: float = 1.2, **more: Any
) -> dict[str, Any]:
    legs = more.pop("legs", SPREAD)
    return action(kind=kind, side=side, quantity=quantity, orderType="limit", limitPrice=net, legs=legs, **more)


def _run(desk: Desk, *actions: Any) -> list[Outcome]:
    return desk.run(*actions, instrument="option")


def _owner(new_desk: NewDesk, cash: float) -> Desk:
    """A desk with so much cash, and shares enough that no share of equity is exceeded."""
    desk = new_desk(Options(dict(PRICES)), starting_cash=cash, **ALLOWED)
    desk.hold("BBB", 100, 500.0)
    return desk


def _options(desk: Desk) -> dict[str, float]:
    return {symbol: count for symbol, count in desk.positions().items() if symbol != "BBB"}


def _code(outcome: Outcome) -> DenialCode | None:
    return outcome.denied.code if outcome.denied else None


def test_a_put_past_its_earnings_is_denied_without_leave(new_desk: NewDesk) -> None:
    """The tape has no source of earnings: what is not known is not after the expiry."""
    desk = _owner(new_desk, 10_000)
    (without,) = desk.run(package(), instrument="option", params={})
    assert _code(without) is DenialCode.ACROSS_EARNINGS
    (leave,) = _run(desk, package())
    assert leave.state == OrderState.FILLED


def test_a_vertical_is_one_order_that_needs_its_worst_case_in_cash(new_desk: NewDesk) -> None:
    desk = _owner(new_desk, 1_000)
    (sold,) = _run(desk, package())
    assert (sold.state, sold.notional, sold.denied) == (OrderState.FILLED, 1_000, None)
    assert (_options(desk), desk.cash()) == ({PUT90: -2, PUT85: 2}, 1_240)
    assert {(fill.symbol, fill.side, fill.quantity, fill.price) for fill in desk.fills()} == {
        (PUT90, "sell", 2, 2.0), (PUT85, "buy", 2, 0.8),
    }  # fmt: skip
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences) == (True, [])
    poor = _owner(new_desk, 999.99)
    assert _code(_run(poor, package())[0]) == DenialCode.CASH_SECURED
    assert _options(poor) == {}


def test_a_debit_needs_what_it_costs(new_desk: NewDesk) -> None:
    legs = [f"buy 1 {PUT90}", f"sell 1 {PUT85}"]
    desk = _owner(new_desk, 240)
    (bought,) = _run(desk, package(side="buy", legs=legs))
    assert (bought.state, bought.notional, desk.cash()) == (OrderState.FILLED, 240, 0)
    poor = _owner(new_desk, 239.99)
    assert _code(_run(poor, package(side="buy", legs=legs))[0]) == DenialCode.CASH_SECURED


def test_it_fills_as_a_whole_at_its_net_limit_or_not_at_all(new_desk: NewDesk) -> None:
    market = Options(dict(PRICES))
    desk = new_desk(market, **ALLOWED)
    (resting,) = _run(desk, package(net=1.25))
    assert (resting.state, desk.positions()) == (OrderState.SUBMITTED, {})
    assert "net limit 1.25 not met by 1.20" in (resting.message or "")
    again, inside = _run(desk, package(net=1.2), action("BBB", quantity=1.0, contract="BBB100918P00090000"))
    assert _code(again) == DenialCode.DUPLICATE
    assert inside.state == OrderState.DENIED
    market.prices[PUT90] = 2.05
    maintain_orders(desk.context())
    assert desk.positions() == {PUT90: -2, PUT85: 2}
    assert desk.orders()[0].state == "filled"


def test_closing_legs_are_an_exit_that_no_cooldown_holds_back(new_desk: NewDesk) -> None:
    desk = new_desk(Options(dict(PRICES)), cooldown_hours=24, max_trades_per_day=1, **ALLOWED)
    assert _run(desk, package())[0].state == OrderState.FILLED
    assert _code(_run(desk, package("add"))[0]) == DenialCode.COOLDOWN
    back = [f"buy 1 {PUT90}", f"sell 1 {PUT85}"]
    assert _code(_run(desk, package("close", "buy", 3.0, legs=back))[0]) == DenialCode.COOLDOWN  # it crosses zero
    (closed,) = desk.run(package("close", "buy", legs=back), instrument="option", ratings={})
    assert (closed.state, desk.positions()) == (OrderState.FILLED, {}), closed


def test_a_bought_put_alone_is_not_sold_from_under_a_written_one(new_desk: NewDesk) -> None:
    desk = _owner(new_desk, 1_000)
    assert _run(desk, package())[0].state == OrderState.FILLED
    (sold,) = _run(desk, action(kind="close", quantity=2.0, contract=PUT85, orderType="limit", limitPrice=0.8))
    assert _code(sold) == DenialCode.CASH_SECURED


def test_a_collar_needs_its_shares_and_binds_them(new_desk: NewDesk) -> None:
    collar = package(side="sell", quantity=1.0, net=0.1, legs=[f"buy 1 {PUT85}", f"sell 1 {CALL95}"])
    desk = new_desk(Options(dict(PRICES)), **ALLOWED)
    assert _code(_run(desk, collar)[0]) == DenialCode.CASH_SECURED
    desk.hold("AAA", 100, 92.0)
    assert _run(desk, collar)[0].state == OrderState.FILLED
    assert _code(desk.run(action(kind="close", quantity=100.0))[0]) == DenialCode.LONG_ONLY


def test_a_roll_closes_one_leg_and_opens_the_other(new_desk: NewDesk) -> None:
    roll = package("add", "sell", 1.0, 0.5, legs=[f"buy 1 {PUT90}", f"sell 1 {LATER}"])
    desk = new_desk(Options(dict(PRICES)), starting_cash=9_000, **ALLOWED)
    desk.hold(PUT90, -1, 2.0)
    (rolled,) = _run(desk, roll)
    assert (rolled.state, rolled.notional) == (OrderState.FILLED, 8_500)
    assert desk.positions() == {LATER: -1}


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"legs": [SPREAD[0]]}, "1 legs, and an order has 2 to 4"),
        ({"legs": [SPREAD[0], SPREAD[0]]}, "two legs trade the same contract"),
        ({"legs": ["sell 2 " + PUT90, "buy 2 " + PUT85]}, "the common divisor 2"),
        ({"legs": [SPREAD[0], "buy 1 BBB100918P00085000"]}, "no contract on AAA"),
        ({"legs": [SPREAD[0], "hold 1 " + PUT85]}, "is not of the form"),
        ({"contract": PUT90}, "a contract beside legs"),
        ({"orderType": "market", "limitPrice": None}, "net limit price"),
        ({"kind": "close"}, "2 open contradicts what is held"),
    ],
)
def test_legs_that_are_no_order(new_desk: NewDesk, changes: dict[str, Any], why: str) -> None:
    desk = new_desk(Options(dict(PRICES)), **ALLOWED)
    wanted = {**package(changes.pop("kind", "open"), legs=changes.pop("legs", SPREAD)), **changes}
    (refused,) = _run(desk, wanted)
    assert _code(refused) == DenialCode.MALFORMED
    assert why in (refused.denied.reason if refused.denied else "")


def test_legs_need_leave_to_trade_options_and_a_limit_within_their_collar(new_desk: NewDesk) -> None:
    stocks = new_desk(Options(dict(PRICES)))
    assert _code(_run(stocks, package())[0]) == DenialCode.STOCKS_ONLY
    desk = new_desk(Options(dict(PRICES)), trader_live=False, **ALLOWED)  # 5 % of 2.80 are 0.14
    assert _run(desk, package(net=1.06))[0].state == OrderState.PREVIEWED
    assert _code(_run(desk, package(net=1.05))[0]) == DenialCode.COLLAR


def test_legs_are_part_of_the_hash_that_is_approved(new_desk: NewDesk) -> None:
    desk = new_desk(Options(dict(PRICES)), approval="manual", **ALLOWED)
    (asked,) = _run(desk, package())
    assert asked.state == OrderState.APPROVAL_PENDING
    with desk.store.read() as session:
        payload = json.loads(session.exec(select(Preview)).one().payload)
        (row,) = waiting(session)
    assert payload["legs"] == SPREAD
    assert isinstance(row, WaitingOrder)
    assert row.order.legs is not None
    text = "sell 1 2010-09-18 put 90, buy 1 2010-09-18 put 85"
    assert units_text(2.0, None, row.order.legs) == f"2 units of ({text})"
    assert units_text(34.09951, None, None, "LTC-USD") == "34.09951 LTC"
    assert size_of(desk.orders()[0]) == f"open sell 2 of ({text})"
    plain = new_desk(Options(dict(PRICES)), **ALLOWED)
    decision = plain.decide(package(), instrument="option")
    plain.process(decision, trader_live=False)
    with plain.store.session() as session:
        session.exec(update(Order).values(legs=[{"contract": LATER, "side": "sell", "ratio": 1}]))
    assert _code(plain.process(decision)[0]) == DenialCode.PREVIEW_ALTERED


def test_reduce_only_lets_legs_close_and_not_open(new_desk: NewDesk) -> None:
    desk = new_desk(Options(dict(PRICES)), **ALLOWED)
    assert _run(desk, package())[0].state == OrderState.FILLED
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", reduce_only=True)
    assert _code(_run(desk, package("add"))[0]) == DenialCode.REDUCING
    (closed,) = _run(desk, package("close", "buy", legs=[f"buy 1 {PUT90}", f"sell 1 {PUT85}"]))
    assert closed.state == OrderState.FILLED
