"""The runtime seam: protocols and frozen messages between the desk and what runs its turns and keeps its threads."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import structlog
from pydantic import BaseModel, ConfigDict, StringConstraints

from chordesk.agents.providers.liveness import Liveness, TurnLimits
from chordesk.models.answers import Failure, Frozen, Usage
from chordesk.models.errors import ProcessDied
from chordesk.models.events import (
    DESK,
    ConversationRef,
    Envelope,
    EventType,
    ItemLifecycle,
    LifecycleStatus,
    RuntimeKind,
    TurnLifecycle,
    event,
)
from chordesk.models.states import Mode
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.tools.registry import Toolset

RECYCLE_RSS_MB = 600  # a process of a runtime with more resident memory is replaced
ROLLOUT_DAYS = 14.0  # age at which an unused thread is deleted with its rollouts
THREAD_ANSWERS = 1  # last answers that a kept thread sends again; not their questions and tools' answers

Opening = Literal["same", "fresh", "fork"]
ApprovalKind = Literal["command", "file_change", "permissions", "user_input", "interrupt"]
TurnStatus = Literal["completed", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The work that a conversation belongs to; its events are stored under it. subject: the step's, not the thread's.
    A conversation outside any run belongs to the desk."""

    run_id: str = DESK
    step_id: str = ""
    attempt: int = 0
    role: str = ""
    subject: str = ""


@dataclass(frozen=True, slots=True)
class ConversationSpec:
    """Parameters of a conversation."""

    role: str
    subject: str
    keep: bool  # the thread of (role, subject) is kept from one run to the next
    base_instructions: str
    tools: Toolset
    model: str
    toolset_hash: str  # a kept thread with another hash starts afresh, since tools are fixed when a thread starts
    effort: str | None = None  # how much the model reasons; None is its own default
    # for a kept thread: continue in it, in a fresh one, or in a fork after its last completed turn. A fork or a fresh
    # thread replaces it.
    opening: Opening = "same"
    scope: Scope = Scope()
    # requests that the model may make of a person; any other is declined at once
    approvals: frozenset[ApprovalKind] = frozenset()
    mode: Mode = "other"  # the role's; a kept thread has its mode's limits
    whole: bool = False  # a kept thread is gone on with whatever its age and length, and with all of its history
    # models that a call goes to, in this order, when the provider of `model` cannot serve it
    fallbacks: tuple[str, ...] = ()
    # most model calls of one turn, the last of which must answer. Both are of runtimes that make the calls themselves.
    model_calls: int = 12
    # hosts that the model may search the web on by itself, all if empty; None: it may not
    web_search: tuple[str, ...] | None = None
    # the conversation so far, as items of the Responses API, which a thread that is not kept starts with; a turn
    # without text of its own goes on from them
    items: tuple[Mapping[str, Any], ...] = ()
    # summary, verbosity, limits: over those of the runtime's configuration
    summary: str | None = None
    verbosity: str | None = None
    limits: TurnLimits | None = None
    mask: tuple[str, ...] = ()  # what is hidden from the model of what it is shown here
    # an answer before any call of a tool is worth nothing, so that a server that is held to a form may ask for a call
    # first
    tools_first: bool = False
    # the answer's schema with all that a server may enforce of it (`models.answers.bounded_schema`), where known
    bounded: Mapping[str, Any] | None = None
    on_rogue: Callable[[RogueCall], None] | None = None  # gets rogue calls while the turn runs, where they are seen


def has_history(reason: str) -> bool:
    """Return whether a thread that was opened for this reason has the turns of the one before it."""
    return reason == "resumed" or reason.startswith("forked:")


class WebSearch(NamedTuple):
    """A step of the model's own search of the web."""

    at: dt.datetime
    action: str  # search, openPage, findInPage or other
    queries: tuple[str, ...]
    url: str | None  # of the opened page
    results: tuple[str, ...] = ()  # found URLs, where the runtime reports them


