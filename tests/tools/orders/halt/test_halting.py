"""The kill switch: a file and a row, asked within the submit step itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlmodel import col, select, update

from chordesk.models.errors import FencedOff, OrderError
from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order, Preview, Trading
from chordesk.tools.orders import accounts, approvals, halting
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from chordesk.tools.orders.flow import maintain_orders
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape
from tests.tools.orders.test_submitting import Wire

NewDesk = Callable[..., Desk]


def _halt(desk: Desk, why: str = "a test") -> list[str]:
    """As the command and reconciling do; the ids of the orders that were denied."""
    done = halting.halt(desk.store, "paper", why, "somebody")
    with desk.store.session() as session:
        halting.record(session, desk.settings, done)
    return list(done.orders)


def _resume(desk: Desk) -> None:
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    halting.remove_file(desk.settings)


def _state(desk: Desk) -> tuple[TradingState, str]:
    with desk.store.read() as session:
        return halting.trading_state(session, desk.settings, "paper")


def _left_by_a_lost_worker(desk: Desk, state: str) -> str:
    """Return a decision with one order that got no further than this state."""
    decision = desk.decide(action())
    desk.process(decision, trader_live=False)
    with desk.store.session() as session:
        session.exec(update(Order).values(state=state))
        if state == "drafted":
            session.delete(session.exec(select(Preview)).one())
    return decision


def test_the_file_wins_over_the_row(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    assert _state(desk)[0] is TradingState.REDUCING
    path = halting.write_file(desk.settings, "fire", "somebody")
    state, why = _state(desk)
    assert state is TradingState.HALTED
    assert "fire (somebody" in why
    assert str(path) in why


@pytest.mark.parametrize("content", ["folder", "bytes", "empty", "dangling link"])
def test_a_file_that_is_unreadable_or_empty_halts(new_desk: NewDesk, content: str) -> None:
    desk = new_desk()
    path = halting.halt_file(desk.settings)
    if content == "folder":
        path.mkdir()
    elif content == "dangling link":
        path.symlink_to(path.with_name("gone"))
    else:
        path.write_bytes(b"\xff\xfe" if content == "bytes" else b"")
    assert _state(desk)[0] is TradingState.HALTED
    assert halting.enforce_file(desk.store, desk.settings, "paper", "the trade queue") is not None


def test_a_row_with_an_unknown_state_halts(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        session.add(Trading(account="paper", state="calm", why="", by="somebody"))
    assert _state(desk)[0] is TradingState.HALTED


@pytest.mark.parametrize("by", ["file", "row"])
def test_halted_everything_is_denied_and_resume_lets_it_go_on(new_desk: NewDesk, by: str) -> None:
    desk = new_desk()
    if by == "file":
        halting.write_file(desk.settings, "fire", "somebody")
    else:
        _halt(desk, "fire")
    (outcome,) = desk.run(action())
    assert "fire" in denied(outcome, DenialCode.HALTED)
    _resume(desk)
    assert _state(desk) == (TradingState.ACTIVE, "")
    assert desk.run(action())[0].state == OrderState.FILLED


@pytest.mark.parametrize("by", ["file", "row"])
def test_a_halt_while_an_order_is_with_the_broker_stops_the_next_one(new_desk: NewDesk, by: str) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0})
    desk = new_desk(market)

    def stop() -> None:
        market.on_fill = None
        if by == "file":
            halting.write_file(desk.settings, "fire", "somebody")
        else:
            _halt(desk)

    market.on_fill = stop
    first, second = desk.run(action(), action("BBB"))
    assert first.state == OrderState.FILLED
    denied(second, DenialCode.HALTED)


def test_an_order_that_a_halt_did_not_see_is_cancelled_by_its_sender(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)

    def stop() -> None:
        market.on_fill = None
        _halt(desk)

    market.on_fill = stop
    (outcome,) = desk.run(action())
    assert outcome.state == OrderState.CANCELLED


@pytest.mark.both_databases
def test_a_halt_denies_what_waits_and_the_trade_queue_cancels_what_is_open(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": None})
    desk = new_desk(market, approval="above:600")
    resting, waiting = desk.run(action(quantity=5), action("BBB", quantity=20))
    assert (resting.state, waiting.state) == ("submitted", "approval_pending")
    assert _halt(desk) == [str(waiting.order_id)]
    maintain_orders(desk.context())
    assert {row.symbol: row.state for row in desk.orders()} == {"AAA": "cancelled", "BBB": "denied"}
    assert maintain_orders(desk.context())["open"] == 0


@pytest.mark.parametrize("state", ["drafted", "previewed"])
def test_an_unsent_order_of_a_lost_worker_is_denied_by_a_halt_for_good(new_desk: NewDesk, state: str) -> None:
    desk = new_desk()
    decision = _left_by_a_lost_worker(desk, state)
    assert _halt(desk, "fire") == [row.id for row in desk.orders()]
    _resume(desk)
    (outcome,) = desk.process(decision)
    denied(outcome, DenialCode.HALTED)
    assert desk.positions() == {}


@pytest.mark.parametrize("state", ["drafted", "previewed", "approved"])
def test_a_resume_denies_orders_of_a_lost_worker_while_the_file_alone_halted(new_desk: NewDesk, state: str) -> None:
    desk = new_desk()
    decision = _left_by_a_lost_worker(desk, state)
    halting.write_file(desk.settings, "fire", "somebody")
    _resume(desk)
    (outcome,) = desk.process(decision)
    assert "fire" in denied(outcome, DenialCode.HALTED)
    assert desk.positions() == {}
    (log,) = check_logs(desk.store, desk.settings)
    assert log.whole


def test_the_trade_queue_makes_the_file_alone_a_halt_that_outlives_it(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (waiting,) = desk.run(action())
    assert waiting.state == "approval_pending"
    halting.write_file(desk.settings, "fire", "somebody")
    maintain_orders(desk.context(trader_live=False))
    assert [row.denial_code for row in desk.orders()] == ["halted"]
    with desk.store.read() as session:
        assert approvals.pending(session) == []
    halting.remove_file(desk.settings)
    state, why = _state(desk)
    assert state is TradingState.HALTED
    assert "fire (somebody" in why


@pytest.mark.both_databases
def test_a_fenced_off_halt_leaves_the_file_to_the_valid_one(new_desk: NewDesk) -> None:
    """A halt that no process puts on record would be one without a line in the log."""
    desk = new_desk()
    desk.lease.acquire()
    accounts.take(desk.store, "paper", "another")
    halting.write_file(desk.settings, "fire", "somebody")
    with pytest.raises(FencedOff):
        maintain_orders(desk.context())
    with desk.store.read() as session:
        assert session.get(Trading, "paper") is None
    desk.lease = FencingLease(desk.store, "paper", "the next one")
    maintain_orders(desk.context())
    assert "halt" in [one.kind for one in _log(desk)]


def test_a_file_that_a_resume_is_about_to_remove_halts_nothing_anew(new_desk: NewDesk) -> None:
    desk = new_desk()
    halting.write_file(desk.settings, "fire", "somebody")
    _halt(desk, "fire")
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    maintain_orders(desk.context())
    halting.remove_file(desk.settings)
    assert _state(desk)[0] is TradingState.ACTIVE


@pytest.mark.parametrize("by", ["file", "row"])
def test_comparing_a_halted_account_cancels_what_asking_about_would_fill(new_desk: NewDesk, by: str) -> None:
    desk = new_desk()
    wire = desk.broker = Wire(desk)
    _left_by_a_lost_worker(desk, "submitting")
    if by == "file":
        halting.write_file(desk.settings, "fire", "somebody")
    else:
        _halt(desk)
    assert reconcile(desk.store, desk.settings, wire, "a person").agreed
    assert [row.state for row in desk.orders()] == ["cancelled"]
    assert desk.positions() == {}


@pytest.mark.both_databases
@pytest.mark.parametrize("by", ["file", "row"])
@pytest.mark.parametrize("again", ["look", "delivery"])
def test_an_order_in_flight_of_a_lost_worker_is_cancelled_at_once(new_desk: NewDesk, by: str, again: str) -> None:
    """On paper to ask about an order is to fill it."""
    desk = new_desk()
    wire = desk.broker = Wire(desk)
    decision = _left_by_a_lost_worker(desk, "submitting")
    if by == "file":
        halting.write_file(desk.settings, "fire", "somebody")
    else:
        _halt(desk)
    if again == "look":
        maintain_orders(desk.context())
    else:
        desk.process(decision)
    assert [row.state for row in desk.orders()] == ["cancelled"]
    assert desk.positions() == {}
    assert wire.calls[0] == "cancel"
    assert "lookup" not in wire.calls


def test_a_question_that_a_halt_overtakes_is_closed_with_its_order(new_desk: NewDesk) -> None:
    desk = new_desk(approval="above:600")
    _, waiting = desk.run(action(quantity=5), action("BBB", quantity=20))
    _halt(desk, "fire")
    with desk.store.read() as session:
        question = session.exec(select(Approval)).one()
        assert approvals.pending(session) == []
    assert (question.state, question.decided_by) == ("denied", "desk")
    assert question.why is not None
    assert question.why.startswith("halted: trading of paper is halted: fire")
    assert question.decided_at is not None
    with (
        pytest.raises(OrderError, match=r"waits for no person: it is denied, halted: .*fire"),
        desk.store.session() as session,
    ):
        approvals.decide(session, desk.settings, question.id, True, "somebody", None)
    lines = [entry for entry in _log(desk) if entry.facts.get("order") == str(waiting.order_id)]
    assert [entry.kind for entry in lines][-2:] == ["denied", "approval_decided"]
    assert (lines[-1].facts["by"], lines[-1].facts["state"]) == ("desk", "denied")
    assert maintain_orders(desk.context())["expired"] == 0


def test_a_halt_of_one_account_leaves_the_questions_of_another(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    desk.run(action())
    done = halting.halt(desk.store, "alpaca-paper", "fire", "somebody")
    assert (done.orders, done.questions) == ((), {})
    with desk.store.read() as session:
        assert len(approvals.pending(session)) == 1


# A log that cannot be written


def _block(desk: Desk) -> None:
    """Put something where the log's folder was; `_clear` takes it away."""
    folder = desk.settings.home / "audit"
    if folder.exists():
        folder.rename(desk.settings.home / "aside")
    folder.write_text("in the way")


