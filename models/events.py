"""Events of the desk: envelope and types, stored batches, lifecycles, and the events of runs and artifacts."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Self

import orjson
from pydantic import AfterValidator, Field
from sqlmodel import SQLModel

from chordesk.models.answers import Frozen, acts
from chordesk.models.descriptions import NAME
from chordesk.models.kinds import OpenKind
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Artifact, Run, ToolCall, Turn

# The run id of events that belong to no run, such as a halted account.
DESK = "desk"


TEXT_LIMIT = 500  # characters of a text in a payload


class Domain(OpenKind, form=NAME.pattern, member="event_kinds"):
    """Subject of an event. Each feature with events has one of its own name."""

    RUN = "run"
    THREAD = "thread"
    TURN = "turn"
    ITEM = "item"
    TOOL = "tool"
    STATUS = "status"  # of a step: started, retried, lost, ended
    ORDER = "order"
    APPROVAL = "approval"
    ARTIFACT = "artifact"
    DESK = "desk"  # its machines

    @classmethod
    def of_features(cls) -> dict[str, Any]:
        found = super().of_features()
        own = [one.value for one in cls]
        return {name.partition(".")[0]: "" for name in found if name.partition(".")[0] not in own}


class EventType(OpenKind, form=rf"{NAME.pattern}\.[a-z][a-z0-9_]{{0,39}}", member="event_kinds"):
    """Every type, as `domain.name`. Features have more."""

    domain: Domain

    RUN_STARTED = "run.started"
    RUN_ADOPTED = "run.adopted"  # payload.model, by: it goes on with another model
    RUN_STOPPING = "run.stopping"
    RUN_COMPLETED = "run.completed"  # payload.state: how
    THREAD_STARTED = "thread.started"
    THREAD_RESUMED = "thread.resumed"
    THREAD_FORKED = "thread.forked"
    THREAD_CLOSED = "thread.closed"  # for good only with payload.reason manual
    TURN_STARTED = "turn.started"
    TURN_COMPLETED = "turn.completed"
    TURN_INTERRUPTED = "turn.interrupted"
    TURN_FAILED = "turn.failed"
    TURN_REFUSED = "turn.refused"
    TURN_ERROR = "turn.error"  # the provider failed a call; payload.will_retry
    TURN_USAGE = "turn.usage"
    TURN_PROGRESS = "turn.progress"  # of a long turn. payload.phase, seconds, tokens, calls
    ITEM_STARTED = "item.started"
    ITEM_COMPLETED = "item.completed"
    ITEM_DELTA = "item.delta"  # live only: not stored, no sequence
    TOOL_STARTED = "tool.started"  # payload.by: code, where code made the call before the turn, as of tool.completed
    TOOL_COMPLETED = "tool.completed"
    TOOL_ROGUE = "tool.rogue"  # payload.kind, acts: a model called what its turn does not have
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

    DESK_FORGED = "desk.forged"  # payload.process, count, why: messages that the desk did not sign were dropped
    DESK_ROOM = "desk.room"  # of a resource of a host. payload.state: short, out (no step is taken) or enough
    DESK_PROCESS = "desk.process"  # payload.process, state: frozen, dead, unreachable, or runs and gone after these

    def __init__(self, value: str) -> None:
        self._entered(value)

    def _entered(self, value: str) -> None:
        self.domain = Domain(value.partition(".")[0])


def _known(asked: EventType | Domain) -> EventType | Domain:
    return type(asked).require(asked)


# What may be asked for: of stored events there may be others, of features that are gone.
KnownType = Annotated[EventType | Domain, AfterValidator(_known)]


class Envelope(Frozen):
    """One event. Server identity: event_id, sequence, occurred_at, run_id. Upstream identity, always present and null
    where there is none: thread_id, turn_id, item_id, approval_id."""

    event_id: str = Field(default_factory=new_id)
    # assigned by the transaction that stores the event, None before that
    sequence: int | None = Field(None, description="1, 2, 3 and so on within a run, without gaps; null for a delta")
    occurred_at: dt.datetime = Field(default_factory=utcnow)
    run_id: str
    domain: Domain
    type: EventType
    thread_id: str | None = None
    turn_id: str | None = None
    item_id: str | None = None
    approval_id: str | None = None
    payload: dict[str, Any] = Field(default_factory=dict)  # small, JSON

    def at(self, sequence: int) -> Envelope:
        return self.model_copy(update={"sequence": sequence})


def short(text: Any) -> str:
    """Cut to an event's limit, without NUL characters, which Postgres cannot hold in text."""
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
    """Return an envelope of the given moment, or of now, in its type's domain. payload: any names but those of the
    identities. Raises ValidationError for an identity that is not text."""
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


# Batches of a run's consecutive events as they are stored: one JSON text each, serialized once.
#
# Sequences are null in the text; they follow from the first event's.

MOST = 20  # events in a batch


