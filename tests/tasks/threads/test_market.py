"""The market of a question in a fork: that of the history which the fork continues."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.thread_actions import market_of_thread
from tests.builders import a_run, a_step, a_turn
from tests.databases import make_database

DAYS = (dt.date(2010, 8, 10), dt.date(2010, 8, 11))
HERE = dt.date(2010, 8, 12)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Yield a desk on 2010-08-12 with a thread of two runs, each on a day of its own, and a fork before each turn."""
    made = Desk(load_settings({"DESK_HOME": str(tmp_path), "DESK_REPLAY_DATE": str(HERE)}, tmp_path))
    make_database(made.settings.database)
    kept = {"role": "risk", "subject": "IBM", "mode": "other", "model": "m", "reason": "initial", "worker": "w"}
    with made.store.session() as session:
        session.add(KeptThread(thread_id="parent", **kept))
        for number, day in enumerate(DAYS, start=1):
            run = a_run(
                session, market="replay", market_now=dt.datetime(day.year, day.month, day.day, 20, tzinfo=dt.UTC)
            )
            at = dt.datetime(2026, 11, 20, number, tzinfo=dt.UTC)
            a_turn(session, a_step(session, run), thread_id="parent", codex_turn_id=f"turn-{number}", started_at=at)
        session.add(KeptThread(thread_id="fork-2", parent_id="parent", before_turn="turn-2", **kept))
        session.add(KeptThread(thread_id="fork-of-all", parent_id="parent", **kept))
        session.add(KeptThread(thread_id="alone", **kept))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("thread", "before_turn", "day"),
    [
        ("parent", None, DAYS[1]),
        ("parent", "turn-2", DAYS[0]),
        ("fork-2", None, DAYS[0]),
        ("fork-of-all", None, DAYS[1]),
        ("alone", None, HERE),
    ],
)
def test_a_question_in_a_fork_is_on_the_market_day_of_its_history(
    desk: Desk, thread: str, before_turn: str | None, day: dt.date
) -> None:
    assert market_of_thread(desk, thread, before_turn).clock.now().date() == day
