"""Sending once, asking for ever: lost answers, lost orders, an account that cannot be compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import Session, col, select, update

from chordesk.models.errors import FencedOff, ServiceError
from chordesk.models.features import BrokerEntry
from chordesk.models.orders import DenialCode
from chordesk.models.settings.schema import BROKERS
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order, TraderNote
from chordesk.tools.orders import accounts
from chordesk.tools.orders.flow import cancel_open, maintain_orders
from chordesk.tools.orders.submitting import cancel
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


class Wire:
    """The paper broker at the end of a wire that a test cuts. It counts what comes through.

    cut: calls that get no answer, though what was sent arrives. deaf: calls that the broker answers with
    an unknown order.
    """

    def __init__(self, desk: Desk) -> None:
        self.name, self.real_money = desk.broker.name, desk.broker.real_money
        self._broker = desk.broker
        self.cut: set[str] = set()
        self.deaf: set[str] = set()
        self.calls: list[str] = []
        self.error: Exception = ServiceError("the wire is cut")

    def _call(self, name: str, *order: Any) -> Any:
        self.calls.append(name)
        answer = getattr(self._broker, name)(*order)
        if name in self.cut:
            raise self.error
        return None if name in self.deaf else answer

    def submit(self, *order: Any) -> Any:
        return self._call("submit", *order)

    def lookup(self, *order: Any) -> Any:
        return self._call("lookup", *order)

    def cancel(self, *order: Any) -> Any:
        return self._call("cancel", *order)

    def state(self) -> Any:
        return self._call("state")


@pytest.fixture
def wired(new_desk: NewDesk) -> tuple[Desk, Wire]:
    desk = new_desk(Tape({"AAA": 100.0, "BBB": 50.0}))
    wire = Wire(desk)
    desk.broker = wire
    return desk, wire


def _only(desk: Desk) -> Order:
    (order,) = desk.orders()
    return order


def test_an_order_with_a_lost_answer_is_looked_up_until_it_is_known(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    wire.cut = {"submit", "lookup"}
    assert desk.run(action())[0].state == OrderState.UNKNOWN
    maintain_orders(desk.context())
    assert (_only(desk).state, _only(desk).message) == ("unknown", "no answer from the broker: the wire is cut")
    wire.cut = set()
    maintain_orders(desk.context())
    assert (_only(desk).state, _only(desk).message, desk.positions()) == ("filled", None, {"AAA": 10})
    assert wire.calls.count("submit") == 1
    with desk.store.read() as session:
        note = session.exec(select(TraderNote)).one()
    assert note.outcome == "filled", "the trader is told of it too"


def test_an_unforeseen_error_is_no_answer_either(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    wire.cut, wire.error = {"submit"}, KeyError("order")
    first, second = desk.run(action(), action("BBB"))
    assert (first.state, first.message) == ("unknown", "no answer from the broker: KeyError")
    assert second.state == OrderState.UNKNOWN


@pytest.mark.both_databases
def test_killed_after_submitting_was_written_it_is_only_asked_about(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    decision = desk.decide(action())
    desk.process(decision, trader_live=False)
    with desk.store.session() as session:
        session.exec(update(Order).values(state="submitting"))
    wire.deaf = {"lookup"}
    for _ in range(3):
        desk.process(decision)
        maintain_orders(desk.context())
    assert _only(desk).state == OrderState.UNKNOWN
    assert "submit" not in wire.calls
    again, other = desk.run(action(), action("BBB"))
    denied(again, DenialCode.UNRESOLVED)
    assert other.state == OrderState.FILLED


def test_an_order_that_the_broker_knows_no_more_is_unknown(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    desk.market.opens = {"AAA": None}  # type: ignore[attr-defined]
    assert desk.run(action())[0].state == OrderState.SUBMITTED
    wire.cut = {"lookup"}
    maintain_orders(desk.context())
    assert _only(desk).state == OrderState.SUBMITTED, "no answer tells nothing of an order that was acknowledged"
    wire.cut, wire.deaf = set(), {"lookup"}
    maintain_orders(desk.context())
    assert _only(desk).state == OrderState.UNKNOWN


def test_before_the_first_order_the_account_is_compared_or_nothing_is_sent(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    wire.cut = {"state"}
    (outcome,) = desk.run(action())
    assert "the wire is cut" in denied(outcome, DenialCode.NOT_RECONCILED)
    assert "submit" not in wire.calls
    wire.cut = set()
    assert desk.run(action())[0].state == OrderState.FILLED
    assert desk.run(action("BBB"))[0].state == OrderState.FILLED
    assert wire.calls.count("state") == 2, "once a start, and then each minute"
    assert wire.calls.index("state") < wire.calls.index("submit")


def test_an_unexplained_position_halts_before_the_first_order(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    desk.hold("BBB", 5)
    with desk.store.session() as session:
        session.connection().exec_driver_sql("update position set quantity = 7")
    (outcome,) = desk.run(action())
    assert "BBB" in denied(outcome, DenialCode.HALTED)
    assert "submit" not in wire.calls


def test_with_live_trading_off_no_request_reaches_the_broker(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    wire.cut = {"submit"}
    desk.run(action())
    before = list(wire.calls)
    decision = desk.decide(action("BBB"))
    desk.process(decision, trader_live=False)
    maintain_orders(desk.context(trader_live=False))
    assert wire.calls == before


@pytest.mark.both_databases
def test_cancels_pass_whichever_process_holds_the_account(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    desk.market.opens = {"AAA": None}  # type: ignore[attr-defined]
    (outcome,) = desk.run(action())
    accounts.take(desk.store, "paper", "another")
    with pytest.raises(FencedOff):
        maintain_orders(desk.context())
    wire.cut = {"cancel"}
    assert cancel_open(desk.context()) == [str(outcome.order_id)]
    wire.cut = set()
    cancel(desk.context(), str(outcome.order_id))
    assert _only(desk).state == OrderState.CANCELLED
    assert cancel_open(desk.context()) == []


@pytest.mark.both_databases
def test_a_database_that_takes_no_answer_keeps_no_cancel_from_the_broker(wired: tuple[Desk, Wire]) -> None:
    desk, wire = wired
    desk.market.opens = {"AAA": None, "BBB": None}  # type: ignore[attr-defined]
    asked = [str(row.order_id) for row in desk.run(action(), action("BBB"))]
    with desk.store.session() as session:
        refuse_updates(session)
    assert sorted(cancel_open(desk.context())) == sorted(asked)
    assert wire.calls.count("cancel") == 2


def test_what_the_broker_does_not_take_is_denied_when_drafted_and_again_before_it_is_sent(
    wired: tuple[Desk, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, wire = wired
    narrow = BrokerEntry("m", takes={"market": ("day",), "limit": ("day",), "stop": ("gtc",)}, options=False)
    waiting = desk.decide(action(timeInForce="gtc"))
    (before,) = desk.process(waiting, trader_live=False)
    assert before.state != OrderState.DENIED
    monkeypatch.setitem(BROKERS, "paper", narrow)
    (drafted,) = desk.run(action("BBB", orderType="limit", limitPrice=90, timeInForce="gtc"))
    assert "the broker paper takes no limit order that is gtc" in denied(drafted, DenialCode.MALFORMED)
    with desk.store.session() as session:
        session.exec(update(Order).where(col(Order.id) == before.order_id).values(state=OrderState.APPROVED))
    (after,) = desk.process(waiting)
    assert "takes no market order that is gtc" in denied(after, DenialCode.MALFORMED)
    assert "submit" not in wire.calls


def refuse_updates(session: Session) -> None:
    """Let every change of an order fail as on a full disk."""
    if session.connection().dialect.name == "sqlite":
        rule = """create trigger full before update on "order" begin select raise(abort, 'disk full'); end"""
    else:
        rule = """alter table "order" add constraint full_disk check (state = 'submitted')"""
    session.connection().exec_driver_sql(rule)