def _clear(desk: Desk) -> None:
    folder = desk.settings.home / "audit"
    folder.unlink()
    (desk.settings.home / "aside").rename(folder)


@pytest.mark.both_databases
def test_a_halt_is_in_force_whether_or_not_it_can_be_put_on_record(new_desk: NewDesk) -> None:
    desk = new_desk(approval="manual")
    (waiting,) = desk.run(action())
    _block(desk)
    with pytest.raises(OrderError, match="cannot be written"):
        _halt(desk, "fire")
    assert _state(desk)[0] is TradingState.HALTED
    assert [(row.id, row.state) for row in desk.orders()] == [(str(waiting.order_id), "denied")]
    with desk.store.read() as session:
        assert session.exec(select(Approval)).one().state == "denied"


@pytest.mark.both_databases
def test_the_trade_queue_cancels_what_is_open_though_it_cannot_write_it_down(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0}, opens={"AAA": None, "BBB": None, "CCC": None})
    desk = new_desk(market, approval="above:900")
    wire = desk.broker = Wire(desk)
    desk.run(action(), action("BBB"), action("CCC"))  # the first one waits for a person
    assert sorted(row.state for row in desk.orders()) == ["approval_pending", "submitted", "submitted"]
    with desk.store.session() as session:  # as after a crash: the broker's answer was lost
        session.exec(update(Order).where(col(Order.symbol) == "BBB").values(state="submitting"))
        session.exec(update(Approval).values(expires_at=utcnow()))
    halting.write_file(desk.settings, "fire", "somebody")
    _block(desk)
    with pytest.raises(OrderError, match=r"cannot be written \(halt, denied, approval_decided\)"):
        maintain_orders(desk.context())
    assert wire.calls.count("cancel") == 2
    _clear(desk)
    maintain_orders(desk.context())
    assert sorted(row.state for row in desk.orders()) == ["cancelled", "cancelled", "denied"]
    assert all(chain.whole for chain in check_logs(desk.store, desk.settings))


