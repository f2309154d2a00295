"""The graph of a run in the database: steps are claimed, leased, finished and joined, in one transaction each time.

It is bookkeeping for Celery, not an engine beside it: a message carries a step's id, and the database decides whether
it may be done.

A step is claimed by compare-and-set and held under a lease. Finishing is an update fenced with the owner and the
attempt: of two workers that both did the work, one writes. The transaction that takes a parent's `pending` to zero
makes the parent ready, so a join is neither missed nor fired twice.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Integer, Table, and_, bindparam, case, func, insert, or_, select, update
from sqlalchemy.sql.dml import ReturningUpdate
from sqlmodel import Session, col

from chordesk.models import event_log, events
from chordesk.models.errors import LeaseLost
from chordesk.models.states import RUN_FINAL, STEP_FINAL, AttemptEnd, RunState, StepKind, StepState
from chordesk.models.tables.columns import Utc, new_id, utcnow
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.tasks.engine import owners
from chordesk.tasks.engine.policy import ALONE_AFTER, LATE, LOSSES, MOST_LOSSES
from chordesk.tasks.engine.steps import (
    ChildRun,
    ClaimedStep,
    NewStep,
    ReadyStep,
    SomeStep,
    again_event,
    ended_event,
    ready_of,
    waiting_step,
)
from chordesk.tasks.events import lifecycles

LOST = "its worker was lost"
CANCELS = "cancels"  # in the result of a step that made its siblings needless: why

_steps: Table = Step.__table__  # type: ignore[attr-defined]
_runs: Table = Run.__table__  # type: ignore[attr-defined]
_attempts: Table = Attempt.__table__  # type: ignore[attr-defined]
_sweep: Table = Sweep.__table__  # type: ignore[attr-defined]
_c = _steps.c
_NOW = bindparam("now", type_=Utc())


class RunClosed(NamedTuple):
    """The end of a run. ready: the step that waited for it, when it was the last that this one waited for."""

    ready: list[ReadyStep]


def open_run(session: Session, run: Run, finish_id: str, attempts: int) -> None:
    """Write a run and its finish step; the first steps are added as children of the finish step."""
    session.add(run)
    session.flush()
    event_log.append(session, [events.started(run)])
    _insert(session, run.id, [NewStep(StepKind.FINISH, "", waits=True, id=finish_id)], attempts)


_COUNT = bindparam("count", type_=Integer())
_COUNT_UP = update(_steps).where(_c.id == bindparam("parent")).values(pending=_c.pending + _COUNT)
_COUNT_OPEN = _COUNT_UP.where(_c.state.not_in(STEP_FINAL))


def add(session: Session, run_id: str, steps: Sequence[NewStep], attempts: int) -> list[ReadyStep]:
    """Write steps, count them with their parents and return the ready ones. Parents may be in `steps` too."""
    if not steps:
        return []
    _insert(session, run_id, steps, attempts)
    new = {step.id for step in steps}
    for parent, count in Counter(step.parent for step in steps if step.parent not in new).items():
        session.connection().execute(_COUNT_OPEN, {"parent": parent, "count": count})
    return [
        ReadyStep(step.id, step.kind, step.role, step.parent, step.subject, run_id) for step in steps if not step.waits
    ]


def open_child(session: Session, child: ChildRun, attempts: int) -> list[ReadyStep]:
    """Write a run that a step waits for, count it with that step, and return the run's ready steps."""
    run, finish = child.row(), new_id()
    open_run(session, run, finish, attempts)
    # Whatever its state: it may have ended in this very transaction.
    session.connection().execute(_COUNT_UP, {"parent": child.parent_step, "count": 1})
    return add(session, run.id, child.write(session, run, finish), attempts)


_NEW_STEPS = insert(_steps)


