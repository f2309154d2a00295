"""The statements that every step runs, built once: composing SQL costs more than running it."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Insert, Select, Table, Update, and_, bindparam, case, insert, or_, select, update

from models.columns import Utc
from models.states import RunState, StepState
from models.tables import Attempt, Run, Step, Sweep

_steps: Table = Step.__table__  # type: ignore[attr-defined]
_runs: Table = Run.__table__  # type: ignore[attr-defined]
_attempts: Table = Attempt.__table__  # type: ignore[attr-defined]
_sweep: Table = Sweep.__table__  # type: ignore[attr-defined]
_c = _steps.c

CLAIMED = (
    *("id", "run_id", "parent_id", "kind", "subject", "role"),
    *("attempt", "max_attempts", "owner", "payload", "claimed_at", "error"),
)


@cache
def claim(*, lost: bool = False) -> Update:
    """Parameters: step, owner, now, until. Returns the columns of CLAIMED when the step was free.

    lost: take over a step whose lease has run out, in place of one that is ready and due.
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
        .returning(*(_c[name] for name in CLAIMED))
    )


def _expired(*, trusted: bool = True) -> ColumnElement[bool]:
    """The lease has run out, and that means something: see `sweep_row.look`."""
    now = bindparam("now", type_=Utc())
    doubted = select(_sweep.c.id).where(or_(now < _sweep.c.trusted_from, now > _sweep.c.trusted_until)).exists()
    return and_(_c.state == StepState.RUNNING, _c.lease_until < now, ~doubted if trusted else doubted)


@cache
def lost() -> Select[Any]:
    """Who held a step whose lease has run out, as `graph.Attempted`; the row is locked. Parameters: step, now."""
    columns = (_c.id, _c.run_id, _c.kind, _c.subject, _c.role, _c.attempt, _c.owner, _c.claimed_at)
    return select(*columns).where(_c.id == bindparam("step"), _expired()).with_for_update()


@cache
def doubted() -> Update:
    """Notes a step whose lease seems to have run out as unsent, so that a sweep that is sure sends it again.
    Parameters: step, now."""
    return update(_steps).where(_c.id == bindparam("step"), _expired(trusted=False)).values(sent_at=None)


@cache
def attempt_ended() -> Insert:
    """Parameters: the columns of an attempt."""
    return insert(_attempts)


@cache
def fenced(*columns: str) -> Update:
    """Sets `columns` of a step still held. Parameters: step, held_by, held_attempt, and each column as new_NAME."""
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
def take_off() -> Update:
    """One child fewer of a waiting step, which is ready with the last. Parameters: parent, now. One statement, so that
    two last children cannot each think that the other still runs."""
    now = bindparam("now", type_=Utc())
    last = _c.pending == 1
    return (
        update(_steps)
        .where(_c.id == bindparam("parent"), _c.state == StepState.WAITING)
        .values(
            pending=_c.pending - 1,
            state=case((last, StepState.READY.value), else_=_c.state),
            due_at=case((last, now), else_=_c.due_at),
            sent_at=case((last, now), else_=_c.sent_at),
            sends=case((last, 1), else_=_c.sends),
        )
        .returning(_c.id, _c.kind, _c.role, _c.parent_id, _c.subject, _c.run_id, _c.state)
    )
