"""The graph of a run: steps that are claimed, leased, finished and joined, all in the database.

Bookkeeping for Celery, not an engine beside it: a message carries a step's id, and what may happen is decided here,
in one transaction each time.

A step is claimed by compare-and-set and held under a lease. Finishing is an update fenced with the owner and the
attempt: of two workers that both did the work, one writes. The transaction that takes a parent's `pending` to zero
makes the parent ready, so a join is missed by nobody and fired by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Update, insert, select, update
from sqlmodel import Session, col

from models import event_log, run_events
from models.columns import new_id, utcnow
from models.errors import LeaseLost
from models.states import RUN_FINAL, STEP_FINAL, AttemptEnd, RunState, StepKind, StepState
from models.tables import Run, Step
from tasks import statements, step_events
from tasks.events import lost_turns

LOST = "its worker was lost"


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
    claimed_at: dt.datetime
    error: str | None = None  # why the attempt before this one ended


class Attempted(step_events.Named, Protocol):
    """A step as somebody holds it or held it: one of ours, a row of the table, or a part of one."""

    @property
    def owner(self) -> str | None: ...
    @property
    def claimed_at(self) -> dt.datetime | None: ...


@dataclass(frozen=True, slots=True)
class Ready:
    """A step that may be sent now."""

    id: str
    kind: StepKind
    role: str
    parent_id: str | None
    subject: str = ""
    run_id: str = ""


def ready_of(step: Claimed) -> Ready:
    return Ready(step.id, StepKind(step.kind), step.role, step.parent_id, step.subject, step.run_id)


def open_run(session: Session, run: Run, finish_id: str, attempts: int) -> None:
    """Write a run and its finish step; the first steps are added as children of the finish step."""
    session.add(run)
    session.flush()
    event_log.append(session, [run_events.started(run)])
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
    return [Ready(step.id, step.kind, step.role, step.parent, step.subject, run_id) for step in steps if not step.waits]


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
    is another's, is not due yet, has used up its attempts, or its run has ended. A lease whose end may be due to a
    clock that leapt or a database that was away is another's still (`sweep_row.look`)."""
    now = utcnow()
    values = {"step": step_id, "owner": owner, "now": now, "until": now + dt.timedelta(seconds=lease_seconds)}
    row = session.connection().execute(statements.claim(), values).one_or_none()
    if row is None:
        row = _take_over(session, values)
    return Claimed(*row) if row is not None else None


def _take_over(session: Session, values: dict[str, Any]) -> Any:
    """Claim a step whose lease has run out, and write down the attempt that was lost with its worker."""
    connection = session.connection()
    which = {"step": values["step"], "now": values["now"]}
    before = connection.execute(statements.lost(), which).one_or_none()
    if before is None:
        connection.execute(statements.doubted(), which)
        return None
    row = connection.execute(statements.claim(lost=True), values).one_or_none()
    if row is not None:
        ended(session, before, values["now"], AttemptEnd.LOST, LOST)
    return row


# How an attempt may end that is the step's end too.
_ENDS = {AttemptEnd.DONE: StepState.DONE, AttemptEnd.FAILED: StepState.FAILED, AttemptEnd.STOPPED: StepState.STOPPED}


def ended(
    session: Session,
    held: Attempted,
    ended_at: dt.datetime,
    outcome: AttemptEnd,
    reason: str | None,
    state: StepState | None = None,
) -> None:
    """Write down an attempt that has ended, in the transaction that ends it; with one that was lost, what its worker
    had begun in a runtime. state: of the step, where it ends in one that the outcome does not tell."""
    if outcome is AttemptEnd.LOST:
        lost_turns.end(session, held.run_id, reason or LOST, held.id)
    row = {
        "id": new_id(),
        "step_id": held.id,
        "attempt": held.attempt,
        "owner": held.owner or "",
        "started_at": held.claimed_at or ended_at,
        "ended_at": ended_at,
        "outcome": outcome,
        "reason": reason,
    }
    session.connection().execute(statements.attempt_ended(), row)
    final = state or _ENDS.get(outcome)
    told = step_events.ended(held, final, reason) if final else step_events.again(held, outcome, reason)
    event_log.append(session, [told])


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


def being_stopped(session: Session, run_ids: Iterable[str]) -> set[str]:
    """Those of the runs whose end somebody has asked for."""
    stopping = (RunState.STOPPING, RunState.STOPPED)
    return set(session.scalars(select(col(Run.id)).where(col(Run.id).in_(set(run_ids)), col(Run.state).in_(stopping))))


