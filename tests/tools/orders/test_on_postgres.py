"""What only a real PostgreSQL shows: transactions of several writers at once, on orders, halts and the log."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest
from sqlmodel import Session, select

from chordesk.models.errors import FencedOff
from chordesk.models.states import TradingState
from chordesk.models.tables.orders import Account, Order
from chordesk.tools.orders import halting
from chordesk.tools.orders.audit import record
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from tests.patience import PATIENCE
from tests.tools.orders.desk import Desk, action

pytestmark = [
    pytest.mark.postgres,
    pytest.mark.process,
    pytest.mark.parametrize("dialect", ["postgres"], indirect=True),
]
NewDesk = Callable[..., Desk]
WRITERS, EACH = 6, 15


def test_a_reading_transaction_keeps_one_view_whatever_is_halted_meanwhile(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    with desk.store.read() as session:
        assert session.exec(select(Order)).all() == []  # from here on it is this view
        halting.halt(desk.store, "paper", "a test", "somebody")
        assert halting.trading_state(session, desk.settings, "paper")[0] is TradingState.ACTIVE
    with desk.store.read() as session:
        assert halting.trading_state(session, desk.settings, "paper")[0] is TradingState.HALTED


def _until_held(desk: Desk, decision: str) -> None:
    """As the trade queue does: a resume gives the account back, and the step is tried again."""
    while True:
        with contextlib.suppress(FencedOff):
            desk.process(decision)
            return


def test_halts_and_decisions_at_the_same_time_do_not_lock_each_other_out(new_desk: NewDesk) -> None:
    desk = new_desk()
    decisions = [desk.decide(action(symbol)) for symbol in ("AAA", "BBB", "CCC")]
    failures: list[BaseException] = []

    def switch() -> None:
        for number in range(6):
            if number % 2:
                with desk.store.session() as session:
                    halting.resume(session, desk.settings, "paper", "somebody")
            else:
                halting.halt(desk.store, "paper", "a test", "somebody")

    def trade() -> None:
        for decision in decisions:
            _until_held(desk, decision)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (switch, trade)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
    assert {row.state for row in desk.orders()} <= {"filled", "denied", "cancelled"}
    assert {row.denial_code for row in desk.orders() if row.state == "denied"} <= {"halted"}


def test_many_writers_begin_and_write_one_chain(new_desk: NewDesk) -> None:
    """Half of them lock another row before they record, half after: the log's lock is always the last, so that no two
    wait for each other."""
    desk = new_desk()
    store, settings = desk.store, desk.settings
    with store.session() as session:
        session.add(Account(name="paper", cash=0.0))
    failed: list[BaseException] = []
    at_once = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        try:
            at_once.wait(PATIENCE)
            for number in range(EACH):
                with store.session() as session:
                    if writer % 2:
                        _touch(session)
                    record(session, settings, "busy", writer=writer, number=number)
                    if not writer % 2:
                        _touch(session)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert failed == []
    (checked,) = check_logs(store, settings)
    assert checked.reading.problems == []
    busy = [entry.facts for entry in last_entries([checked], 1000) if entry.kind == "busy"]
    for writer in range(WRITERS):
        assert [facts["number"] for facts in busy if facts["writer"] == writer] == list(range(EACH))
    with store.read() as session:
        assert session.get_one(Account, "paper").cash == WRITERS * EACH


def _touch(session: Session) -> None:
    account = session.get_one(Account, "paper", with_for_update=True, populate_existing=True)
    account.cash += 1
    session.add(account)
