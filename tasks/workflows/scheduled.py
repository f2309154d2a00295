"""What the schedule starts by a request: any kind of run, on days of its own."""

from __future__ import annotations

import structlog
from celery import Task, shared_task
from sqlalchemy.exc import IntegrityError
from sqlmodel import select

from chordesk.models.errors import DeskError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks import schedules
from chordesk.tasks.engine import kinds, requests
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import Request, with_budget
from chordesk.tools.orders import audit

log = structlog.get_logger(__name__)


@shared_task(bind=True, name=kinds.SCHEDULED)  # type: ignore[untyped-decorator]
def scheduled(self: Task, schedule: str = "") -> str | None:
    return open_entry(self.app, schedule)


def open_entry(app: DeskApp, name: str) -> str | None:
    """Open what an entry starts today and return the run's id; None where it starts nothing today, or has its run."""
    desk = app.desk
    with desk.store.read() as session:
        entry = next((one for one in schedules.entries(session, desk.settings) if one.name == name), None)
    slot = schedules.due_slot(entry, utcnow()) if entry is not None else None
    if entry is None or slot is None:
        return None
    if entry.request is None:
        opens = kinds.scheduled()[entry.kind].opens
        return opens(app, name) if opens is not None else None
    try:
        return open_once(app, requests.made(entry.kind, entry.request, f"schedule {name}"), name, slot)
    except DeskError as error:  # a symbol that is listed no more, an account without holdings: the next day may do
        log.warning("schedule.not_started", entry=name, kind=entry.kind, error=str(error), remedy=error.remedy)
        with desk.store.session() as session:
            facts = {"name": name, "starts": entry.kind, "slot": slot, "why": str(error)}
            audit.record(session, desk.settings, "schedule_not_started", **facts)
        return None


def open_once(app: DeskApp, asked: Request, schedule: str, slot: str) -> str | None:
    """Open a run for a slot, of which there is one in the database whatever dies; None where it has its run."""

    def label(run: Run) -> None:
        run.schedule, run.slot = schedule, slot

    try:
        return asked.open(app, with_budget(asked.budget_tokens, label)).id
    except IntegrityError:
        if run_of(app, schedule, slot) is None:
            raise
        return None


def run_of(app: DeskApp, schedule: str, slot: str) -> str | None:
    with app.desk.store.read() as session:
        return session.exec(select(Run.id).where(Run.schedule == schedule, Run.slot == slot)).first()
