"""Closing everything: reduce-only, under the fence, with rows that name the person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.errors import FencedOff, OrderError
from chordesk.models.orders import BrokerPosition, BrokerState, DenialCode
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Preview
from chordesk.models.tables.runs import Decision, Run
from chordesk.tools.orders import accounts, audit, halting, kill_switch
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit_reading import check_logs
from chordesk.tools.orders.flow import maintain_orders
from chordesk.tools.orders.kill_switch import flatten, listed
from chordesk.tools.orders.submitting import SubmissionContext
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape
from tests.tools.orders.test_submitting import Wire

NewDesk = Callable[..., Desk]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CANCEL_SECONDS", "FILL_SECONDS", "PAUSE_SECONDS"):
        monkeypatch.setattr(kill_switch, name, getattr(kill_switch, name) / 50)


def _command(desk: Desk) -> SubmissionContext:
    return SubmissionContext(
        desk.store, desk.settings, desk.market, desk.broker, FencingLease(desk.store, "paper", "desk halt")
    )


def _halt(desk: Desk) -> None:
    halting.halt(desk.store, "paper", "fire", "somebody")


def test_every_position_is_closed_while_the_account_is_halted(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 7, 100.0)
    desk.hold("BBB", -3, 50.0)
    desk.hold("GONE", 2, 10.0)  # the market prices it no more
    _halt(desk)
    outcomes, left = desk.flatten(_command(desk), "somebody@here", "fire")
    assert {(row.symbol, row.side, row.quantity, row.state) for row in outcomes[:2]} == {
        ("AAA", "sell", 7.0, "filled"), ("BBB", "buy", 3.0, "filled"),
    }  # fmt: skip
    assert (outcomes[2].symbol, outcomes[2].price) == ("GONE", 10.0)
    assert outcomes[2].state != OrderState.FILLED
    assert left == []
    assert desk.positions() == {"GONE": 2}
    with desk.store.read() as session:
        run, decision = session.exec(select(Run)).one(), session.exec(select(Decision)).one()
        previews = session.exec(select(Preview)).all()
    assert (run.kind, run.state, run.provider, run.notes) == ("flatten", "done", "person", ["fire"])
    assert (decision.author, decision.turn_id, decision.reasoning) == ("somebody@here", None, "fire")
    assert len(previews) == 3
    assert all(row.fence == 1 for row in desk.orders())


class Shared:
    """A broker whose account has more than the desk bought, as a person's own has."""

    def __init__(self, desk: Desk, **more: float) -> None:
        self.broker, self.more, self.name = desk.broker, more, desk.broker.name
        self.real_money = desk.broker.real_money

    def __getattr__(self, name: str) -> Any:
        return getattr(self.broker, name)

    def state(self) -> BrokerState:
        state = self.broker.state()
        held = {row.symbol: row.quantity for row in state.positions}
        rows = held | {symbol: held.get(symbol, 0) + quantity for symbol, quantity in self.more.items()}
        positions = [BrokerPosition(symbol=name, quantity=rows[name], average_cost=1) for name in rows]
        return state.model_copy(update={"positions": positions})


def test_what_the_desk_never_bought_is_named_and_left_unless_all_is_told_to_go(new_desk: NewDesk) -> None:
    desk = new_desk(Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0, "DDD": 10.0}), allow_short=True)
    desk.hold("AAA", 7, 100.0)
    desk.hold("BBB", -3, 50.0)
    desk.hold("DDD", 4, 10.0)
    desk.broker = Shared(desk, AAA=5, BBB=10, CCC=2, DDD=-1)  # type: ignore[assignment]
    _halt(desk)
    done = flatten(_command(desk), "somebody", "fire")
    closed = {(row.symbol, row.side, row.quantity) for row in desk.outcomes(done.orders)}
    assert closed == {("AAA", "sell", 7), ("DDD", "sell", 3)}, (
        "BBB is long there, so nothing of the desk's is to be bought"
    )
    assert {row.symbol: row.quantity for row in done.others} == {"AAA": 5, "BBB": 7, "CCC": 2}
    assert listed(done.others) == "AAA 5, BBB 7, CCC 2"
    kept = [(row.symbol, row.quantity, row.why.partition("and ")[2]) for row in done.kept]
    assert kept == [("BBB", -3, "the broker shows 7"), ("DDD", 1, "the broker shows 3")]
    rest, left = desk.flatten(_command(desk), "somebody", "fire", everything=True)
    assert {(row.symbol, row.side, row.quantity) for row in rest} >= {("AAA", "sell", 5), ("CCC", "sell", 2)}
    assert left == []


