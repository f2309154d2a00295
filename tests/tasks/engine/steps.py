"""Runs and steps by hand, and what became of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from sqlmodel import SQLModel, select

from chordesk.models.database.store import Store
from chordesk.models.states import StepKind
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Attempt, Run, Step, Sweep
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.policy import LOSSES
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from tests.builders import run_row


def report(subject: str, parent: str = "") -> NewStep:
    return NewStep(StepKind.REPORT, parent, subject, "quick")


def opened(store: Store, *steps: NewStep, attempts: int = 2, **values: Any) -> tuple[Run, str]:
    """Open a run; its finish step waits for those of `steps` without a parent. Return the run and its finish step's
    id. values: of the run."""
    run, finish = run_row(**values), new_id()
    under = [s if s.parent else NewStep(s.kind, finish, s.subject, s.role, s.payload, s.waits, s.id) for s in steps]
    with store.session() as session:
        graph.open_run(session, run, finish, attempts)
        graph.add(session, run.id, under, attempts)
    return run, finish


def claimed(store: Store, step_id: str, owner: str = "a", lease: float = 60) -> ClaimedStep:
    with store.session() as session:
        step = graph.claim(session, step_id, owner, lease)
    assert step is not None
    return step


def lose(store: Store, step_id: str, times: int = LOSSES, owner: str = "lost") -> None:
    """Let a step's workers be lost, so many of them; the last one's loss is not written yet."""
    for _ in range(times):
        claimed(store, step_id, owner)
        change(store, Step, step_id, lease_until=ago(1))


def lost_before(store: Store, *step_ids: str) -> None:
    """Write that all workers but the last one that a step may lose were lost; it is held and will be the last."""
    with store.session() as session:
        for step_id in step_ids:
            row = session.get_one(Step, step_id)
            row.state, row.owner, row.claimed_at, row.lease_until = "running", f"last-{step_id}", ago(2), ago(1)
            row.attempt, row.max_attempts = LOSSES, row.max_attempts + LOSSES - 1
            session.add(row)
            session.add_all(
                Attempt(step_id=step_id, attempt=number, owner="w", started_at=ago(9), ended_at=ago(8), outcome="lost")
                for number in range(1, LOSSES)
            )


def get(store: Store, step_id: str) -> Step:
    with store.read() as session:
        return session.get_one(Step, step_id)


def sweep_row(store: Store) -> Sweep:
    with store.read() as session:
        return session.get_one(Sweep, 1)


def change(store: Store, table: type[SQLModel], key: Any, **values: object) -> None:
    with store.session() as session:
        row = session.get_one(table, key)
        for name, value in values.items():
            setattr(row, name, value)


def tried(store: Store, step_id: str) -> list[tuple[int, str, str, str | None]]:
    """Number, owner, outcome and reason of a step's attempts."""
    with store.read() as session:
        rows = session.exec(select(Attempt).where(Attempt.step_id == step_id).order_by(Attempt.attempt)).all()
    return [(row.attempt, row.owner, row.outcome, row.reason) for row in rows]


def ago(seconds: float) -> dt.datetime:
    return utcnow() - dt.timedelta(seconds=seconds)
