"""The record of written reports: which runs lack one, and a claim on each so that one process at a time writes it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy
from sqlalchemy import update
from sqlalchemy.dialects import postgresql, sqlite
from sqlmodel import Session, col, select

from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.states import RUN_FINAL, DocumentState, RunKind
from chordesk.models.tables.runs import Run, RunDocumentCopy

# Runs that ended longer ago and have no report are left alone: one who names a place today wants no years of them.
CATCH_UP = dt.timedelta(days=7)
HELD = dt.timedelta(minutes=5)  # for a process that writes; after that another one tries
MOST_TRIES = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 3600.0  # seconds
_LONGEST = 500  # characters of an error
_TABLE: sqlalchemy.Table = RunDocumentCopy.__table__  # type: ignore[attr-defined]


def add_ended(session: Session, place: str, now: dt.datetime) -> None:
    """Make the reports due of all runs that ended lately. The runs of a backtest's days are in the backtest's own."""
    own = sqlalchemy.or_(~col(Run.account).startswith(BACKTEST), col(Run.kind) == RunKind.BACKTEST)
    known = select(RunDocumentCopy.run_id).where(RunDocumentCopy.run_id == Run.id)
    ended = session.exec(
        select(Run.id).where(
            col(Run.state).in_(RUN_FINAL), col(Run.finished_at) >= now - CATCH_UP, own, ~known.exists()
        )
    ).all()
    if ended:
        insert = (sqlite if session.get_bind().dialect.name == "sqlite" else postgresql).insert(_TABLE)
        rows = [{"run_id": id_, "state": DocumentState.DUE, "place": place, "tries": 0, "due_at": now} for id_ in ended]
        session.connection().execute(insert.on_conflict_do_nothing(index_elements=["run_id"]), rows)


def due(session: Session, now: dt.datetime, most: int) -> Sequence[str]:
    """Return the runs with a report that is due, the longest due first."""
    rows = select(RunDocumentCopy.run_id).where(
        RunDocumentCopy.state == DocumentState.DUE, col(RunDocumentCopy.due_at) <= now
    )
    return session.exec(rows.order_by(col(RunDocumentCopy.due_at)).limit(most)).all()


def claim(session: Session, run_id: str, now: dt.datetime) -> bool:
    """Take the report of a run for this process, and count the try; False when another one has it."""
    taken = (
        update(_TABLE)
        .where(_TABLE.c.run_id == run_id, _TABLE.c.state == DocumentState.DUE, _TABLE.c.due_at <= now)
        .values(due_at=now + HELD, tries=_TABLE.c.tries + 1)
    )
    return session.connection().execute(taken).rowcount == 1


def written(session: Session, run_id: str, place: str, now: dt.datetime) -> None:
    row = session.get_one(RunDocumentCopy, run_id)
    row.state, row.place, row.error, row.written_at = DocumentState.WRITTEN, place, None, now
    session.add(row)


def failed(session: Session, run_id: str, why: str, now: dt.datetime) -> bool:
    """Record a failure, and return whether another try follows."""
    row = session.get_one(RunDocumentCopy, run_id)
    row.error, row.due_at = why[:_LONGEST], now + dt.timedelta(seconds=pause(row.tries))
    row.state = DocumentState.DUE if row.tries < MOST_TRIES else DocumentState.FAILED
    session.add(row)
    return row.state == DocumentState.DUE


def pause(tries: int) -> float:
    """Return the seconds until the next try after so many."""
    return float(min(_FIRST_PAUSE * 2 ** max(tries - 1, 0), _LONGEST_PAUSE))
