"""The envelope of every event of the desk, in storage, on the stream and in the log, and the event types."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

from pydantic import Field

from chordesk.models.research import Frozen
from chordesk.models.tables.columns import new_id, utcnow

# The run id of events that belong to no run, such as a halted account.
DESK = "desk"


TEXT_LIMIT = 500  # characters of a text in a payload


class Domain(StrEnum):
    """Subject of an event."""

    RUN = "run"
    THREAD = "thread"
    TURN = "turn"
    ITEM = "item"
    TOOL = "tool"
    STATUS = "status"  # of a step: started, retried, lost, ended
    ORDER = "order"
    APPROVAL = "approval"
    ARTIFACT = "artifact"


class EventType(StrEnum):
    """Every type, as `domain.name`."""

    domain: Domain

    RUN_STARTED = "run.started"
    RUN_STOPPING = "run.stopping"
    RUN_COMPLETED = "run.completed"  # payload.state: how
    THREAD_STARTED = "thread.started"
    THREAD_RESUMED = "thread.resumed"
    THREAD_FORKED = "thread.forked"
    THREAD_CLOSED = "thread.closed"  # released by its conversation, or for good with the reason manual
    TURN_STARTED = "turn.started"
    TURN_COMPLETED = "turn.completed"
    TURN_INTERRUPTED = "turn.interrupted"
    TURN_FAILED = "turn.failed"
    TURN_REFUSED = "turn.refused"
    TURN_ERROR = "turn.error"  # the provider failed a call; payload.will_retry
    TURN_USAGE = "turn.usage"
    TURN_PROGRESS = "turn.progress"  # of a turn that takes long. payload.phase, seconds, tokens, calls
    ITEM_STARTED = "item.started"
    ITEM_COMPLETED = "item.completed"
    ITEM_DELTA = "item.delta"  # on the stream alone: never stored, without a sequence
    TOOL_STARTED = "tool.started"
    TOOL_COMPLETED = "tool.completed"
    STATUS_STARTED = "status.started"
    STATUS_AGAIN = "status.again"
    STATUS_ENDED = "status.ended"
    ORDER_STATE = "order.state"  # payload.state, payload.was
    ORDER_FILL = "order.fill"
    ORDER_TRADING = "order.trading"  # an account was halted, reduced or resumed
    APPROVAL_ASKED = "approval.asked"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_EXPIRED = "approval.expired"
    ARTIFACT_STORED = "artifact.stored"  # payload.id, kind, digest, run, turn: a tool gave a turn a picture
    ARTIFACT_WRITTEN = "artifact.written"  # payload.id, kind, digest, run, number: code wrote an episode's content

    def __init__(self, value: str) -> None:
        self.domain = Domain(value.partition(".")[0])


class Envelope(Frozen):
    """One event. Server identity: event_id, sequence, occurred_at, run_id. Upstream identity, always present and null
    where there is none: thread_id, turn_id, item_id, approval_id.

    sequence: 1, 2, 3 and so on within a run, without gaps, assigned by the transaction that stores the event; None
    before that, and always None for a delta. payload: small, JSON.
    """

    event_id: str = Field(default_factory=new_id)
    sequence: int | None = None
    occurred_at: dt.datetime = Field(default_factory=utcnow)
    run_id: str
    domain: Domain
    type: EventType
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    approval_id: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)

    def at(self, sequence: int) -> Envelope:
        """Return the same event with its sequence."""
        return self.model_copy(update={"sequence": sequence})


def short(text: Any) -> str:
    """Return a text cut to an event's limit, without NUL characters, which Postgres cannot hold in text."""
    return str(text if text is not None else "")[:TEXT_LIMIT].replace("\x00", "")


def event(
    type: EventType,
    run_id: str,
    occurred_at: dt.datetime | None = None,
    /,
    *,
    thread_id: str | None = None,
    turn_id: str | None = None,
    item_id: str | None = None,
    approval_id: str | None = None,
    **payload: Any,
) -> Envelope:
    """Return an envelope of the given moment, or of now, in its type's domain.

    payload: any names but those of the identities. Raises ValidationError for an identity that is no text.
    """
    return Envelope(
        occurred_at=occurred_at or utcnow(),
        run_id=run_id,
        domain=type.domain,
        type=type,
        thread_id=thread_id,
        turn_id=turn_id,
        item_id=item_id,
        approval_id=approval_id,
        payload=payload,
    )
