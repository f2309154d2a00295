"""The envelope that every event of the desk has, in storage, on the stream and in the log, and its taxonomy."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Any

from pydantic import Field

from models.columns import new_id, utcnow
from models.research import Frozen
from models.unchecked import unchecked

# The stream of what belongs to no run: an account that was halted, a fence that was taken.
DESK = "desk"


class Domain(StrEnum):
    """What an event is about."""

    RUN = "run"
    THREAD = "thread"
    TURN = "turn"
    ITEM = "item"
    TOOL = "tool"
    STATUS = "status"  # of a step: claimed, tried again, lost, ended
    ORDER = "order"
    APPROVAL = "approval"


class EventType(StrEnum):
    """Every type there is, as `domain.what`."""

    domain: Domain

    RUN_STARTED = "run.started"
    RUN_STOPPING = "run.stopping"
    RUN_COMPLETED = "run.completed"  # payload.state says how
    THREAD_STARTED = "thread.started"
    THREAD_RESUMED = "thread.resumed"
    THREAD_FORKED = "thread.forked"
    THREAD_CLOSED = "thread.closed"  # let go of: by its conversation, or for good with the reason manual
    TURN_STARTED = "turn.started"
    TURN_COMPLETED = "turn.completed"
    TURN_INTERRUPTED = "turn.interrupted"
    TURN_FAILED = "turn.failed"
    TURN_REFUSED = "turn.refused"
    TURN_ERROR = "turn.error"  # the provider failed a call; payload.will_retry
    TURN_USAGE = "turn.usage"
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
    ORDER_TRADING = "order.trading"  # an account was halted, reduced or let go on
    APPROVAL_ASKED = "approval.asked"
    APPROVAL_DECIDED = "approval.decided"
    APPROVAL_EXPIRED = "approval.expired"

    def __init__(self, value: str) -> None:
        self.domain = Domain(value.partition(".")[0])


class Envelope(Frozen):
    """One event. Server identity: event_id, sequence, occurred_at, run_id. Upstream identity, always present and null
    where there is none: thread_id, turn_id, item_id, approval_id.

    sequence: 1, 2, 3 and so on within a run, without gaps, given by the transaction that stores the event; None before
    that, and for a delta for ever. payload: small, JSON.
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
        """The same event in its place."""
        return unchecked(Envelope, {**self.__dict__, "sequence": sequence})


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
    """An envelope of now, or of the moment given; its domain is the type's. payload: any names but those of the
    identities."""
    return envelope(type, run_id, occurred_at or utcnow(), thread_id, turn_id, item_id, approval_id, payload)


def envelope(
    type: EventType,
    run_id: str,
    occurred_at: dt.datetime,
    thread_id: str | None,
    turn_id: str | None,
    item_id: str | None,
    approval_id: str | None,
    payload: dict[str, Any],
) -> Envelope:
    """The same, for who has it all at hand: every event of a turn comes this way."""
    fields = {
        "event_id": new_id(),
        "sequence": None,
        "occurred_at": occurred_at,
        "run_id": run_id,
        "domain": type.domain,
        "type": type,
        "thread_id": thread_id,
        "turn_id": turn_id,
        "item_id": item_id,
        "approval_id": approval_id,
        "payload": payload,
    }
    return unchecked(Envelope, fields)
