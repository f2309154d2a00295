"""The desk at a glance, in one read: what runs, what waits for a person, the account, queues, and what comes next."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.room import Shortage, shortages
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST, Standing, standing_of
from chordesk.models.states import RUN_LIVE, RunKind, RunState
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import Run
from chordesk.tasks.approvals import WaitingOrder, WaitingRequest, waiting
from chordesk.tasks.engine.budgets import DayUse, use_of_day
from chordesk.tasks.reading.desk_status import DatabaseState, database_state
from chordesk.tasks.reading.run_details import outcome
from chordesk.tasks.reading.runs import Progress, progress
from chordesk.tasks.schedules import starting


class ScheduledRun(Frozen):
    """A run that the schedule starts. name: of its entry; at: the first time from now on, on a session of the
    exchange."""

    name: str
    kind: str
    at: dt.datetime


MOST_RUNS = 20


class RunningRun(Frozen):
    """A run that has not ended, with its progress."""

    run: Row[Run]
    symbols: list[str]
    progress: Progress


TROUBLE_HOURS = 24
MOST_TROUBLES = 10


class LastRun(Frozen):
    """A run that nobody but a person or the schedule started, and what it did as one sentence."""

    run_id: str
    kind: str
    state: str
    at: dt.datetime
    said: str


class Glance(Frozen):
    """The desk now. runs: the newest that have not ended, of all_runs; waiting: orders first, then models' requests,
    the oldest first of each; scheduled: the soonest first; short: on this
    machine; last: the newest run, None before the first; troubles: runs of the last TROUBLE_HOURS that failed or are
    not whole; spent: today, of budget_tokens (0: no limit)."""

    at: dt.datetime
    standing: Standing
    runs: list[RunningRun]
    all_runs: int
    waiting: list[WaitingOrder | WaitingRequest]
    database: DatabaseState
    scheduled: list[ScheduledRun]
    short: list[Shortage]
    last: LastRun | None
    troubles: list[LastRun]
    spent: DayUse
    budget_tokens: int


def glance(session: Session, settings: Settings, now: dt.datetime) -> Glance:
    """Return the desk as the database has it. now: real time, which the schedule goes by."""
    standing = standing_of(settings)
    return Glance(
        at=now,
        standing=standing,
        runs=running_runs(session, settings),
        all_runs=session.exec(select(func.count()).where(col(Run.state).in_(RUN_LIVE))).one(),
        waiting=waiting(session),
        database=database_state(session, settings),
        scheduled=[ScheduledRun(name=one.name, kind=one.kind, at=at) for one, at in starting(session, settings, now)],
        short=shortages(settings),
        last=next(iter(_last_runs(session, 1)), None),
        troubles=_last_runs(
            session,
            MOST_TROUBLES,
            col(Run.created_at) > now - dt.timedelta(hours=TROUBLE_HOURS),
            col(Run.state).in_((RunState.FAILED, RunState.PARTIAL)),
        ),
        spent=use_of_day(session, settings),
        budget_tokens=settings.budget_day_tokens,
    )


def _last_runs(session: Session, most: int, *conditions: Any) -> list[LastRun]:
    played = col(Run.account).startswith(BACKTEST)  # its days trade by themselves
    own = col(Run.parent_run_id).is_(None) | ((col(Run.kind) == RunKind.TRADE) & ~played)
    runs = session.exec(select(Run).where(own, *conditions).order_by(col(Run.created_at).desc()).limit(most)).all()
    return [
        LastRun(run_id=run.id, kind=run.kind, state=run.state, at=run.created_at, said=outcome(session, run))
        for run in runs
    ]


def running_runs(session: Session, settings: Settings, most: int = MOST_RUNS) -> list[RunningRun]:
    rows = session.exec(
        select(Run).where(col(Run.state).in_(RUN_LIVE)).order_by(col(Run.created_at).desc()).limit(most)
    ).all()
    return [_running(session, settings, row) for row in rows]


def _running(session: Session, settings: Settings, run: Run) -> RunningRun:
    symbols = [str(symbol) for symbol in run.params.get("symbols") or ()]
    # Of a screen they are the whole universe.
    seen = progress(session, run.id, settings)
    return RunningRun(run=run, symbols=[] if run.kind == "screen" else symbols, progress=seen)