class RogueCall(NamedTuple):
    """A call that the runtime itself answered, as no tool of the turn has the name or no JSON is in the arguments."""

    at: dt.datetime
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class TurnResult:
    """End of a turn. status completed: text is the answer, unless refusal is set: the model declined. interrupted and
    failed: failure has the reason; failed with a refusal and no failure: the provider's safety system declined."""

    thread_id: str
    turn_id: str
    status: TurnStatus
    text: str
    usage: Usage
    failure: Failure | None
    refusal: str | None
    context_tokens: int | None = None  # input tokens of its last model call; None where the provider gave no figure
    model: str | None = None  # the one that answered last, where the runtime may choose another than the conversation's
    cost_usd: float | None = None  # as the runtime knows it, else None
    searches: tuple[WebSearch, ...] = ()  # the model's own of the web
    way: str | None = None
    cut: bool = False
    rogue: tuple[RogueCall, ...] = ()  # calls that no toolset was asked for


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One process of a runtime as it is now. age in seconds, rss_mb in MiB."""

    kind: str
    pid: int
    age: float
    turns: int
    in_flight: int
    rss_mb: float


class Conversation(Protocol):
    """One thread that runs turns one at a time. reason: why it is this thread, such as `initial` or `resumed`."""

    thread_id: str
    reason: str

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        """Run one turn and return its end; a failure is a result, not an exception. metadata goes with every model call
        of the turn. on_started gets the turn's id; on_limited is called when the provider limits its rate, with the
        seconds it named."""

    def interrupt(self) -> None:
        """End the running turn, and any later one of this conversation, as interrupted."""


class Runtime(Protocol):
    """Runs the turns of models in one worker process; every method belongs to the loop that it was started on."""

    async def start(self) -> None:
        """Make the runtime ready. Raises CodexError."""

    async def close(self, grace_seconds: float) -> None:
        """Let running turns end within the grace time, interrupt the rest, and release everything."""

    def status(self) -> list[ProcessStatus]:
        """Return the processes that the runtime has started; none for one that needs none."""

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        """End this turn as interrupted, and return True if it runs here."""

    def conversation(self, spec: ConversationSpec, deadline: float) -> AbstractAsyncContextManager[Conversation]:
        """Open a thread for (role, subject), with a turn slot until the block ends. deadline: loop time by which
        everything in the block has to be over. Raises CodexError, RedisDown; those with `retryable` may be tried
        again."""


class ConversationState(NamedTuple):
    """A conversation at one moment."""

    # the same from its opening to its close; a thread may have many, one after another. ref.active_turn_id: the running
    # turn, if there is one.
    id: str
    ref: ConversationRef
    scope: Scope
    reason: str
    kept: bool  # the thread outlives the conversation
    worker: str
    opened_at: dt.datetime
    closed_at: dt.datetime | None = None  # None while it is open


Lifecycle = ConversationState | TurnLifecycle | ItemLifecycle


class Observer(Protocol):
    """Listener to the events of a runtime's conversations, called on the event loop in the order of the events."""

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        """Take events and changed lifecycles of one conversation. Must neither block nor raise. events have no sequence
        yet; those of type ITEM_DELTA never get one. lifecycles are whole, so that the last one of an id replaces the
        others; a short item may only be recorded when it ends."""


_OPENED = {"resumed": EventType.THREAD_RESUMED, "forked": EventType.THREAD_FORKED}


