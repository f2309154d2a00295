"""The statements that every step runs, built once: composing SQL costs more than running it."""

from __future__ import annotations

from functools import cache
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
    insert,
    or_,
    select,
    update,
)

from models.states import RunState, StepState
from models.tables.columns import Utc
from models.tables.runs import Attempt, Run, Step, Sweep
from tasks.engine.steps import ClaimedStep, ReadyStep

_steps: Table = Step.__table__  # type: ignore[attr-defined]
_runs: Table = Run.__table__  # type: ignore[attr-defined]
_attempts: Table = Attempt.__table__  # type: ignore[attr-defined]
_sweep: Table = Sweep.__table__  # type: ignore[attr-defined]
_c = _steps.c


def columns(*names: str) -> list[Column[Any]]:
    return [_c[name] for name in names]


@cache
def claim(*, lost: bool = False) -> Update:
    """Return the update that claims a free step, for a ClaimedStep. Parameters: step, owner, now, until.

    lost: take over a step with an expired lease, in place of one that is ready and due.
    """
    now = bindparam("now", type_=Utc())
    free = _expired() if lost else and_(_c.state == StepState.READY, _c.due_at <= now)
    running = select(_runs.c.id).where(_runs.c.id == _c.run_id, _runs.c.state == RunState.RUNNING.value).exists()
    return (
        update(_steps)
        .where(_c.id == bindparam("step"), free, _c.attempt < _c.max_attempts, running)
        .values(
            state=StepState.RUNNING.value,
            owner=bindparam("owner"),
            attempt=_c.attempt + 1,
            lease_until=bindparam("until", type_=Utc()),
            claimed_at=now,
            started_at=case((_c.started_at.is_(None), now), else_=_c.started_at),
        )
        .returning(*columns(*ClaimedStep.__dataclass_fields__))
    )


def _expired(*, trusted: bool = True) -> ColumnElement[bool]:
    """Return the condition that a lease has run out, at a time when that means a lost worker
    (`sweep_lease.lease_trust`)."""
    now = bindparam("now", type_=Utc())
    doubted = select(_sweep.c.id).where(or_(now < _sweep.c.trusted_from, now > _sweep.c.trusted_until)).exists()
    return and_(_c.state == StepState.RUNNING, _c.lease_until < now, ~doubted if trusted else doubted)


@cache
def lost() -> Select[Any]:
    """Return the query of a step with an expired lease, for `graph.record_attempt`; it locks the row. Parameters: step,
    now."""
    names = ("id", "run_id", "kind", "subject", "role", "attempt", "owner", "claimed_at")
    return select(*columns(*names)).where(_c.id == bindparam("step"), _expired()).with_for_update()


@cache
def doubted() -> Update:
    """Return the update that marks a step with a seemingly expired lease as unsent, so that a later sweep sends it
    again. Parameters: step, now."""
    return update(_steps).where(_c.id == bindparam("step"), _expired(trusted=False)).values(sent_at=None)


@cache
def attempt_ended() -> Insert:
    """Return the insert of an attempt. Parameters: its columns."""
    return insert(_attempts)


@cache
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


@cache
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
