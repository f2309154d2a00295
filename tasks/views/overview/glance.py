"""The desk at a glance, in one read: what runs, what waits for a person, the account, queues, and what comes next."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import Standing, standing_of
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.approvals import WaitingOrder, WaitingRequest, waiting
from chordesk.tasks.views.overview.schedule import ScheduledRun, next_runs
from chordesk.tasks.views.run_view import Progress, progress
from chordesk.tasks.views.status import DatabaseState, database_state
from chordesk.tasks.views.trading.equity import EquityNow, equity_now

MOST_RUNS = 20


class RunningRun(Frozen):
    """A run that has not ended, with its progress. schedule: the entry that started it, None for a person's."""

    run_id: str
    kind: str
    account: str
    market_now: dt.datetime
    created_at: dt.datetime
    deadline_at: dt.datetime
    schedule: str | None
    symbols: list[str]
    progress: Progress


class Glance(Frozen):
    """The desk now. runs: the newest that have not ended, of all_runs; waiting: orders first, then models' requests,
    the oldest first of each; equity: None while the account has no mark; scheduled: the soonest first."""

    at: dt.datetime
    standing: Standing
    runs: list[RunningRun]
    all_runs: int
    waiting: list[WaitingOrder | WaitingRequest]
    equity: EquityNow | None
    database: DatabaseState
    scheduled: list[ScheduledRun]


def glance(session: Session, settings: Settings, now: dt.datetime) -> Glance:
    """Return the desk as the database has it. now: real time, which the schedule goes by."""
    standing = standing_of(settings)
    return Glance(
        at=now,
        standing=standing,
        runs=running_runs(session),
        all_runs=session.exec(select(func.count()).where(col(Run.state).not_in(RUN_FINAL))).one(),
        waiting=waiting(session),
        equity=equity_now(session, settings.account, standing.day),
        database=database_state(session, settings),
        scheduled=next_runs(settings, now),
    )


def running_runs(session: Session, most: int = MOST_RUNS) -> list[RunningRun]:
    """Return the runs that have not ended, the newest first."""
    rows = session.exec(
        select(Run).where(col(Run.state).not_in(RUN_FINAL)).order_by(col(Run.created_at).desc()).limit(most)
    ).all()
    return [_running(session, row) for row in rows]


def _running(session: Session, run: Run) -> RunningRun:
    symbols = [str(symbol) for symbol in run.params.get("symbols") or ()]
    # Of a screen they are the whole universe.
    return RunningRun.of(
        run, run_id=run.id, symbols=[] if run.kind == "screen" else symbols, progress=progress(session, run.id)
    )
