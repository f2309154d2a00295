"""The graph of a run: steps that are claimed, leased, finished and joined, all in the database.

Bookkeeping for Celery, not an engine beside it: a message carries a step's id, and what may happen is decided here,
in one transaction each time.

A step is claimed by compare-and-set and held under a lease. Finishing is an update fenced with the owner and the
attempt: of two workers that both did the work, one writes. The transaction that takes a parent's `pending` to zero
makes the parent ready, so a join is missed by nobody and fired by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import and_, insert, or_, select, update
from sqlmodel import Session, col

from models.errors import LeaseLost
from models.states import RUN_FINAL, STEP_FINAL, RunState, StepKind, StepState
from models.tables import Run, Step, new_id, utcnow
from tasks import statements

# A step that was sent and not claimed is sent again after this long, doubling each time, so that a long queue
# is not flooded with copies.
RESEND_SECONDS = 15.0
_RESEND_DOUBLINGS = 6


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step to be. `parent` is the step that waits for it; `waits_for` its own children, counted by `plan`."""

    kind: StepKind
    parent: str
    subject: str = ""
    role: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    waits: bool = False
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A step that we hold; the fields in the order of `statements.CLAIMED`."""

    id: str
    run_id: str
    parent_id: str | None
    kind: str
    subject: str
    role: str
    attempt: int
    max_attempts: int
    owner: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that may be sent now."""

    id: str
    kind: StepKind
    role: str
    parent_id: str | None
    subject: str = ""


def open_run(session: Session, run: Run, finish_id: str, attempts: int) -> None:
    """Write a run and its finish step; the first steps are added as children of the finish step."""
    session.add(run)
    session.flush()
    _insert(session, run.id, [NewStep(StepKind.FINISH, "", waits=True, id=finish_id)], attempts)


def add(session: Session, run_id: str, steps: Sequence[NewStep], attempts: int) -> list[Ready]:
    """Write steps and count them with their parents; the ready ones come back. Parents may be in `steps` too."""
    if not steps:
        return []
    _insert(session, run_id, steps, attempts)
    parents: dict[str, int] = {}
    for step in steps:
        parents[step.parent] = parents.get(step.parent, 0) + 1
    for parent, count in parents.items():
        session.execute(
            update(Step)
            .where(col(Step.id) == parent, col(Step.state).not_in(STEP_FINAL))
            .values(pending=col(Step.pending) + count)
        )
    return [Ready(step.id, step.kind, step.role, step.parent, step.subject) for step in steps if not step.waits]


def _insert(session: Session, run_id: str, steps: Sequence[NewStep], attempts: int) -> None:
    now = utcnow()
    rows = [
        {
            "id": step.id,
            "run_id": run_id,
            "parent_id": step.parent or None,
            "kind": step.kind,
            "subject": step.subject,
            "role": step.role,
            "state": StepState.WAITING if step.waits else StepState.READY,
            "pending": 0,
            "attempt": 0,
            "max_attempts": attempts,
            "due_at": now,
            "sent_at": None if step.waits else now,
            "sends": 0 if step.waits else 1,
            "payload": step.payload,
            "result": {},
            "created_at": now,
        }
        for step in steps
    ]
    session.execute(insert(Step), rows)


def claim(session: Session, step_id: str, owner: str, lease_seconds: float) -> Claimed | None:
    """Take a step that is ready, or whose lease has run out. None when there is nothing to do: it is final, waits,
    is another's, is not due yet, has used up its attempts, or its run has ended."""
    now = utcnow()
    values = {"step": step_id, "owner": owner, "now": now, "until": now + dt.timedelta(seconds=lease_seconds)}
    row = session.connection().execute(statements.claim(), values).one_or_none()
    return Claimed(*row) if row is not None else None


def renew(session: Session, held: Iterable[tuple[str, int]], owner: str, lease_seconds: float) -> set[str]:
    """Push out the leases of what `owner` holds; the ids that are still its own."""
    until = utcnow() + dt.timedelta(seconds=lease_seconds)
    attempts = dict(held)
    statement = (
        update(Step)
        .where(col(Step.id).in_(attempts), col(Step.owner) == owner, col(Step.state) == StepState.RUNNING)
        .values(lease_until=until)
        .returning(col(Step.id), col(Step.attempt))
        .execution_options(synchronize_session=False)
    )
    return {row.id for row in session.execute(statement) if attempts[row.id] == row.attempt}


