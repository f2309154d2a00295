"""What keeps the desk from trading and what went wrong: halts with what they denied, and nothing of backtests among the
account's own."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import update

from chordesk.models.states import RunState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.tasks.reading.desk_status import glance
from chordesk.tasks.reading.order_history import list_orders, newest_order
from chordesk.tasks.reading.troubles import halts, troubles
from chordesk.tools.orders import halting
from tests.builders import a_run
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.tape import Tape


@pytest.fixture
def desk(template_db: Path, tmp_path: Path) -> Iterator[Desk]:
    made = make_desk(template_db, tmp_path / "desk", Tape({"AAA": 100.0, "BBB": 50.0}))
    yield made
    made.store.close()


def test_a_halt_says_who_when_why_and_what_it_denied(desk: Desk) -> None:
    desk.run(action("BBB", quantity=1_000_000))
    halting.write_file(desk.settings, "fire", "ann")
    halting.halt(desk.store, "paper", "fire", "ann")
    for symbol in ("AAA", "AAA", "BBB"):
        desk.run(action(symbol))
    with desk.store.read() as session:
        (found,) = halts(session, desk.settings)
        went_wrong = troubles(session, desk.settings, utcnow())
    assert (found.account, found.own, found.state, found.why, found.by) == (
        "paper", True, TradingState.HALTED, "fire", "ann",
    )  # fmt: skip
    assert found.newest is not None
    assert (found.denied, found.newest.symbol, found.played, found.resume) == (3, "BBB", 0, "desk resume")
    assert [(one.kind, one.state, one.count) for one in went_wrong] == [
        ("orders", "denied", 3),
        ("orders", "denied", 1),
    ]
    assert went_wrong[0].said.startswith("3 orders of paper denied as halted, the newest open BBB: trading of paper")


def test_a_file_written_by_hand_halts_without_a_name(desk: Desk) -> None:
    halting.halt_file(desk.settings).write_text("the office burns\n")
    with desk.store.read() as session:
        (found,) = halts(session, desk.settings)
    assert (found.by, found.denied, found.why.startswith("the office burns (")) == (None, 0, True)
    assert f"{found}".endswith("; no order denied since")


def test_nothing_of_a_backtest_stands_among_the_accounts_own(desk: Desk) -> None:
    desk.run(action("AAA"))
    desk.run(action("BBB", quantity=1_000_000))
    own, played = desk.orders()
    with desk.store.session() as session:
        session.execute(update(Order).where(Order.id == played.id).values(account="backtest-1"))  # type: ignore[arg-type]
        day = a_run(session, kind="screen", account="backtest-1", state=RunState.RUNNING)
        mine = a_run(session, kind="screen", state=RunState.RUNNING, created_at=utcnow() - dt.timedelta(hours=1))
    with desk.store.read() as session:
        assert newest_order(session, "paper").id == own.id
        listed = [list_orders(session, None, None, None, 9, but_backtests=one) for one in ("paper", None)]
        shown = glance(session, desk.settings, utcnow())
    assert [len(rows) for rows in listed] == [1, 2]
    assert shown.troubles == []
    runs = [one.run.id for one in shown.runs]
    assert (runs[-1], mine.id in runs) == (day.id, True), "the newer day of a backtest comes last"
