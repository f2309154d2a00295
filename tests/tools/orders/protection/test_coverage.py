"""Shares without a standing stop are named with the reason."""

from __future__ import annotations

from collections.abc import Callable

from chordesk.models.states import OrderState
from chordesk.tools.orders import halting
from chordesk.tools.orders.protection import Unprotected, unprotected
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.watch import a_pass, sizes
from tests.tools.risk.test_options import Options

NewDesk = Callable[..., Desk]
CALL = "AAA100918C00110000"
OFF = "live trading is off (TRADER_LIVE is not 1)"
NEXT = "the next pass over the orders places it"
BOUND = "100 are in other orders, bound by written calls or no whole share"


def named(desk: Desk, **changes: object) -> list[Unprotected]:
    with desk.store.read() as session:
        return unprotected(session, desk.settings.model_copy(update=changes))


def test_without_a_rule_nothing_is_named(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.run(action())
    assert named(desk) == []
    assert named(desk, protect="stop:8%") == [Unprotected("AAA", 10, 10, NEXT)]
    assert named(desk, protect="stop:8%", trader_live=False) == [Unprotected("AAA", 10, 10, OFF)]


def test_shares_of_the_least_price_can_have_no_stop_below_it(new_desk: NewDesk) -> None:
    desk = new_desk(protect="stop:8%")
    desk.hold("AAA", 10, 0.0001)
    (found,) = named(desk)
    assert "no price of its steps lies between 0 and its cost of 0.0001" in found.why
    assert (a_pass(desk)["unprotected"], sizes(desk)) == (1, [])


def test_a_halt_is_the_reason(new_desk: NewDesk) -> None:
    desk = new_desk(protect="stop:8%")
    halting.halt(desk.store, "paper", "a test", "somebody")
    desk.hold("AAA", 10, 100.0)
    desk.hold("BBB", -3, 50.0)
    found = named(desk)
    assert [(row.symbol, row.quantity, row.free) for row in found] == [("AAA", 10, 10), ("BBB", 3, 3)]
    assert all(row.why.startswith("trading is halted: a test") for row in found)
    assert a_pass(desk)["unprotected"] == 2


def test_a_stop_without_an_answer_does_not_stand(new_desk: NewDesk) -> None:
    desk = new_desk(protect="trail:5%")
    desk.run(action())
    stop = desk.orders()[1]
    with desk.store.session() as session:
        stop.state = OrderState.UNKNOWN
        session.merge(stop)
    assert named(desk) == [Unprotected("AAA", 10, 10, f"the broker's answer on stop {stop.id} is not known")]


def test_shares_that_can_have_no_stop_are_named_too(new_desk: NewDesk) -> None:
    """100 of 150 cover a written call."""
    allowed = {"stock_only": False, "options_mode": "both", "max_symbol_share": 1}
    desk = new_desk(Options({"AAA": 100.0, CALL: 1.0}), protect="stop:8%", **allowed)
    desk.hold("AAA", 150, 100.0)
    desk.hold(CALL, -1, 1.0)
    assert named(desk) == [Unprotected("AAA", 150, 50, f"{NEXT}; {BOUND}")]
    assert a_pass(desk)["unprotected"] == 0
    assert (sizes(desk), named(desk)) == ([("AAA", 50, 92)], [Unprotected("AAA", 100, 0, BOUND)])
