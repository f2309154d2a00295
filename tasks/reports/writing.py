"""The pass that writes the reports of runs that ended, to the place of DESK_REPORT_URL. It never fails a run: that is
over already, and a report that cannot be written is tried again later."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import sqlalchemy
import structlog
from celery import Task, shared_task
from sqlalchemy import update
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.errors import DeskError
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.states import RUN_FINAL, DocumentState, RunKind
from chordesk.models.tables.columns import dialect_insert, utcnow
from chordesk.models.tables.runs import Run, RunDocumentCopy
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.worker.messages import REPORTS_PASS

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
            col(Run.state).in_(RUN_FINAL),
            col(Run.finished_at) >= now - CATCH_UP,
            own,
            ~known.exists(),
            col(Run.kind).not_in(features.places("asides")),
        )
    ).all()
    if ended:
        rows = [{"run_id": id_, "state": DocumentState.DUE, "place": place, "tries": 0, "due_at": now} for id_ in ended]
        new = dialect_insert(session, RunDocumentCopy)
        session.connection().execute(new.on_conflict_do_nothing(index_elements=["run_id"]), rows)


def due_runs(session: Session, now: dt.datetime, most: int) -> Sequence[str]:
    rows = select(RunDocumentCopy.run_id).where(
        RunDocumentCopy.state == DocumentState.DUE, col(RunDocumentCopy.due_at) <= now
    )
    return session.exec(rows.order_by(col(RunDocumentCopy.due_at)).limit(most)).all()


def claim_report(session: Session, run_id: str, now: dt.datetime) -> bool:
    taken = (
        update(_TABLE)
        .where(_TABLE.c.run_id == run_id, _TABLE.c.state == DocumentState.DUE, _TABLE.c.due_at <= now)
        .values(due_at=now + HELD, tries=_TABLE.c.tries + 1)
    )
    return session.connection().execute(taken).rowcount == 1


def note_written(session: Session, run_id: str, place: str, now: dt.datetime) -> None:
    row = session.get_one(RunDocumentCopy, run_id)
    row.state, row.place, row.error, row.written_at = DocumentState.WRITTEN, place, None, now
    session.add(row)


def note_failed(session: Session, run_id: str, why: str, now: dt.datetime) -> bool:
    row = session.get_one(RunDocumentCopy, run_id)
    row.error, row.due_at = why[:_LONGEST], now + dt.timedelta(seconds=pause(row.tries))
    row.state = DocumentState.DUE if row.tries < MOST_TRIES else DocumentState.FAILED
    session.add(row)
    return row.state == DocumentState.DUE


def pause(tries: int) -> float:
    return float(min(_FIRST_PAUSE * 2 ** max(tries - 1, 0), _LONGEST_PAUSE))


log = structlog.get_logger(__name__)

MOST = 20  # of one pass; the next one follows soon


@shared_task(bind=True, name=REPORTS_PASS)  # type: ignore[untyped-decorator]
def documents(self: Task) -> dict[str, int]:
    """Write the reports that are due, and return how many were written and how many failed."""
    desk: Desk = self.app.desk
    try:
        return write_due(desk)
    except (DeskError, SQLAlchemyError) as error:
        log.warning("documents.put_off", error=str(error).splitlines()[0])  # the database keeps what is due
        return {}


def write_due(desk: Desk) -> dict[str, int]:
    """Write the reports that are due. Raises DeskError, SQLAlchemyError of the database alone."""
    address = desk.settings.report_url
    if address is None:
        return {}
    with desk.store.session() as session:
        add_ended(session, masked(address), utcnow())
        waiting = due_runs(session, utcnow(), MOST)
    done = {"written": 0, "failed": 0}
    for run_id in waiting:
        if desk.drain.requested:
            break
        with desk.store.session() as session:
            taken = claim_report(session, run_id, utcnow())
        if taken:
            done["written" if _write(desk, address, run_id) else "failed"] += 1
    return done


def _write(desk: Desk, address: str, run_id: str) -> bool:
    # Loaded here: other workers load this module too, and write nothing.
    from chordesk.tasks.reports.report_files import write_run

    try:
        place = write_run(desk, address, run_id)
    except Exception as error:  # whatever it is, it is on record, and no run's affair
        why = str(error.args[0]) if isinstance(error, DeskError) else f"{type(error).__name__}: {error}"
        with desk.store.session() as session:
            again = note_failed(session, run_id, why, utcnow())
        log.warning("documents.not_written", run=run_id, error=why, again=again)
        return False
    with desk.store.session() as session:
        note_written(session, run_id, place, utcnow())
    log.info("documents.written", run=run_id, place=place)
    return True