def finish(
    session: Session,
    step: Claimed,
    state: StepState,
    *,
    result: dict[str, Any] | None = None,
    error: str | None = None,
    children: Sequence[NewStep] = (),
    attempts: int | None = None,
) -> list[Ready]:
    """End a step we hold and hand back what became ready: its new children, and its parent if it was the last.

    Children are counted before the step itself is taken off its parent, so a parent never fires between the two. A run
    that is being stopped gets none.
    attempts: what each child gets; as many as the step itself had when not given.
    Raises LeaseLost (and so rolls everything back) when the step is no longer ours.
    """
    now = utcnow()
    _fenced(session, step, state=state, result=result or {}, error=error, finished_at=now, lease_until=None)
    ended(session, step, now, AttemptEnd(state), error)
    ready: list[Ready] = []
    if children and _goes_on(session, step.run_id):
        ready = add(session, step.run_id, children, attempts or step.max_attempts)
    return ready + take_off(session, step.parent_id)


def give_back(
    session: Session,
    step: Claimed,
    delay_seconds: float,
    error: str,
    *,
    outcome: AttemptEnd = AttemptEnd.AGAIN,
    counts: bool = True,
    sent: bool = False,
) -> None:
    """Let a step we hold be tried again after a delay; the sweep sends it when it is due, or, with `sent`, the caller
    does so now.

    counts: whether this attempt is one of those that the step has. If not, it gets one more; its number is never
    used again, because it is what tells a repeated turn from a new one.
    """
    now = utcnow()
    allowed = {} if counts else {"max_attempts": step.max_attempts + 1}
    _fenced(
        session,
        step,
        state=StepState.READY,
        due_at=now + dt.timedelta(seconds=delay_seconds),
        owner=None,
        lease_until=None,
        sent_at=now if sent else None,
        sends=1 if sent else 0,
        error=error,
        **allowed,
    )
    ended(session, step, now, outcome, error)


def _goes_on(session: Session, run_id: str) -> bool:
    return session.scalar(select(col(Run.state)).where(col(Run.id) == run_id)) == RunState.RUNNING


def _fenced(session: Session, step: Claimed, **values: Any) -> None:
    parameters = {f"new_{name}": value for name, value in values.items()}
    parameters |= {"step": step.id, "held_by": step.owner, "held_attempt": step.attempt}
    done = session.connection().execute(statements.fenced(*values), parameters)
    if done.rowcount != 1:
        raise LeaseLost(f"step {step.id} attempt {step.attempt} is no longer held by {step.owner}")


def take_off(session: Session, parent_id: str | None) -> list[Ready]:
    """Count a parent down by one child that is final now; the parent, if that was the last."""
    if parent_id is None:
        return []
    rows = session.connection().execute(statements.take_off(), {"parent": parent_id, "now": utcnow()}).all()
    return [
        Ready(row.id, StepKind(row.kind), row.role, row.parent_id, row.subject, row.run_id)
        for row in rows
        if row.state == StepState.READY
    ]


def close_run(session: Session, run_id: str, state: RunState, summary: dict[str, Any], notes: Sequence[str]) -> bool:
    """End a run once; False when it had ended before. One that is being stopped ends as stopped, whatever it did."""
    run = session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None or run.state in RUN_FINAL:
        return False
    run.state = RunState.STOPPED if run.state == RunState.STOPPING else state
    run.finished_at, run.summary = utcnow(), summary
    run.notes = [*run.notes, *notes]
    session.add(run)
    event_log.append(session, [run_events.completed(run)])
    return True


def abandon(session: Session, run_id: str, reason: str) -> None:
    """Fail every step of a run that is not final, without joins: the run itself is being closed."""
    now = utcnow()
    held = session.scalars(select(Step).where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)).all()
    for row in held:
        ended(session, row, now, AttemptEnd.FAILED, reason)
    statement = (
        update(Step)
        .where(col(Step.run_id) == run_id, col(Step.state).not_in(STEP_FINAL))
        .values(state=StepState.FAILED, error=reason, finished_at=now, lease_until=None)
    )
    close_steps(session, statement, StepState.FAILED, reason, told={row.id for row in held})


def close_steps(
    session: Session, statement: Update, state: StepState, reason: str, told: Collection[str] = frozenset()
) -> int:
    """Run an update that ends steps, and tell of each one that was not told of; how many it ended."""
    names = ("id", "run_id", "kind", "subject", "role", "attempt")
    rows = session.connection().execute(statement.returning(*(Step.__table__.c[name] for name in names))).all()  # type: ignore[attr-defined]
    event_log.append(session, [step_events.ended(row, state, reason) for row in rows if row.id not in told])
    return len(rows)
