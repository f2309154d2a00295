"""The statements that every step runs, built once: composing SQL costs more than running it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Insert,
    Integer,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    case,
    func,
    insert,
    or_,
    select,
    update,
)

from chordesk.models.states import STEP_FINAL, AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import Utc, composed_once
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.tasks.engine.policy import ALONE_AFTER, LOSSES, MOST_LOSSES
from chordesk.tasks.engine.steps import ClaimedStep, ReadyStep

_steps: Table = Step.__table__  # type: ignore[attr-defined]
_runs: Table = Run.__table__  # type: ignore[attr-defined]
_attempts: Table = Attempt.__table__  # type: ignore[attr-defined]
_sweep: Table = Sweep.__table__  # type: ignore[attr-defined]
_c = _steps.c


def columns(*names: str) -> list[Column[Any]]:
    return [_c[name] for name in names]


@composed_once
def claim(*, lost: bool = False) -> Update:
    """Return the update that claims a free step, for a ClaimedStep. Parameters: step, owner, now, until.

    lost: take over a step with an expired lease, in place of one that is ready and due. It gets one attempt more
    (`policy.LOSSES`).
    """
    now = bindparam("now", type_=Utc())
    if lost:
        free, allowed = and_(_expired(), ~worn(), _alone()), {"max_attempts": _c.max_attempts + 1}
    else:
        ready = and_(_c.state == StepState.READY, _c.due_at <= now)
        free, allowed = and_(ready, _c.attempt < _c.max_attempts), {}
    running = select(_runs.c.id).where(_runs.c.id == _c.run_id, _runs.c.state == RunState.RUNNING.value).exists()
    return (
        update(_steps)
        .where(_c.id == bindparam("step"), free, running)
        .values(
            state=StepState.RUNNING.value,
            owner=bindparam("owner"),
            attempt=_c.attempt + 1,
            lease_until=bindparam("until", type_=Utc()),
            claimed_at=now,
            started_at=case((_c.started_at.is_(None), now), else_=_c.started_at),
            **allowed,
        )
        .returning(*columns(*ClaimedStep.__dataclass_fields__))
    )


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
    """Return the number of workers that were lost since a step lost its first one, and that did not hold it then."""
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
    """Return the condition that a lost step is no suspect yet, or that the worker has no other suspect in work."""
    other = _steps.alias()
    held = and_(other.c.state == StepState.RUNNING, other.c.lease_until >= bindparam("now", type_=Utc()))
    same = and_(other.c.owner == bindparam("owner"), other.c.id != _c.id)
    beside = select(other.c.id).where(held, same, losses(other.c) >= ALONE_AFTER).exists()
    return or_(losses() < ALONE_AFTER - 1, ~beside)


def _expired(*, trusted: bool = True) -> ColumnElement[bool]:
    """Return the condition that a lease has run out, at a time when that means a lost worker
    (`sweep_lease.lease_trust`)."""
    now = bindparam("now", type_=Utc())
    doubted = select(_sweep.c.id).where(or_(now < _sweep.c.trusted_from, now > _sweep.c.trusted_until)).exists()
    return and_(_c.state == StepState.RUNNING, _c.lease_until < now, ~doubted if trusted else doubted)


@composed_once
def lost() -> Select[Any]:
    """Return the query of a step with an expired lease, for `graph.record_attempt`; it locks the row. Parameters: step,
    now."""
    names = ("id", "run_id", "kind", "subject", "role", "attempt", "owner", "claimed_at")
    return select(*columns(*names)).where(_c.id == bindparam("step"), _expired()).with_for_update()


@composed_once
def put_off(*, trusted: bool) -> Update:
    """Return the update that marks a step with an expired lease, or a seemingly expired one, as unsent, so that a later
    sweep sends it again. Parameters: step, now."""
    return update(_steps).where(_c.id == bindparam("step"), _expired(trusted=trusted)).values(sent_at=None)


@composed_once
def attempt_ended() -> Insert:
    """Return the insert of an attempt. Parameters: its columns."""
    return insert(_attempts)


@composed_once
def fenced(*columns: str) -> Update:
    """Return the update of `columns` of a step still held. Parameters: step, held_by, held_attempt, and each column as
    new_NAME."""
    return (
        update(_steps)
        .where(
            _c.id == bindparam("step"),
            _c.owner == bindparam("held_by"),
            _c.attempt == bindparam("held_attempt"),
            _c.state == StepState.RUNNING,
        )
        .values({name: bindparam(f"new_{name}", type_=_c[name].type) for name in columns})
    )


@composed_once
def new_step() -> Insert:
    """Return the insert of a step. Parameters: its columns."""
    return insert(_steps)


@composed_once
def count_up(*, final: bool = False) -> Update:
    """Return the update that counts children with a step which waits for them. final: one that has ended too.
    Parameters: parent, count."""
    counted = update(_steps).where(_c.id == bindparam("parent"))
    open_ones = counted if final else counted.where(_c.state.not_in(STEP_FINAL))
    return open_ones.values(pending=_c.pending + bindparam("count", type_=Integer()))


@composed_once
def still_held() -> Select[Any]:
    """Return the query of a step that is still held; it locks the row. Parameters: step, held_by, held_attempt."""
    held = and_(_c.owner == bindparam("held_by"), _c.attempt == bindparam("held_attempt"))
    running = _c.state == StepState.RUNNING
    return select(_c.id).where(_c.id == bindparam("step"), held, running).with_for_update()


@composed_once
def count_down() -> Update:
    """Return the update that counts ended children off a waiting step and makes it ready with the last. Parameters:
    parent, count, now. One statement, so that two last children cannot each find the other still running."""
    now, count = bindparam("now", type_=Utc()), bindparam("count", type_=Integer())
    last = _c.pending == count
    return (
        update(_steps)
        .where(_c.id == bindparam("parent"), _c.state == StepState.WAITING)
        .values(
            pending=_c.pending - count,
            state=case((last, StepState.READY.value), else_=_c.state),
            due_at=case((last, now), else_=_c.due_at),
            sent_at=case((last, now), else_=_c.sent_at),
            sends=case((last, 1), else_=_c.sends),
        )
        .returning(*columns(*ReadyStep.__dataclass_fields__, "state"))
    )