def test_a_resume_that_cannot_be_put_on_record_resumes_nothing(new_desk: NewDesk) -> None:
    desk = new_desk()
    path = halting.write_file(desk.settings, "fire", "somebody")
    _block(desk)
    with pytest.raises(OrderError, match="cannot be written"):
        _resume(desk)
    assert path.exists()
    assert _state(desk)[0] is TradingState.HALTED


@pytest.mark.parametrize("what", ["written", "removed"])
def test_a_halt_file_that_is_in_the_way_is_named(new_desk: NewDesk, what: str) -> None:
    desk = new_desk()
    path = halting.halt_file(desk.settings)
    path.mkdir()
    with pytest.raises(OrderError, match=f"the HALT file {path} cannot be {what}"):
        if what == "written":
            halting.write_file(desk.settings, "fire", "somebody")
        else:
            halting.remove_file(desk.settings)


def _log(desk: Desk) -> list[AuditEntry]:
    (chain,) = check_logs(desk.store, desk.settings)
    assert chain.whole
    return last_entries([chain], 1000)


def test_each_change_is_on_record(new_desk: NewDesk) -> None:
    desk = new_desk()
    _halt(desk)
    desk.run(action())
    _resume(desk)
    desk.run(action())
    kinds = [entry.kind for entry in _log(desk) if entry.kind not in ("opened", "reconciled")]
    assert kinds == [
        "halt", "decision", "drafted", "denied", "resume",
        "decision", "drafted", "previewed", "approved", "submitting", "answer", "fill",
    ]  # fmt: skip


def test_reducing_cancels_open_orders_that_would_take_exposure_on(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": None, "BBB": None})
    desk = new_desk(market)
    desk.hold("BBB", 10, 50.0)
    desk.run(action(), action("BBB", "close"))
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    market.opens = {}
    maintain_orders(desk.context())
    assert {row.symbol: row.state for row in desk.orders()} == {"AAA": "cancelled", "BBB": "filled"}
    assert desk.positions() == {}


def test_reducing_cancels_what_sells_more_than_is_held(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    desk.run(action(kind="close"))
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["submitted"]
    desk.hold("AAA", -1, 100.0)
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["cancelled"]


def test_reducing_lets_exposure_be_given_back_alone(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    sold, bought = desk.run(action(kind="close"), action("BBB"))
    assert sold.state == OrderState.FILLED
    denied(bought, DenialCode.REDUCING)
