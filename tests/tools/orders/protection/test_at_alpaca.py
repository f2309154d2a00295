"""Protective orders at Alpaca: the real client against the stand-in, which holds the shares of open sales."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from sqlmodel import col, select, update

from chordesk.models.states import OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.tools.decimals import plain
from chordesk.tools.orders import accounts, halting, protection, submitting
from chordesk.tools.orders.accounts import FencingLease
from tests.fakes.alpaca import OPEN, Alpaca
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.watch import a_pass, covered, stops
from tests.tools.orders.tape import Tape
from tests.tools.orders.test_submitting import Wire

NewDesk = Callable[..., Desk]


class Died(BaseException):
    """The end of a process in the middle of a call."""


@pytest.fixture
def desk(alpaca: Alpaca, new_desk: NewDesk) -> Desk:
    alpaca.fills, alpaca.reserves = "all", True
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    terms = {"broker": "alpaca-paper", "approval": "auto", "protect": "stop:8%"}
    return new_desk(market, **terms)


def working(alpaca: Alpaca) -> list[tuple[str, str, str | None]]:
    """(type, quantity, stop) of the broker's own open sales."""
    rows = [row for row in alpaca.orders.values() if row["status"] in OPEN and row["side"] == "sell"]
    return [(row["type"], row["qty"], plain(float(row["stop_price"])) if row["stop_price"] else None) for row in rows]


def bought(desk: Desk) -> None:
    (order,) = desk.run(action())
    assert (order.state, desk.positions()) == ("filled", {"AAA": 10})