def finish(
    session: Session,
    step: Claimed,
    state: StepState,
    *,
    result: dict[str, Any] | None = None,
    error: str | None = None,
    children: Sequence[NewStep] = (),
) -> list[Ready]:
    """End a step we hold and hand back what became ready: its new children, and its parent if it was the last.

    Children are counted before the step itself is taken off its parent, so a parent never fires between the two.
    Raises LeaseLost (and so rolls everything back) when the step is no longer ours.
    """
    _fenced(session, step, state=state, result=result or {}, error=error, finished_at=utcnow(), lease_until=None)
    ready = add(session, step.run_id, children, step.max_attempts)
    return ready + _take_off(session, step.parent_id)


def give_back(session: Session, step: Claimed, delay_seconds: float, error: str) -> None:
    """Let a step we hold be tried again after a delay; the sweep sends it when it is due."""
    due = utcnow() + dt.timedelta(seconds=delay_seconds)
    _fenced(session, step, state=StepState.READY, due_at=due, owner=None, lease_until=None, sent_at=None, error=error)


def _fenced(session: Session, step: Claimed, **values: Any) -> None:
    parameters = {f"new_{name}": value for name, value in values.items()}
    parameters |= {"step": step.id, "held_by": step.owner, "held_attempt": step.attempt}
    done = session.connection().execute(statements.fenced(*values), parameters)
    if done.rowcount != 1:
        raise LeaseLost(f"step {step.id} attempt {step.attempt} is no longer held by {step.owner}")


def _take_off(session: Session, parent_id: str | None) -> list[Ready]:
    if parent_id is None:
        return []
    rows = session.connection().execute(statements.take_off(), {"parent": parent_id, "now": utcnow()}).all()
    return [Ready(r.id, StepKind(r.kind), r.role, r.parent_id, r.subject) for r in rows if r.state == StepState.READY]


def resend(session: Session, limit: int = 500) -> list[Ready]:
    """What is due, nobody holds and was not sent lately; marked as sent now."""
    now = utcnow()
    unheld = or_(
        and_(col(Step.state) == StepState.READY, col(Step.due_at) <= now),
        and_(col(Step.state) == StepState.RUNNING, col(Step.lease_until) < now),
    )
    found = session.scalars(
        select(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(unheld, col(Step.attempt) < col(Step.max_attempts), col(Run.state) == RunState.RUNNING)
        .order_by(col(Step.created_at))
        .limit(limit)
        .with_for_update(skip_locked=True, of=Step)  # another sweep's are sent by it
    ).all()
    late = [step for step in found if _is_late(step, now)]
    for step in late:
        step.sent_at, step.sends = now, step.sends + 1
        session.add(step)
    return [Ready(step.id, StepKind(step.kind), step.role, step.parent_id, step.subject) for step in late]


def _is_late(step: Step, now: dt.datetime) -> bool:
    if step.sent_at is None:
        return True
    if step.state == StepState.RUNNING:
        # Its worker is gone: the first message after the lease's end may go at once.
        lost_at = step.lease_until or now
        if step.sent_at < lost_at:
            return True
    wait = RESEND_SECONDS * 2 ** min(max(step.sends - 1, 0), _RESEND_DOUBLINGS)
    return step.sent_at + dt.timedelta(seconds=wait) <= now


def fail_worn_out(session: Session) -> list[Ready]:
    """Fail what has used up its attempts and is held by nobody alive; the joins that this frees come back."""
    now = utcnow()
    worn = session.scalars(
        select(Step)
        .where(
            col(Step.attempt) >= col(Step.max_attempts),
            or_(
                col(Step.state) == StepState.READY,
                and_(col(Step.state) == StepState.RUNNING, col(Step.lease_until) < now),
            ),
        )
        # One that another sweep fails or its worker ends just now would be taken off its parent twice.
        .with_for_update(skip_locked=True)
    ).all()
    ready: list[Ready] = []
    for step in worn:
        reason = step.error or "its worker was lost"
        step.state, step.finished_at, step.lease_until = StepState.FAILED, now, None
        step.error = f"gave up after {step.attempt} attempts: {reason}"
        session.add(step)
        session.flush()
        ready += _take_off(session, step.parent_id)
    return ready


def close_run(session: Session, run_id: str, state: RunState, summary: dict[str, Any], notes: Sequence[str]) -> bool:
    """End a run once; False when it had ended before."""
    run = session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None or run.state in RUN_FINAL:
        return False
    run.state, run.finished_at, run.summary = state, utcnow(), summary
    run.notes = [*run.notes, *notes]
    session.add(run)
    return True


def abandon(session: Session, run_id: str, reason: str) -> None:
    """Fail every step of a run that is not final, without joins: the run itself is being closed."""
    session.execute(
        update(Step)
        .where(col(Step.run_id) == run_id, col(Step.state).not_in(STEP_FINAL))
        .values(state=StepState.FAILED, error=reason, finished_at=utcnow(), lease_until=None)
        .execution_options(synchronize_session=False)
    )
