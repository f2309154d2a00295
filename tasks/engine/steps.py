"""Steps as the functions that do them see them, and their events: claimed, tried again, ended."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Row

from chordesk.models.events.envelope import Envelope, EventType, event
from chordesk.models.states import AttemptEnd, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Step

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
class ClaimedStep:
    """A step that this process holds."""

    id: str
    run_id: str
    parent_id: str | None
    kind: str
    subject: str
    role: str
    attempt: int
    max_attempts: int
    owner: str
    payload: dict[str, Any]
    claimed_at: dt.datetime
    error: str | None = None  # why the attempt before this one ended


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """A step that may be sent now."""

    id: str
    kind: str
    role: str
    parent_id: str | None
    subject: str = ""
    run_id: str = ""


# The identifying fields of a step: one that is held, its row, or these columns of it.
SomeStep = ClaimedStep | Step | Row[Any]


def ready_of(step: SomeStep) -> ReadyStep:
    return ReadyStep(step.id, step.kind, step.role, step.parent_id, step.subject, step.run_id)


def started_event(step: ClaimedStep) -> Envelope:
    return _event(EventType.STATUS_STARTED, step, owner=step.owner)


def again_event(step: SomeStep, outcome: AttemptEnd, why: str | None) -> Envelope:
    """Return the event of an attempt that has ended without ending its step."""
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
