"""How a task does its step: claim it, hold the lease, do the work, write the end and its rows in one transaction,
then send what became ready. Nothing raises: a header task of a chord that raised would end the chord."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from celery import Celery
from sqlmodel import SQLModel

from agents.researchers import FIRST_ROLE
from models.errors import DeskError, LeaseLost
from models.states import RunState, StepState
from models.store import insert_rows
from tasks import graph
from tasks.bootstrap import Desk, desk_of
from tasks.dispatch import send
from tasks.graph import Claimed, NewStep, Ready
from tasks.leases import Held

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Closing:
    """How the run ends with this step."""

    state: RunState
    summary: dict[str, Any]
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Done:
    """The step's end. Rows are written in the order given, each group before the next (foreign keys)."""

    result: dict[str, Any] = field(default_factory=dict)
    rows: Sequence[Sequence[SQLModel]] = ()
    children: Sequence[NewStep] = ()
    state: StepState = StepState.DONE
    error: str | None = None
    closing: Closing | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """Try the step once more after a delay; the rows of this attempt are kept."""

    delay_seconds: float
    reason: str
    rows: Sequence[Sequence[SQLModel]] = ()


Ending = Done | Again
Handler = Callable[[Desk, Claimed, Held], Ending]


def work(app: Celery, step_id: str, handler: Handler) -> str:
    """Do a step if it is there to be done; its id comes back whatever happened."""
    desk = desk_of(app)
    try:
        with desk.store.session() as session:
            step = graph.claim(session, step_id, desk.owner, desk.settings.lease_seconds)
        if step is None:
            return step_id
        with structlog.contextvars.bound_contextvars(run=step.run_id, step=step_id, kind=step.kind, role=step.role):
            _hold(desk, app, step, handler)
    except LeaseLost as error:
        log.warning("step.lease_lost", step=step_id, error=str(error))
    except Exception:
        # The lease runs out by itself and the sweep takes the step up again.
        log.exception("step.broke", step=step_id)
    return step_id


def _hold(desk: Desk, app: Celery, step: Claimed, handler: Handler) -> None:
    with desk.leases.hold(step) as held:
        ending = _attempt(desk, step, held, handler)
        ready = settle(desk, step, ending)
    # The quick report is in no chord, and the chord of a report tried again has counted its first attempt.
    in_chord = step.role != FIRST_ROLE and step.attempt == 1
    send(app, ready, chord_sends_conclude=in_chord)


def _attempt(desk: Desk, step: Claimed, held: Held, handler: Handler) -> Ending:
    try:
        return handler(desk, step, held)
    except LeaseLost:
        raise
    except Exception as error:
        if not isinstance(error, DeskError):
            log.exception("step.failed")
        reason = f"{type(error).__name__}: {error}"
        may_pass = not isinstance(error, DeskError) or error.retryable
        if may_pass and step.attempt < step.max_attempts:
            return Again(backoff(step.attempt), reason)
        return Done(state=StepState.FAILED, error=reason)


def settle(desk: Desk, step: Claimed, ending: Ending) -> list[Ready]:
    """Write a step's end, with its rows, in one transaction fenced with its owner."""
    with desk.store.session() as session:
        for group in ending.rows:
            insert_rows(session, group)
        if isinstance(ending, Again):
            graph.give_back(session, step, ending.delay_seconds, ending.reason)
            return []
        ready = graph.finish(
            session, step, ending.state, result=ending.result, error=ending.error, children=ending.children
        )
        if ending.closing is not None:
            end = ending.closing
            graph.close_run(session, step.run_id, end.state, end.summary, end.notes)
        return ready


def backoff(attempt: int, base_seconds: float = 1.0, most_seconds: float = 60.0) -> float:
    """Exponential, with jitter of a half, so that steps that failed together do not return together."""
    return float(min(most_seconds, base_seconds * 2 ** (attempt - 1)) * random.uniform(0.75, 1.25))
