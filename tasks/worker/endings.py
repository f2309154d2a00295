"""How an attempt at a step ends: it is done, or another attempt follows after a delay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlmodel import Session, SQLModel

from chordesk.models.errors import Postponed
from chordesk.models.states import AttemptEnd, StepState
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import limit_waits, policy
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ChildRun, ClaimedStep, NewStep


@dataclass(frozen=True, slots=True)
class Done:
    """The step's end. Rows are written in the order given, each group before the next (foreign keys); then `also` may
    write in the same transaction, and is called again when that is begun again; of a run that it closes it returns the
    end."""

    result: dict[str, Any] = field(default_factory=dict)
    rows: Sequence[Sequence[SQLModel]] = ()
    children: Sequence[NewStep] = ()
    runs: Sequence[ChildRun] = ()  # opened in the same transaction, each for a step that waits for it
    error: str | None = None  # why it failed or, with `stopped`, why it was not needed
    stopped: bool = False
    also: Callable[[Session], object] | None = None
    cancels: str | None = None  # why the other steps of this kind under the same parent are not needed any more

    @property
    def state(self) -> StepState:
        return StepState.STOPPED if self.stopped else StepState.DONE if self.error is None else StepState.FAILED


@dataclass(frozen=True, slots=True)
class RetryLater:
    """Another attempt after a delay; the rows of this one are kept. A drained step may go at once. counts: whether the
    attempt is used up. also: as of Done."""

    delay_seconds: float
    reason: str
    rows: Sequence[Sequence[SQLModel]] = ()
    outcome: AttemptEnd = AttemptEnd.AGAIN
    counts: bool = True
    also: Callable[[Session], object] | None = None


class TryAgain(Exception):
    """A step ends with another attempt of itself, wherever in its work that was found."""

    def __init__(self, later: RetryLater) -> None:
        super().__init__(later.reason)
        self.later = later


Ending = Done | RetryLater
Handler = Callable[[Desk, ClaimedStep, HeldStep], Ending]


def postponed(step: ClaimedStep, error: Postponed, rows: Sequence[Sequence[SQLModel]] = ()) -> RetryLater:
    """Return another attempt of a step whose turn may not start yet. A limit that lasts moves its run's deadline on."""
    also = partial(limit_waits.extend, step_id=step.id, until=error.until) if error.until is not None else None
    return RetryLater(error.seconds, policy.waiting(step.error, str(error)), rows, counts=False, also=also)


def retry_when_enough(reason: str, why: str, rows: Sequence[Sequence[SQLModel]] = ()) -> RetryLater:
    """Return another attempt of a step that failed while there was no room; it uses up none, whatever the failure."""
    wait = policy.jittered(policy.retry("no_room").delay)
    return RetryLater(wait, policy.reason("no_room", f"{why}; {reason}"), rows, counts=False)


def attempts_of(step: ClaimedStep) -> tuple[int, int]:
    """Attempts used up, with this one, and left. Those that did not count raised the number that the step may have."""
    left = step.max_attempts - step.attempt
    return max(policy.STEP_ATTEMPTS - left, 1), left
