"""Which other backtests count as trials of one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pytest
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.states import RunState
from chordesk.models.tables.runs import BacktestSession
from chordesk.tasks.measure.backtest_sessions import overlap, trials_of
from tests.builders import a_run

FIRST = dt.date(2010, 3, 1)


def days(first: int, last: int, every: int = 1) -> list[dt.date]:
    return [FIRST + dt.timedelta(days=day) for day in range(first, last + 1, every)]


def played(
    session: Session, on: Sequence[dt.date], worth: float, state: str = RunState.DONE, market: str = "replay"
) -> str:
    run = a_run(session, kind="backtest", params={}, state=state, market=market)
    for at, day in enumerate(on):
        row = {"state": "done", "equity": worth + at, "exposure": 0.1, "cash": 1.0, "traded": 0.0}
        session.add(BacktestSession(backtest_id=run.id, run_id=run.id, day=day, **row))
    session.flush()
    return run.id


@pytest.mark.parametrize(
    ("others", "share"),
    [
        (days(0, 39), 1.0),
        (days(0, 400), 1.0),
        (days(0, 40), 1.0),
        (days(20, 60), 0.5),
        (days(21, 60), 0.475),
        (days(1, 39, 5), 0.9),  # no session of every fifth day is shared by a walk that begins a day later
        (days(40, 60), 0.0),
        (days(10, 10), 0.025),
    ],
)
def test_days_overlap_from_first_to_last(others: list[dt.date], share: float) -> None:
    assert overlap(days(0, 39), others) == pytest.approx(share)


def test_one_session_more_does_not_reset_the_trials(store: Store) -> None:
    with store.session() as session:
        for at in range(5):
            played(session, days(0, 39), 100.0 + at)
        own = played(session, days(0, 40), 200.0)
        assert len(trials_of(session, own, days(0, 40))) == 5
        again = played(session, days(0, 40), 200.0)
        assert len(trials_of(session, again, days(0, 40))) == 5, "the same course is the same trial"
        played(session, days(2, 39, 5), 300.0)
        assert len(trials_of(session, own, days(0, 40))) == 6


def test_what_was_blocked_elsewhere_or_of_other_days_is_no_trial(store: Store) -> None:
    with store.session() as session:
        own = played(session, days(0, 39), 100.0)
        for state in (RunState.PARTIAL, RunState.STOPPED, RunState.FAILED, RunState.RUNNING):
            played(session, days(0, 39), 101.0, state)
        played(session, days(0, 39), 102.0, market="files")
        played(session, days(21, 80), 103.0)
        played(session, [], 104.0)
        assert trials_of(session, own, days(0, 39)) == []