@dataclass(frozen=True, slots=True)
class Batch:
    """first: the sequence of the first event. events: without sequences, see `placed`. text: a JSON list of them."""

    run_id: str
    first: int
    events: Sequence[Envelope]
    text: str

    def placed(self) -> Iterator[Envelope]:
        for place, one in enumerate(self.events):
            yield one.at(self.first + place)


def batches(run_id: str, first: int, events: Sequence[Envelope]) -> Iterator[Batch]:
    for start in range(0, len(events), MOST):
        some = events[start : start + MOST]
        text = orjson.dumps([one.__dict__ for one in some]).decode()
        yield Batch(run_id, first + start, some, text)


def rows_of(text: str, first: int) -> Iterator[Any]:
    for place, row in enumerate(orjson.loads(text)):
        yield {**row, "sequence": first + place} if isinstance(row, dict) else row


class RuntimeKind(StrEnum):
    CODEX = "codex"
    LITELLM = "litellm"


class LifecycleStatus(StrEnum):
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class ConversationRef(Frozen):
    """Reference to a run's conversation: runtime, thread, and the running turn if there is one."""

    run_id: str
    runtime_kind: RuntimeKind
    thread_id: str
    active_turn_id: str | None = None

    def during(self, turn_id: str | None) -> Self:
        return type(self)(**{**self.__dict__, "active_turn_id": turn_id})


class _Lifecycle(Frozen):
    status: LifecycleStatus
    started_at: dt.datetime
    ended_at: dt.datetime | None = None

    def ended(self, status: LifecycleStatus, at: dt.datetime) -> Self:
        return type(self)(**{**self.__dict__, "status": status, "ended_at": at})


class TurnLifecycle(_Lifecycle):
    """phase, tokens: of a turn that takes long, what it did when it was last looked at, and how many tokens of its
    current model call had come by then."""

    turn_id: str
    thread_id: str
    phase: str | None = None
    tokens: int = 0

    def during(self, phase: str, tokens: int) -> Self:
        return type(self)(**{**self.__dict__, "phase": phase, "tokens": tokens})


class ItemLifecycle(_Lifecycle):
    """type: the protocol's name, such as agentMessage or dynamicToolCall."""

    item_id: str
    turn_id: str
    thread_id: str
    type: str


_NOTES, _LONGEST = 5, 500


def started(run: Run) -> Envelope:
    facts = {"account": run.account, "market": run.market, "market_now": run.market_now.isoformat()}
    return event(EventType.RUN_STARTED, run.id, kind=run.kind, model=run.model, parent=run.parent_run_id, **facts)


def adopted(run: Run, by: str) -> Envelope:
    return event(EventType.RUN_ADOPTED, run.id, kind=run.kind, model=run.model, by=by)


def stopping(run: Run) -> Envelope:
    return event(EventType.RUN_STOPPING, run.id, kind=run.kind)


def completed(run: Run) -> Envelope:
    notes = [note[:_LONGEST] for note in run.notes[-_NOTES:]]
    facts: dict[str, Any] = {"kind": run.kind, "state": run.state, "account": run.account, "notes": notes}
    return event(EventType.RUN_COMPLETED, run.id, **facts)


def stored(rows: Iterable[Iterable[SQLModel]], told: Collection[str] = ()) -> list[Envelope]:
    """An event for each artifact and rogue call among rows to be written, with the thread of its turn. told: ids of
    rogue calls that have theirs."""
    every = [row for group in rows for row in group]
    turns = {row.id: row for row in every if isinstance(row, Turn)}
    rogue = [row for row in every if isinstance(row, ToolCall) and row.rogue is not None and row.id not in told]
    return [
        *(_stored(row, turns.get(row.turn_id)) for row in every if isinstance(row, Artifact)),
        *(called(row, turns[row.turn_id]) for row in rogue if row.turn_id in turns),
    ]


def called(row: ToolCall, turn: Turn) -> Envelope:
    return event(
        EventType.TOOL_ROGUE,
        turn.run_id,
        turn.finished_at,
        thread_id=turn.thread_id,
        turn_id=turn.codex_turn_id,
        call=row.id,
        tool=short(row.tool),
        kind=row.rogue,
        acts=acts(row.tool),
        arguments=short(orjson.dumps(row.arguments).decode()),
        turn=turn.id,
        role=turn.role,
        subject=turn.subject,
    )


def _stored(row: Artifact, turn: Turn | None) -> Envelope:
    return event(
        EventType.ARTIFACT_STORED,
        row.run_id,
        row.created_at,
        thread_id=turn.thread_id if turn is not None else None,
        turn_id=turn.codex_turn_id if turn is not None else None,
        id=row.id,
        kind=row.kind,
        digest=row.digest,
        size=row.size,
        run=row.run_id,
        turn=row.turn_id,
        role=turn.role if turn is not None else None,
        subject=turn.subject if turn is not None else None,
    )
