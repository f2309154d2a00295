"""The pass that writes the reports of runs that ended, to the place of DESK_REPORT_URL. It never fails a run: that is
over already, and a report that cannot be written is tried again later."""

from __future__ import annotations

import structlog
from celery import Task, shared_task
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.errors import DeskError
from chordesk.models.tables.columns import utcnow
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import Desk, desk_of
from chordesk.tasks.documents import record

log = structlog.get_logger(__name__)

TASK = "desk.documents"
MOST = 20  # of one pass; the next one follows soon


@shared_task(bind=True, name=TASK)  # type: ignore[untyped-decorator]
def documents(self: Task) -> dict[str, int]:
    """Write the reports that are due, and return how many were written and how many failed."""
    desk = desk_of(self.app)
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
        record.add_ended(session, masked(address), utcnow())
        waiting = record.due(session, utcnow(), MOST)
    done = {"written": 0, "failed": 0}
    for run_id in waiting:
        if desk.drain.requested:
            break
        with desk.store.session() as session:
            taken = record.claim(session, run_id, utcnow())
        if taken:
            done["written" if _write(desk, address, run_id) else "failed"] += 1
    return done


def _write(desk: Desk, address: str, run_id: str) -> bool:
    # Loaded here: other workers load this module too, and write nothing.
    from chordesk.tasks.documents.files import write_run

    try:
        place = write_run(desk, address, run_id)
    except Exception as error:  # whatever it is, it is on record, and no run's affair
        why = str(error.args[0]) if isinstance(error, DeskError) else f"{type(error).__name__}: {error}"
        with desk.store.session() as session:
            again = record.failed(session, run_id, why, utcnow())
        log.warning("documents.not_written", run=run_id, error=why, again=again)
        return False
    with desk.store.session() as session:
        record.written(session, run_id, place, utcnow())
    log.info("documents.written", run=run_id, place=place)
    return True
