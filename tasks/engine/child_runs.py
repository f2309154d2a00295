"""Runs that a step of another run waits for: opened in the transaction that asks for them, counted like its children.

Such a run names the step in its parameters. The transaction that closes the run counts the step down, whichever way
the run ended, so that a parent waits for as long as its child runs and not longer, and nothing polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, select
from sqlalchemy.orm import Mapped, aliased
from sqlmodel import Session, col

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.engine.steps import NewStep

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
    """Return the id of the step that waits for a run; None for a run that nothing waits for."""
    found = run.params.get(PARENT_STEP)
    return None if found is None else str(found)


def named_step() -> ColumnElement[str]:
    """Return the step that a run's parameters name, as a column."""
    named: ColumnElement[str] = col(Run.params)[PARENT_STEP].as_string()
    return named


def open_child(step_id: ColumnElement[str] | Mapped[str]) -> ColumnElement[bool]:
    """Return the condition that a run which this step waits for has not ended."""
    return select(col(Run.id)).where(col(Run.state).in_(_OPEN), named_step() == step_id).exists()


def open_below(session: Session, run_ids: Iterable[str]) -> dict[str, str]:
    """Return the runs that have not ended and that steps of these runs wait for, at any depth: each with the one of
    `run_ids` above it."""
    top = {run_id: run_id for run_id in run_ids}
    layer = set(top)
    while layer:
        rows = session.execute(
            select(col(Run.id), col(Step.run_id))
            .join(Step, col(Step.id) == named_step())
            .where(col(Run.state).not_in(RUN_FINAL), col(Step.run_id).in_(layer))
        ).all()
        layer = {row.id for row in rows if row.id not in top}
        top |= {row.id: top[row.run_id] for row in rows if row.id in layer}
    return {run_id: above for run_id, above in top.items() if run_id != above}


def left_behind(session: Session) -> list[str]:
    """Return the running runs whose waiting step belongs to a run that is being stopped or has ended: they end too."""
    above = aliased(Run)
    rows = session.scalars(
        select(col(Run.id))
        .join(Step, col(Step.id) == named_step())
        .join(above, and_(col(above.id) == col(Step.run_id), col(above.state) != RunState.RUNNING))
        .where(col(Run.state) == RunState.RUNNING)
    )
    return list(rows)