@pytest.mark.both_databases
def test_a_trade_worker_is_fenced_off_meanwhile_and_may_go_on_after_it(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
    desk = new_desk(market)
    desk.run(action())

    def meanwhile() -> None:
        market.on_fill = None
        with pytest.raises(FencedOff, match="desk halt"):
            desk.run(action("BBB"))

    market.on_fill = meanwhile
    desk.flatten(_command(desk), "somebody", "fire")
    assert market.on_fill is None
    assert desk.positions() == {}
    assert desk.run(action("CCC"))[0].state == OrderState.FILLED


def test_nothing_is_closed_beside_an_order_with_an_unknown_end(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    desk.hold("BBB", 10, 50.0)
    wire = Wire(desk)
    desk.broker = wire
    wire.cut = {"submit", "lookup", "cancel"}
    (unknown,) = desk.run(action(kind="close"))
    assert unknown.state == OrderState.UNKNOWN
    wire.cut = {"lookup", "cancel"}
    _halt(desk)
    done = flatten(_command(desk), "somebody", "fire")
    assert done.left == [str(unknown.order_id)]
    assert [(row.symbol, row.state) for row in desk.outcomes(done.orders)] == [("BBB", "filled")]
    assert desk.positions() == {"AAA": 10}
    (kept,) = done.kept
    assert str(kept.error()).startswith(f"AAA: 10 held, not sold: order {unknown.order_id} (sell 10) is unknown")
    assert "desk reconcile" in kept.remedy


def test_open_orders_are_cancelled_before_their_positions_are_closed(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    assert desk.run(action(kind="reduce", quantity=4))[0].state == OrderState.SUBMITTED
    market.opens = {}
    (closed,), left = desk.flatten(_command(desk), "somebody", "fire")
    assert (closed.quantity, closed.state, left) == (10, "filled", [])
    assert sorted(row.state for row in desk.orders()) == ["cancelled", "filled"]
    assert desk.positions() == {}


def test_a_closing_order_that_rests_is_left_by_the_halt_and_taken_by_the_next_flattening(
    new_desk: NewDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_switch, "FILL_SECONDS", 0.0)
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    _halt(desk)
    assert [row.state for row in desk.flatten(_command(desk), "somebody", "fire")[0]] == ["submitted"]
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["submitted"]
    assert [row.state for row in desk.flatten(_command(desk), "somebody", "fire")[0]] == ["submitted"]
    assert [row.state for row in desk.orders()] == ["cancelled", "submitted"]
    market.opens = {}
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["cancelled", "filled"]
    assert desk.positions() == {}


def test_an_order_that_fills_a_moment_later_is_reported_as_filled(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    _halt(desk)

    def fills() -> None:
        market.opens = {}

    def takes() -> None:
        market.on_fill = fills

    market.on_fill = takes
    (closed,), _ = desk.flatten(_command(desk), "somebody", "fire")
    assert (closed.state, [fill.quantity for fill in closed.fills]) == ("filled", [10])


@pytest.mark.both_databases
def test_positions_are_closed_for_a_person_though_it_cannot_be_put_on_record(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"BBB": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    assert desk.run(action("BBB"))[0].state == OrderState.SUBMITTED
    log = desk.settings.home / "audit"
    aside = log.rename(desk.settings.home / "aside")
    log.write_text("in the way")
    with pytest.raises(OrderError, match="cannot be written"):
        desk.flatten(_command(desk), "somebody", "fire")
    assert desk.positions() == {"AAA": 10}
    with audit.best_effort() as unrecorded:
        (closed,), left = desk.flatten(_command(desk), "somebody", "fire")
    assert (closed.state, left, desk.positions()) == ("filled", [], {})
    assert {row.symbol: row.state for row in desk.orders()} == {"AAA": "filled", "BBB": "cancelled"}
    messages = " ".join(str(error) for error in unrecorded)
    assert all(kind in messages for kind in ("drafted, previewed, approved", "submitting", "answer, fill"))
    log.unlink()
    aside.rename(log)
    assert [chain.whole for chain in check_logs(desk.store, desk.settings)] == [True]


def test_with_nothing_held_nothing_is_written(new_desk: NewDesk) -> None:
    desk = new_desk()
    assert desk.flatten(_command(desk), "somebody", "fire") == ([], [])
    assert desk.orders() == []
    with desk.store.read() as session:
        assert session.exec(select(Run)).all() == []


@pytest.mark.both_databases
def test_another_holder_of_the_account_stops_a_flattening(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)
    desk.hold("AAA", 1, 100.0)
    desk.hold("BBB", 1, 50.0)

    def another() -> None:
        market.on_fill = None
        accounts.take(desk.store, "paper", "another")

    market.on_fill = another
    with pytest.raises(FencedOff, match="another"):
        desk.flatten(_command(desk), "somebody", "fire")
    assert desk.positions() == {"BBB": 1}


class Overtaken(Wire):
    """Paper broker whose account another process takes while a closing order is about to be sent."""

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self._desk = desk

    def state(self) -> BrokerState:
        found: BrokerState = self._call("state")
        if self._desk.orders():
            accounts.take(self._desk.store, "paper", "another")
        return found


def test_a_closing_order_is_not_sent_by_a_process_that_lost_the_account_just_now(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 1, 100.0)
    desk.broker = broker = Overtaken(desk)  # type: ignore[assignment]
    with pytest.raises(FencedOff, match="another"):
        desk.flatten(_command(desk), "somebody", "fire")
    assert "submit" not in broker.calls
    assert desk.positions() == {"AAA": 1}


class Thief(Wire):
    """Paper broker with an account that a person sells from by hand while a flattening is under way."""

    def __init__(self, desk: Desk, symbol: str) -> None:
        super().__init__(desk)
        self._symbol = symbol

    def state(self) -> BrokerState:
        state: BrokerState = super().state()
        kept = [row for row in state.positions if not ("submit" in self.calls and row.symbol == self._symbol)]
        return state.model_copy(update={"positions": kept})


def test_a_position_that_is_gone_is_not_sold_and_the_rest_is(new_desk: NewDesk) -> None:
    desk = new_desk()
    for symbol, price in (("AAA", 100.0), ("BBB", 50.0), ("CCC", 20.0)):
        desk.hold(symbol, 5, price)
    desk.broker = broker = Thief(desk, "BBB")
    outcomes = desk.flatten(_command(desk), "somebody", "fire")[0]
    assert [(row.symbol, row.state) for row in outcomes] == [("AAA", "filled"), ("BBB", "denied"), ("CCC", "filled")]
    denied(outcomes[1], DenialCode.REDUCING)
    assert broker.calls.count("submit") == 2
