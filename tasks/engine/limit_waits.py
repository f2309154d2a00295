"""Waits of steps for their provider's limit: how long one may take, and what it does to the deadline of its run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlalchemy import func, or_, update
from sqlmodel import Session, col, select

from chordesk.models.settings import Settings
from chordesk.models.states import StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, Run, Step
from chordesk.models.text import span, utc
from chordesk.tasks.engine import policy
from chordesk.tasks.engine.steps import waiting_step

KIND = "limit_wait"  # of the failure of a step whose limit lasts too long
_MOST = 1000  # attempts looked at


def too_long(session: Session, step_id: str, settings: Settings, until: dt.datetime, why: str) -> str | None:
    """Return why a step does not wait for a limit that ends then, None where it does. What counts is all of its wait,
    over limits that follow each other without an answer between them."""
    since = waits_since(session, step_id) or utcnow()
    waits, most = (until - since).total_seconds(), settings.limit_wait_hours * 3600
    if waits <= most:
        return None
    begun = f", for which it has waited since {utc(since)}" if (utcnow() - since).total_seconds() > 60 else ""
    return (
        f"{why} lasts until {utc(until)}{begun}: longer than the {span(most)} of DESK_LIMIT_WAIT_HOURS; raise it, or "
        f"name a substitute in DESK_SUBSTITUTES"
    )


def waits_since(session: Session, step_id: str) -> dt.datetime | None:
    """Return since when every attempt at a step ended by a limit; None where the last one did not."""
    columns = select(Attempt.ended_at, Attempt.reason).where(Attempt.step_id == step_id)
    since = None
    for ended_at, reason in session.exec(columns.order_by(col(Attempt.attempt).desc()).limit(_MOST)).all():
        if not policy.waits_for_limit(reason):
            break
        since = ended_at
    return since


def wake(session: Session, names: Sequence[str]) -> int:
    """Make the steps due that wait for the limits of these models or accounts; return how many do."""
    reason = func.coalesce(col(Step.error), "")
    waits = or_(*(reason.contains(f"{kind}{name}", autoescape=True) for kind in policy.A_LIMIT for name in names))
    if not names:
        return 0
    now = utcnow()
    found = update(Step).where(col(Step.state) == StepState.READY, col(Step.due_at) > now, waits)
    return session.connection().execute(found.values(due_at=now, sent_at=None, sends=0)).rowcount


def extend(session: Session, step_id: str, until: dt.datetime) -> None:
    """Move a run's deadline on, since a limit's time is not its own: afterwards it has its whole time again. Runs that
    wait for it have as much more. Done once for the steps of a run that wait for the same moment."""
    run = _locked(session, session.get_one(Step, step_id).run_id)
    whole = dt.timedelta(minutes=float((run.settings or {}).get("run_deadline_minutes") or 0.0))
    more = until + whole - run.deadline_at
    while more > dt.timedelta():
        run.deadline_at += more
        session.add(run)
        above = waiting_step(run)
        if above is None:
            return
        run = _locked(session, session.get_one(Step, above).run_id)


def _locked(session: Session, run_id: str) -> Run:
    return session.get_one(Run, run_id, with_for_update=True, populate_existing=True)
