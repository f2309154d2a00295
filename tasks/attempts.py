"""What every attempt at a run's steps came to: for people who ask why something took so long or failed."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from models.columns import utcnow
from models.research import Frozen
from models.states import AttemptEnd, StepState
from models.tables import Attempt, Run, Step

RUNNING = "running"


class AttemptRow(Frozen):
    """One attempt. outcome: how it ended, or `running`; seconds: how long it took, so far if it still runs."""

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
        return self.outcome in (AttemptEnd.DONE, RUNNING) and self.attempt == 1


def attempts(session: Session, run: Run) -> list[AttemptRow]:
    """All attempts of a run's steps by step and number; one that still runs is the last of its step."""
    ended = session.exec(
        select(Step, Attempt).join(Attempt, col(Attempt.step_id) == col(Step.id)).where(Step.run_id == run.id)
    ).all()
    running = session.exec(select(Step).where(Step.run_id == run.id, Step.state == StepState.RUNNING)).all()
    rows = [_ended(step, found) for step, found in ended] + [_running(step) for step in running]
    return sorted(rows, key=lambda row: (row.step_id, row.attempt))


def _ended(step: Step, found: Attempt) -> AttemptRow:
    return AttemptRow(
        step_id=step.id,
        kind=step.kind,
        role=step.role,
        subject=step.subject,
        attempt=found.attempt,
        max_attempts=step.max_attempts,
        owner=found.owner,
        started_at=found.started_at,
        ended_at=found.ended_at,
        outcome=found.outcome,
        reason=found.reason,
        seconds=(found.ended_at - found.started_at).total_seconds(),
    )


def _running(step: Step) -> AttemptRow:
    started = step.claimed_at or step.created_at
    return AttemptRow(
        step_id=step.id,
        kind=step.kind,
        role=step.role,
        subject=step.subject,
        attempt=step.attempt,
        max_attempts=step.max_attempts,
        owner=step.owner or "",
        started_at=started,
        ended_at=None,
        outcome=RUNNING,
        reason=None,
        seconds=(utcnow() - started).total_seconds(),
    )
