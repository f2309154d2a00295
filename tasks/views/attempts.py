"""The outcome of every attempt at a run's steps, to see why something took long or failed."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.states import AttemptEnd, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt, Run, Step

RUNNING = "running"


class AttemptRow(Frozen):
    """One attempt. outcome: how it ended, or `running`; seconds: its duration, so far if it still runs."""

    step_id: str
    kind: str
    role: str
    subject: str
    attempt: int
    max_attempts: int
    owner: str
    started_at: dt.datetime
    ended_at: dt.datetime | None
    outcome: str
    reason: str | None
    seconds: float

    @property
    def went_well(self) -> bool:
        """Return whether the first attempt runs, succeeded, or was stopped on purpose: a stop is no failure."""
        return self.outcome in (AttemptEnd.DONE, AttemptEnd.STOPPED, RUNNING) and self.attempt == 1


def attempts(session: Session, run: Run) -> list[AttemptRow]:
    """Return all attempts of a run's steps by step and number; one that still runs is the last of its step."""
    ended = session.exec(
        select(Step, Attempt).join(Attempt, col(Attempt.step_id) == col(Step.id)).where(Step.run_id == run.id)
    ).all()
    running = session.exec(select(Step).where(Step.run_id == run.id, Step.state == StepState.RUNNING)).all()
    rows = [AttemptRow.of(one, step, seconds=(one.ended_at - one.started_at).total_seconds()) for step, one in ended]
    rows += [_running(step) for step in running]
    return sorted(rows, key=lambda row: (row.step_id, row.attempt))


def _running(step: Step) -> AttemptRow:
    started = step.claimed_at or step.created_at
    return AttemptRow.of(
        step, step_id=step.id, owner=step.owner or "", started_at=started, ended_at=None, outcome=RUNNING, reason=None,
        seconds=(utcnow() - started).total_seconds(),
    )  # fmt: skip
