"""Steps as the functions that do them see them, their events, and the runs that a step of another run waits for.

A child run names its step in its parameters, and is opened in the transaction that asks for it. The transaction that
closes the run counts the step down, whichever way the run ended, so that nothing polls.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, select
from sqlalchemy.orm import Mapped, aliased
from sqlmodel import Session, col

from chordesk.models.events import Envelope, EventType, event
from chordesk.models.states import RUN_LIVE, AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run, Step

_LONGEST = 500


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step to be added. parent: the step that waits for it. waits: for children of its own, which `add` counts."""

    kind: str
    parent: str
    subject: str = ""
    role: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    waits: bool = False
    id: str = field(default_factory=new_id)


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """A step that may be sent now."""

    id: str
    kind: str
    role: str
    parent_id: str | None
    subject: str = ""
    run_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedStep(ReadyStep):
    """A step that this process holds."""

    attempt: int
    max_attempts: int
    owner: str
    payload: dict[str, Any]
    claimed_at: dt.datetime
    error: str | None = None  # why the attempt before this one ended


# The identifying fields of a step: one that is held, its row, or these columns of it.
SomeStep = ClaimedStep | Step | Row[Any]


def ready_of(step: SomeStep) -> ReadyStep:
    return ReadyStep(step.id, step.kind, step.role, step.parent_id, step.subject, step.run_id)


def started_event(step: ClaimedStep) -> Envelope:
    return _event(EventType.STATUS_STARTED, step, owner=step.owner)


def again_event(step: SomeStep, outcome: AttemptEnd, why: str | None) -> Envelope:
    lost = {"lost": step.owner} if outcome is AttemptEnd.LOST else {}
    return _event(EventType.STATUS_AGAIN, step, outcome=outcome.value, why=_short(why), **lost)


def ended_event(step: SomeStep, state: StepState, why: str | None, lost: str | None = None) -> Envelope:
    """Return the event of a step's end. lost: the worker that was lost with its last attempt."""
    facts = {"lost": lost} if lost else {}
    return _event(EventType.STATUS_ENDED, step, state=state.value, why=_short(why), **facts)


def _event(type_: EventType, step: SomeStep, **facts: Any) -> Envelope:
    which = {"step": step.id, "kind": str(step.kind), "subject": step.subject, "role": step.role}
    return event(type_, step.run_id, **which, attempt=step.attempt, **facts)


def _short(why: str | None) -> str | None:
    return why[:_LONGEST] if why is not None else None


# Runs that a step of another run waits for: opened in the transaction that asks for them, counted like its children.
#
# Such a run names the step in its parameters. The transaction that closes the run counts the step down, whichever way
# the run ended, so that a parent waits for as long as its child runs and not longer, and nothing polls.

PARENT_STEP = "parent_step"  # in a run's parameters: id of the step that waits for its end

Writer = Callable[[Session, Run, str], Sequence[NewStep]]
_OPEN = (RunState.RUNNING, RunState.STOPPING)


@dataclass(frozen=True, slots=True)
class ChildRun:
    """A run to be opened, and the step that waits for its end. `Done.runs` opens it.

    write: adds the run's own rows and returns its first steps, as for any run. It is called again when the transaction
    is begun again.
    """

    run: Run
    write: Writer
    parent_step: str

    def row(self) -> Run:
        """Return the run's row: a new one each time, for a transaction may be begun again."""
        return Run(**{**self.run.model_dump(), "params": {**self.run.params, PARENT_STEP: self.parent_step}})


def waiting_step(run: Run) -> str | None:
    found = run.params.get(PARENT_STEP)
    return None if found is None else str(found)


def named_step() -> ColumnElement[str]:
    """Return the step that a run's parameters name, as a column."""
    named: ColumnElement[str] = col(Run.params)[PARENT_STEP].as_string()
    return named


def child_is_open(step_id: ColumnElement[str] | Mapped[str]) -> ColumnElement[bool]:
    return select(col(Run.id)).where(col(Run.state).in_(_OPEN), named_step() == step_id).exists()


def open_runs_below(session: Session, run_ids: Iterable[str]) -> dict[str, str]:
    """Open runs that steps of these runs wait for, at any depth, each with the one of `run_ids` above it."""
    top = {run_id: run_id for run_id in run_ids}
    layer = set(top)
    while layer:
        rows = session.execute(
            select(col(Run.id), col(Step.run_id))
            .join(Step, col(Step.id) == named_step())
            .where(col(Run.state).in_(RUN_LIVE), col(Step.run_id).in_(layer))
        ).all()
        layer = {row.id for row in rows if row.id not in top}
        top |= {row.id: top[row.run_id] for row in rows if row.id in layer}
    return {run_id: above for run_id, above in top.items() if run_id != above}


def runs_left_behind(session: Session) -> list[str]:
    """Return the running runs whose waiting step belongs to a run that is being stopped or has ended: they end too."""
    above = aliased(Run)
    rows = session.scalars(
        select(col(Run.id))
        .join(Step, col(Step.id) == named_step())
        .join(above, and_(col(above.id) == col(Step.run_id), col(above.state) != RunState.RUNNING))
        .where(col(Run.state) == RunState.RUNNING)
    )
    return list(rows)