class ConversationRecorder:
    """Recorder of one conversation's events and lifecycles, whatever its runtime."""

    def __init__(
        self, observer: Observer | None, spec: ConversationSpec, kind: RuntimeKind, thread_id: str, reason: str,
        worker: str, *, kept: bool,
    ) -> None:  # fmt: skip
        self._observer, self._scope, self._thread_id, self._model = observer, spec.scope, thread_id, spec.model
        self._turn: TurnLifecycle | None = None
        self._items: dict[str, ItemLifecycle] = {}
        ref = ConversationRef(run_id=spec.scope.run_id, runtime_kind=kind, thread_id=thread_id)
        self._state = ConversationState(new_id(), ref, spec.scope, reason, kept, worker, utcnow())

    def opened(self) -> None:
        reason = self._state.reason
        type_ = _OPENED.get(reason.partition(":")[0], EventType.THREAD_STARTED)
        payload = {"subject": self._scope.subject, "reason": reason, "kept": self._state.kept, "model": self._model}
        self._record([self._event(type_, utcnow(), role=self._scope.role, **payload)], [self._state])

    def closed(self) -> None:
        at = utcnow()
        self._state = self._state._replace(closed_at=at)
        self._record([self._event(EventType.THREAD_CLOSED, at, role=self._scope.role)], [self._state])

    def progressed(self, liveness: Liveness) -> None:
        if self._turn is None:
            return
        self._turn = self._turn.during(liveness.phase, liveness.tokens)
        payload = {"role": self._scope.role, "subject": self._scope.subject, **liveness.state()}
        self._record([self._event(EventType.TURN_PROGRESS, utcnow(), **payload)], [self._turn])

    def _begin_turn(self, turn_id: str, at: dt.datetime) -> list[Lifecycle]:
        status = LifecycleStatus.IN_PROGRESS
        self._turn = TurnLifecycle(status=status, started_at=at, turn_id=turn_id, thread_id=self._thread_id)
        return [self._turn, self._active(turn_id)]

    def _end_turn(self, status: LifecycleStatus, at: dt.datetime) -> list[Lifecycle]:
        """End the turn and what it left open."""
        ended: list[Lifecycle] = [item.ended(status, at) for item in self._items.values()]
        self._items.clear()
        if self._turn is not None:
            ended += [self._turn.ended(status, at), self._active(None)]
            self._turn = None
        return ended

    def _item(self, item_id: str, type_: str, turn_id: str, at: dt.datetime) -> ItemLifecycle:
        ids = {"item_id": item_id, "turn_id": turn_id, "thread_id": self._thread_id}
        return ItemLifecycle(status=LifecycleStatus.IN_PROGRESS, started_at=at, type=type_, **ids)

    def _active(self, turn_id: str | None) -> ConversationState:
        self._state = self._state._replace(ref=self._state.ref.during(turn_id))
        return self._state

    def _event(self, type_: EventType, at: dt.datetime, **fields: Any) -> Envelope:
        turn_id = self._turn.turn_id if self._turn is not None else None
        ids = {"thread_id": self._thread_id, "turn_id": turn_id}
        return event(type_, self._scope.run_id, at, **{**ids, **fields})

    def _record(self, events: list[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        if self._observer is not None:
            self._observer.record(self._scope, events, lifecycles)


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A model's request to a person."""

    kind: ApprovalKind
    thread_id: str
    turn_id: str
    item_id: str
    approval_id: str | None  # only some requests have one
    detail: dict[str, Any]  # everything the person has to see

    @property
    def key(self) -> str | tuple[str, str, str]:
        """Return the request's identity among the open ones: several with ids of their own may belong to one item."""
        return self.approval_id if self.approval_id is not None else (self.thread_id, self.turn_id, self.item_id)


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's decision. answers: to questions, by question id."""

    approved: bool
    answers: Mapping[str, Sequence[str]] = field(default_factory=dict)


NOT_APPROVED = ApprovalDecision(approved=False)


class Asker(Protocol):
    """Passes a model's request on to a person."""

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
        """Wait for the decision; one that does not come within `seconds` is a refusal. Cancelled when the turn ends
        first."""


log = structlog.get_logger(__name__)


class Interruptible(Protocol):
    """A conversation that knows its running turn, None between turns."""

    thread_id: str
    running_turn_id: str | None

    def interrupt(self) -> None: ...


class ActiveRuntime:
    """What all runtimes of the desk do alike: they know their open conversations and end them. what: in messages;
    interrupted_seconds: within which an interrupted turn ends."""

    def __init__(self, what: str, interrupted_seconds: float = 2.0) -> None:
        self._what, self._interrupted_seconds = what, interrupted_seconds
        self._open: set[Interruptible] = set()
        self._idle = asyncio.Event()
        self._closing = False

    async def start(self) -> None:
        """Make the runtime ready."""

    async def close(self, grace_seconds: float) -> None:
        self._closing = True
        await self._wait_idle(grace_seconds)
        for conversation in self._open:
            conversation.interrupt()
        await self._wait_idle(self._interrupted_seconds)

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        for conversation in self._open:
            if (conversation.thread_id, conversation.running_turn_id) == (thread_id, turn_id):
                conversation.interrupt()
                return True
        return False

    @contextmanager
    def _holding(self, conversation: Interruptible) -> Iterator[None]:
        """Count a conversation as open until the block ends."""
        self._open.add(conversation)
        try:
            yield
        finally:
            self._open.discard(conversation)
            if not self._open:
                self._idle.set()

    async def _wait_idle(self, seconds: float) -> None:
        if not self._open or seconds <= 0:
            return
        self._idle.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.warning("conversations.still_open", count=len(self._open))

    def _require_open(self) -> None:
        if self._closing:
            raise ProcessDied(f"the {self._what} is closing")


# Kept threads: their records, and the protocols through which people's commands list, reset, fork and delete them.
#
# `agents/codex` implements the protocols; tasks/ gets its objects from the desk and knows them by these names alone.

BYTES_A_TOKEN = 4  # of English text and JSON
# A path from outside is written to: only a rollout's is accepted.
ROLLOUT_PATH = r"sessions/\d{4}/\d{2}/\d{2}/rollout-[\w.-]+\.jsonl"

RolloutPath = Annotated[str, StringConstraints(pattern=rf"^{ROLLOUT_PATH}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PastTurnStatus = Literal["completed", "interrupted", "unfinished"]


class ThreadRecord(BaseModel):
    """Registry record of one kept thread. Times are Unix seconds.

    mode: the role's mode, which sets the thread's limits.
    generation: one more with each change of the record. token: fencing token of the lease that wrote it.
    owner: the worker that wrote it. home: the home that has the rollout; every other one fetches a copy.
    rollout_path: relative to CODEX_HOME. rollout_size: bytes. rollout_digest: None without a copy in the vault; the
    thread can then be resumed in its home alone. context_tokens: input tokens of its last model call, None where the
    provider gave no figure. login: digest of the login at the provider, empty without one.
    dropped: why the next conversation starts a fresh thread, such as `manual`.
    """

    model_config = ConfigDict(frozen=True)

    thread_id: str
    mode: str = "other"
    generation: int = 0
    token: int = 0
    owner: str = ""
    turns: int
    turn_ids: tuple[str, ...] = ()
    last_turn_id: str | None
    created_at: float
    updated_at: float
    reason: str
    toolset_hash: str
    binary_version: str
    home: str
    model: str
    login: str = ""
    rollout_path: RolloutPath | None = None
    rollout_digest: Digest | None = None
    rollout_size: int = 0
    context_tokens: int | None = None
    dropped: str | None = None

    @property
    def context(self) -> int:
        """The tokens that its next turn sends again; where none were counted, as many as its rollout can hold."""
        return self.context_tokens if self.context_tokens is not None else self.rollout_size // BYTES_A_TOKEN


@dataclass(frozen=True, slots=True)
class Registered:
    """A record under its name. busy: its lease is held now."""

    role: str
    subject: str
    record: ThreadRecord
    busy: bool


class PastTurn(Frozen):
    """One turn of a thread. turn_id: the runtime's own. tokens: of all model calls of the turn; None without a figure
    for each."""

    turn_id: str
    started_at: dt.datetime | None = None
    seconds: float | None = None
    prompt: str | None = None
    answer: str | None = None
    tokens: int | None = None


class TranscriptTurn(PastTurn):
    """A turn by its rollout. prompt and answer are whole, or None. status `unfinished`: its process died before its end
    was written."""

    status: PastTurnStatus = "unfinished"


class ThreadLease(Protocol):
    """Right to change the record of one kept thread, if `held`; record: as it stands, None without one."""

    record: ThreadRecord | None

    @property
    def held(self) -> bool: ...

    async def drop(self, why: str) -> bool:
        """Let the next conversation start afresh, for a reason, if the lease still holds and the record is unchanged;
        return whether that was written. Raises RedisDown, ServiceError."""

    async def forget(self) -> bool:
        """Delete the record of a thread whose copies go; return False when the lease was lost."""


class ThreadRecords(Protocol):
    """Registry of the threads that conversations continue in."""

    async def restore(self) -> int:
        """Write the records that were lost again; return how many they were. Raises RedisDown, ServiceError."""

    async def records(self) -> list[Registered]:
        """Return the readable records, the last changed first. Raises RedisDown."""

    def hold(self, role: str, subject: str, wait: Callable[[], float]) -> AbstractAsyncContextManager[ThreadLease]:
        """Take the thread's lease for the length of the block; it is not `held` when the thread stayed busy. wait()
        returns the seconds for which to keep trying. Raises RedisDown."""


class ThreadCopies(Protocol):
    """Store of copies of kept threads that outlives their home. Its methods block: call them off the event loop."""

    def transcript(self, digest: str) -> list[TranscriptTurn] | None:
        """Return the turns of the copy with that digest; None when it is gone or was changed. Raises ServiceError."""


class ThreadRuntime(Runtime, Protocol):
    """Runtime that keeps threads and can fork them."""

    async def fork(
        self, spec: ConversationSpec, source: ThreadRecord, before_turn: str | None, deadline: float
    ) -> ThreadRecord:
        """Fork a thread before one of its turns, or with all of its history; record the fork under the spec's role and
        subject, which must have no record yet. The source stays as it is. Raises CodexError, RedisDown, UsageError."""