def _insert(session: Session, run_id: str, steps: Sequence[NewStep], attempts: int) -> None:
    now, children = utcnow(), Counter(step.parent for step in steps)
    rows = [
        {
            "id": step.id,
            "run_id": run_id,
            "parent_id": step.parent or None,
            "kind": step.kind,
            "subject": step.subject,
            "role": step.role,
            "state": StepState.WAITING if step.waits else StepState.READY,
            "pending": children[step.id],
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
    session.flush()  # the run that these are of
    session.connection().execute(_NEW_STEPS, rows)


def columns(*names: str) -> list[Column[Any]]:
    return [_c[name] for name in names]


def losses(of: Any = _c) -> ColumnElement[int]:
    """Return the number of workers that a step's attempts lost, without one that is not written yet. of: its
    columns."""
    lost = and_(_attempts.c.step_id == of.id, _attempts.c.outcome == AttemptEnd.LOST)
    return select(func.count()).select_from(_attempts).where(lost).scalar_subquery()


def worn() -> ColumnElement[bool]:
    """Return the condition that a step fails with the worker that it has lost now (`policy.LOSSES`)."""
    lost = losses()
    # A case, so that the workers that other steps lost are looked for only when there is a reason to.
    return case(
        (lost >= MOST_LOSSES - 1, True), (lost >= LOSSES - 1, lost - _lost_elsewhere() >= LOSSES - 1), else_=False
    )


def _lost_elsewhere() -> ColumnElement[int]:
    own, other = _attempts.alias(), _attempts.alias()
    lost = and_(own.c.step_id == _c.id, own.c.outcome == AttemptEnd.LOST)
    since = select(func.min(own.c.started_at)).where(lost).correlate(_steps).scalar_subquery()
    owners = select(own.c.owner).where(lost).correlate(_steps)
    elsewhere = and_(
        other.c.outcome == AttemptEnd.LOST,
        other.c.ended_at >= since,
        other.c.owner != _c.owner,
        other.c.owner.not_in(owners),
    )
    return select(func.count(other.c.owner.distinct())).where(elsewhere).correlate(_steps).scalar_subquery()


def _alone() -> ColumnElement[bool]:
    other = _steps.alias()
    held = and_(other.c.state == StepState.RUNNING, other.c.lease_until >= _NOW)
    same = and_(other.c.owner == bindparam("owner"), other.c.id != _c.id)
    beside = select(other.c.id).where(held, same, losses(other.c) >= ALONE_AFTER).exists()
    return or_(losses() < ALONE_AFTER - 1, ~beside)


def _expired(*, trusted: bool = True) -> ColumnElement[bool]:
    out_of_trust = or_(_sweep.c.trusted_from > _NOW, _sweep.c.trusted_until < _NOW)
    doubted = select(_sweep.c.id).where(out_of_trust).exists()
    return and_(_c.state == StepState.RUNNING, _c.lease_until < _NOW, ~doubted if trusted else doubted)


def _claimed(free: ColumnElement[bool], **more: Any) -> ReturningUpdate[Any]:
    """Return the update by which a worker claims a step of a running run that meets a condition, for a ClaimedStep.
    Parameters: step, owner, now, until."""
    running = select(_runs.c.id).where(_runs.c.id == _c.run_id, _runs.c.state == RunState.RUNNING).exists()
    return (
        update(_steps)
        .where(_c.id == bindparam("step"), free, running)
        .values(
            state=StepState.RUNNING,
            owner=bindparam("owner"),
            attempt=_c.attempt + 1,
            lease_until=bindparam("until", type_=Utc()),
            claimed_at=_NOW,
            started_at=func.coalesce(_c.started_at, _NOW),
            **more,
        )
        .returning(*columns(*ClaimedStep.__dataclass_fields__))
    )


# What every step runs is composed here, once: that takes several times as long as running it.
_CLAIM = _claimed(and_(_c.state == StepState.READY, _c.due_at <= _NOW, _c.attempt < _c.max_attempts))
_UNSENT = update(_steps).values(sent_at=None, sends=0)


def claim(session: Session, step_id: str, owner: str, lease_seconds: float) -> ClaimedStep | None:
    """Take a step that is ready, or has an expired lease, and return it; None when there is nothing to do. That is so
    when it is final, waits, is held, is not due yet, has used up its attempts, or its run has ended. A lease that may
    have run out only because the clock leapt or the database was away still counts (`leases.lease_trust`)."""
    now = utcnow()
    values = {"step": step_id, "owner": owner, "now": now, "until": now + dt.timedelta(seconds=lease_seconds)}
    row = session.connection().execute(_CLAIM, values).one_or_none()
    if row is None:
        row = _take_over(session, values)
    return ClaimedStep(**row._mapping) if row is not None else None


def _take_over(session: Session, values: dict[str, Any]) -> Any:
    """Claim a step with an expired lease, and record the attempt that was lost with its worker. It gets one attempt
    more (`policy.LOSSES`). One that may not be claimed now is marked as never sent: the next sweep sends it, and waits
    for that message no longer than for a first one.
    """
    connection, this = session.connection(), _c.id == values["step"]
    names = ("id", "run_id", "kind", "subject", "role", "attempt", "owner", "claimed_at", "lease_until")
    now = {"now": values["now"]}
    before = connection.execute(select(*columns(*names)).where(this, _expired()).with_for_update(), now).one_or_none()
    if before is None or _late(before, values):
        connection.execute(_UNSENT.where(this, _expired(trusted=before is not None)), now)
        return None
    lost = and_(_expired(), ~worn(), _alone())
    row = connection.execute(_claimed(lost, max_attempts=_c.max_attempts + 1), values).one_or_none()
    if row is None:
        connection.execute(_UNSENT.where(this, _expired()), now)
    else:
        record_attempt(session, before, values["now"], AttemptEnd.LOST, LOST)
    return row


def _late(held: Any, values: dict[str, Any]) -> bool:
    """Whether a lease ran out of a worker of this machine that lives: where processors are short its renewal is late,
    and a turn that another worker takes up is paid twice. After LATE leases it hangs."""
    lease = values["until"] - values["now"]
    return held.lease_until > values["now"] - LATE * lease and owners.standing(held.owner) is owners.Standing.LIVES


_NEW_ATTEMPT = insert(_attempts)
# How an attempt may end that is the step's end too.
_ENDS = {AttemptEnd.DONE: StepState.DONE, AttemptEnd.FAILED: StepState.FAILED, AttemptEnd.STOPPED: StepState.STOPPED}


def record_attempt(
    session: Session,
    held: SomeStep,
    ended_at: dt.datetime,
    outcome: AttemptEnd,
    reason: str | None,
    state: StepState | None = None,
) -> None:
    """Write an attempt that has ended, in the transaction that ends it; with a lost one, the end of its runtime's open
    turns. state: the step's, where the outcome alone does not determine it."""
    if outcome is AttemptEnd.LOST:
        lifecycles.end_lost(session, held.run_id, reason or LOST, held.id)
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
    session.connection().execute(_NEW_ATTEMPT, row)
    final = state or _ENDS.get(outcome)
    lost = held.owner if outcome is AttemptEnd.LOST else None
    happened = ended_event(held, final, reason, lost) if final else again_event(held, outcome, reason)
    event_log.append(session, [happened])


def renew(session: Session, held: Iterable[tuple[str, int]], owner: str, lease_seconds: float) -> set[str]:
    """Push out the leases of steps that `owner` holds, and return the ids that are still its own."""
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
    stopping = (RunState.STOPPING, RunState.STOPPED)
    return set(session.scalars(select(col(Run.id)).where(col(Run.id).in_(set(run_ids)), col(Run.state).in_(stopping))))


def finish(
    session: Session,
    step: ClaimedStep,
    state: StepState,
    *,
    result: dict[str, Any] | None = None,
    error: str | None = None,
    children: Sequence[NewStep] = (),
    runs: Sequence[ChildRun] = (),
    attempts: int | None = None,
    cancels: str | None = None,
) -> list[ReadyStep]:
    """End a held step and return the steps that became ready: its new children, the first ones of runs that it opens,
    and its parent if it was the last.

    Children and runs are counted before the step itself is counted off its parent, so a parent never fires between the
    two. A run that is being stopped gets none.

    attempts: what each child gets; as many as the step itself had when not given.
    cancels: why the other steps of this kind under the same parent are not needed any more. Those that wait end here,
    those that are held are interrupted by their workers (see `cancelled`).

    Raises LeaseLost, which rolls everything back, when the step is held no more.
    """
    now = utcnow()
    kept = {**(result or {}), **({CANCELS: cancels} if cancels else {})}
    _fenced(session, step, state=state, result=kept, error=error, finished_at=now, lease_until=None)
    record_attempt(session, step, now, AttemptEnd(state), error)
    ready: list[ReadyStep] = []
    if (children or runs) and _goes_on(session, step.run_id):
        each = attempts or step.max_attempts
        ready = add(session, step.run_id, children, each)
        for child in runs:
            ready += open_child(session, child, each)
    # Siblings before the parent, in the order in which one that ends just now takes its locks.
    needless = _end_siblings(session, step, cancels) if cancels else 0
    return ready + count_down(session, step.parent_id, 1 + needless)


def _end_siblings(session: Session, step: ClaimedStep, reason: str) -> int:
    siblings = and_(col(Step.parent_id) == step.parent_id, col(Step.kind) == step.kind)
    return end_steps(session, and_(siblings, col(Step.state) == StepState.READY), StepState.STOPPED, reason)


def cancelled(session: Session, parents: Iterable[str]) -> dict[str, str]:
    """Return by parent why its children are not needed any more; no entry for other parents."""
    reason = col(Step.result)[CANCELS].as_string()
    done = and_(col(Step.parent_id).in_(set(parents)), col(Step.state) == StepState.DONE)
    rows = session.execute(select(col(Step.parent_id), reason).where(done, reason.is_not(None))).all()
    return {str(parent): why for parent, why in rows}


def give_back(
    session: Session,
    step: ClaimedStep,
    delay_seconds: float,
    error: str,
    *,
    outcome: AttemptEnd = AttemptEnd.AGAIN,
    counts: bool = True,
    sent: bool = False,
) -> None:
    """Let a held step be tried again after a delay; the sweep sends it when it is due, or, with `sent`, the caller does
    so now. counts: whether this attempt uses one of the step's up. If not, it gets one more; its number is never used
    again, because it distinguishes a repeated turn from a new one."""
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
    record_attempt(session, step, now, outcome, error)


def put_off(session: Session, step: ClaimedStep, delay_seconds: float, reason: str) -> None:
    """Give back a step that this process cannot do, as if unclaimed. An event says so once for each reason."""
    begun = {} if step.attempt > 1 else {"started_at": None}
    due_at = utcnow() + dt.timedelta(seconds=delay_seconds)
    free = {"state": StepState.READY, "owner": None, "lease_until": None, "sent_at": None, "claimed_at": None}
    _fenced(session, step, **free, **begun, due_at=due_at, attempt=step.attempt - 1, error=reason)
    if reason != step.error:
        event_log.append(session, [again_event(step, AttemptEnd.AGAIN, reason)])


_STATE = select(_runs.c.state).where(_runs.c.id == bindparam("run"))


def _goes_on(session: Session, run_id: str) -> bool:
    return session.connection().execute(_STATE, {"run": run_id}).scalar() == RunState.RUNNING


# That this process still holds a step; `_holder` returns the parameters.
_HELD = and_(
    _c.id == bindparam("step"),
    _c.owner == bindparam("held_by"),
    _c.attempt == bindparam("held_attempt"),
    _c.state == StepState.RUNNING,
)


_OF_HELD = update(_steps).where(_HELD)


def _holder(step: ClaimedStep) -> dict[str, Any]:
    return {"step": step.id, "held_by": step.owner, "held_attempt": step.attempt}


def _fenced(session: Session, step: ClaimedStep, **values: Any) -> None:
    done = session.connection().execute(_OF_HELD, values | _holder(step))
    if done.rowcount != 1:
        raise LeaseLost(f"step {step.id} attempt {step.attempt} is no longer held by {step.owner}")


def require_held(session: Session, step: ClaimedStep) -> None:
    """Raise LeaseLost unless the step is still held, and keep it so until the transaction ends."""
    held = select(_c.id).where(_HELD).with_for_update()
    if session.connection().execute(held, _holder(step)).first() is None:
        raise LeaseLost(f"step {step.id} attempt {step.attempt} is no longer held by {step.owner}")


_LAST = _c.pending == _COUNT
# One statement, so that two last children cannot each find the other still running. Parameters: parent, count, now.
_COUNT_DOWN = (
    update(_steps)
    .where(_c.id == bindparam("parent"), _c.state == StepState.WAITING)
    .values(
        pending=_c.pending - _COUNT,
        state=case((_LAST, StepState.READY.value), else_=_c.state),
        due_at=case((_LAST, _NOW), else_=_c.due_at),
        sent_at=case((_LAST, _NOW), else_=_c.sent_at),
        sends=case((_LAST, 1), else_=_c.sends),
    )
    .returning(*columns(*ReadyStep.__dataclass_fields__, "state"))
)


def count_down(session: Session, parent_id: str | None, count: int = 1) -> list[ReadyStep]:
    if parent_id is None:
        return []
    values = {"parent": parent_id, "count": count, "now": utcnow()}
    rows = session.connection().execute(_COUNT_DOWN, values).all()
    return [ready_of(row) for row in rows if row.state == StepState.READY]


def close_run(
    session: Session,
    run_id: str,
    state: RunState,
    summary: dict[str, Any],
    notes: Sequence[str],
    *,
    sends: bool = False,
) -> RunClosed | None:
    """End a run once and return its end, None when it had ended before. One that is being stopped ends as stopped,
    whatever it did. A step that waits for the run is counted down. sends: the caller sends what became ready; otherwise
    the next sweep does."""
    run = session.get(Run, run_id, with_for_update=True, populate_existing=True)
    if run is None or run.state in RUN_FINAL:
        return None
    run.state = RunState.STOPPED if run.state == RunState.STOPPING else state
    run.finished_at, run.summary = utcnow(), summary
    run.notes = [*run.notes, *notes]
    session.add(run)
    event_log.append(session, [events.completed(run)])
    session.flush()
    ready = count_down(session, waiting_step(run))
    if ready and not sends:
        unsent = update(Step).where(col(Step.id).in_([step.id for step in ready])).values(sent_at=None, sends=0)
        session.connection().execute(unsent)
    return RunClosed(ready)


def fail_open_steps(session: Session, run_id: str, reason: str) -> None:
    """Fail every step of a run that is not final, without joins: the run itself is being closed."""
    now = utcnow()
    held = session.scalars(select(Step).where(col(Step.run_id) == run_id, col(Step.state) == StepState.RUNNING)).all()
    for row in held:
        record_attempt(session, row, now, AttemptEnd.FAILED, reason)
    which = and_(col(Step.run_id) == run_id, col(Step.state).not_in(STEP_FINAL))
    end_steps(session, which, StepState.FAILED, reason, except_ids={row.id for row in held})


def end_steps(
    session: Session, which: ColumnElement[bool], state: StepState, reason: str, except_ids: Collection[str] = ()
) -> int:
    """End the steps that meet a condition, publish an event for each but `except_ids`, and return how many ended."""
    values = {"state": state, "error": reason, "finished_at": utcnow(), "lease_until": None}
    ended = columns("id", "run_id", "kind", "subject", "role", "attempt")
    rows = session.connection().execute(update(Step).where(which).values(values).returning(*ended)).all()
    event_log.append(session, [ended_event(row, state, reason) for row in rows if row.id not in except_ids])
    return len(rows)