def test_a_fill_is_followed_by_a_stop_that_is_good_until_cancelled(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    (stop,) = stops(desk)
    assert alpaca.bodies[1] == {
        "symbol": "AAA", "qty": 10, "side": "sell", "type": "stop", "time_in_force": "gtc", "stop_price": 92,
        "client_order_id": stop.id,
    }  # fmt: skip
    a_pass(desk)
    assert len(alpaca.bodies) == 2
    covered(desk)


def test_a_part_is_protected_as_far_as_it_is_filled(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.fills = "part"
    (order,) = desk.run(action())
    assert order.state == "partially_filled"
    assert working(alpaca) == [("stop", "5", "92")]
    alpaca.fill(str(order.order_id), 5, 110)
    a_pass(desk)
    assert working(alpaca) == [("stop", "10", "96.6")]
    covered(desk)


def test_a_sale_waits_for_the_stops_cancellation(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    alpaca.asked.clear()
    (sale,) = desk.run(action(kind="close"))
    assert (sale.state, desk.positions(), working(alpaca)) == ("filled", {}, [])
    sent = [line.split(" ")[0] for line in alpaca.asked if line.startswith(("DELETE", "POST"))]
    assert sent == ["DELETE", "POST"]


def test_a_sale_that_the_broker_refuses_gives_the_stop_back(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    alpaca.faults = ["403"]
    (sale,) = desk.run(action(kind="close"))
    assert sale.state == "rejected"
    assert working(alpaca) == [("stop", "10", "92")]
    covered(desk)


def test_a_stop_that_fills_while_it_is_cancelled_leaves_nothing_to_sell(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    decision = desk.decide(action(kind="close"))
    alpaca.fill(stops(desk)[0].id, 10, 91)
    (sale,) = desk.process(decision)
    assert (sale.state, desk.positions(), working(alpaca)) == ("denied", {}, [])


def test_a_cancellation_that_does_not_come_keeps_the_sale_waiting(
    desk: Desk, alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submitting, "WITHDRAW_SECONDS", 0.0)
    bought(desk)
    alpaca.cancels = "pending"
    (sale,) = desk.run(action(kind="close"))
    assert sale.state == "approved"
    assert len(working(alpaca)) == 1
    alpaca.cancels = "done"
    a_pass(desk)
    assert (desk.positions(), working(alpaca)) == ({}, [])


def test_a_refused_stop_is_named_and_asked_for_again_later(
    desk: Desk, alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch
) -> None:
    alpaca.faults = ["", "403"]
    bought(desk)
    assert (working(alpaca), a_pass(desk)["unprotected"], len(alpaca.bodies)) == ([], 1, 2)
    monkeypatch.setattr(protection, "REFUSED_FOR", dt.timedelta(0))
    assert a_pass(desk)["unprotected"] == 0
    covered(desk)


def test_a_stop_that_the_broker_ended_is_replaced(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    alpaca.end(stops(desk)[0].id, "expired")
    a_pass(desk)
    assert working(alpaca) == [("stop", "10", "92")]
    covered(desk)


def test_a_stop_with_a_lost_answer_is_only_looked_up(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.faults = ["", "500-after"]
    bought(desk)
    a_pass(desk)
    assert (len(alpaca.bodies), working(alpaca)) == (2, [("stop", "10", "92")])
    covered(desk)


def test_a_stop_that_never_arrived_is_replaced_once_it_cannot_arrive_any_more(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.faults = ["", "500"]
    bought(desk)
    assert [order.state for order in stops(desk)] == [OrderState.UNKNOWN]
    for seconds, sends in ((0, 2), (70, 2), (890, 2), (900, 3)):
        with desk.store.session() as session:
            lost = session.exec(select(Order).where(col(Order.protects).is_not(None))).one()
            sent_at = utcnow() - dt.timedelta(seconds=seconds)
            session.exec(update(Order).where(col(Order.id) == lost.id).values(sent_at=sent_at))
        restart(desk)
        a_pass(desk)
        assert len(alpaca.bodies) == sends, f"{seconds} s after it was sent"
    assert working(alpaca) == [("stop", "10", "92")]
    covered(desk)


def test_a_stop_that_comes_after_minutes_is_the_only_one(desk: Desk, alpaca: Alpaca) -> None:
    alpaca.faults = ["", "500"]
    bought(desk)
    (lost,) = stops(desk)
    sent_longer_ago(desk, dt.timedelta(minutes=5))
    restart(desk)
    a_pass(desk)
    alpaca.take(alpaca.bodies[1])
    restart(desk)
    a_pass(desk)
    assert (len(alpaca.bodies), working(alpaca)) == (2, [("stop", "10", "92")])
    assert [(order.id, order.state) for order in stops(desk)] == [(lost.id, OrderState.SUBMITTED)]
    covered(desk)


def test_a_stop_that_the_broker_forgets_while_it_restarts_is_not_placed_again(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    sent_longer_ago(desk, dt.timedelta(days=9))
    known, alpaca.orders = alpaca.orders, {}
    for _ in range(2):
        restart(desk)
        a_pass(desk)
    assert [order.state for order in stops(desk)] == [OrderState.UNKNOWN]
    alpaca.orders = known
    restart(desk)
    a_pass(desk)
    assert (len(alpaca.bodies), working(alpaca)) == (2, [("stop", "10", "92")])
    assert [order.state for order in stops(desk)] == [OrderState.SUBMITTED]
    covered(desk)


def sent_longer_ago(desk: Desk, by: dt.timedelta) -> None:
    with desk.store.session() as session:
        session.exec(update(Order).where(col(Order.protects).is_not(None)).values(sent_at=utcnow() - by))


def test_flattening_cancels_and_sells_once(desk: Desk, alpaca: Alpaca) -> None:
    bought(desk)
    halting.halt(desk.store, desk.settings.account, "a test", "somebody")
    outcomes, waiting = desk.flatten(desk.context(), "somebody", "a test")
    assert ([row.state for row in outcomes], waiting) == ([OrderState.FILLED], [])
    assert (alpaca.positions, working(alpaca)) == ({}, [])


class Mortal(Wire):
    """The broker of a process that dies at its n-th call, before or after the call reaches the far side."""

    def __init__(self, desk: Desk, last: int, *, after: bool) -> None:
        super().__init__(desk)
        self._last, self._after = last, after

    def _call(self, name: str, *order: Any) -> Any:
        dies = len(self.calls) + 1 == self._last
        if dies and not self._after:
            raise Died
        answer = super()._call(name, *order)
        if dies:
            raise Died
        return answer


@pytest.mark.long
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("call", range(1, 13))
def test_wherever_a_worker_dies_the_next_one_leaves_each_share_in_one_sale(
    desk: Desk, alpaca: Alpaca, call: int, after: bool
) -> None:
    """A purchase, more of it, and a sale of a part: the process dies in its n-th call of the broker."""
    decisions = [desk.decide(action()), desk.decide(action(kind="add")), desk.decide(action(kind="reduce"))]
    broker = desk.broker
    desk.broker = Mortal(desk, call, after=after)
    try:
        for decision in decisions:
            desk.process(decision)
    except Died:
        pass
    finally:
        desk.broker = broker
    restart(desk)
    for _ in range(2):
        a_pass(desk)
        assert oversold(alpaca) == []
    with desk.store.session() as session:  # what never arrived cannot arrive any more
        long_ago = utcnow() - dt.timedelta(days=2)
        session.exec(update(Order).where(col(Order.state) == "unknown").values(sent_at=long_ago))
    restart(desk)
    a_pass(desk)
    assert desk.positions() == {name: float(held) for name, (held, _) in alpaca.positions.items()}
    covered(desk)
    assert oversold(alpaca) == []


def restart(desk: Desk) -> None:
    """A new process: it takes the account that the dead one left."""
    with desk.store.session() as session:
        accounts.release(session, desk.settings.account)
    desk.lease = FencingLease(desk.store, desk.settings.account, "the next one")


def oversold(alpaca: Alpaca) -> list[str]:
    """Symbols of which the broker's open sales are more than is held."""
    wanted: dict[str, Decimal] = {}
    for row in alpaca.orders.values():
        if row["status"] in OPEN and row["side"] == "sell":
            wanted[row["symbol"]] = wanted.get(row["symbol"], Decimal(0)) + Decimal(row["qty"])
    held = {name: quantity for name, (quantity, _) in alpaca.positions.items()}
    return [name for name, quantity in wanted.items() if quantity > held.get(name, Decimal(0))]
