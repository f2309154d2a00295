"""The LiteLLM runtime of one worker process, and its conversations: a history in memory, and turns on it."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import structlog

from chordesk.agents.litellm.client import (
    ANSWER,
    Answered,
    AnswerWays,
    ChatHistory,
    DeskMessage,
    ModelCall,
    ModelClient,
    ModelMessage,
    Request,
    ToolResults,
    Way,
    refuses_way,
    tool_list,
)
from chordesk.agents.litellm.library import (
    ELSEWHERE,
    POLICY,
    LitellmConfig,
    ModelError,
    close_clients,
    library,
    litellm_config,
)
from chordesk.agents.providers.liveness import RAISE, Liveness, Progress, declines, failure, interrupted, with_spent
from chordesk.agents.providers.provider_limits import LIMITS
from chordesk.agents.runtime import (
    ActiveRuntime,
    ConversationRecorder,
    ConversationSpec,
    Lifecycle,
    Observer,
    TurnResult,
    TurnStatus,
)
from chordesk.agents.turn_answers import answer_in
from chordesk.models.answers import Failure, Usage
from chordesk.models.events import (
    EventType,
    LifecycleStatus,
    RuntimeKind,
    short,
)
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.tools.registry import ToolAnswer, failed

TOOL_ITEM, MESSAGE_ITEM, USER_ITEM = "dynamicToolCall", "agentMessage", "userMessage"
_ENDS: dict[TurnStatus, tuple[EventType, LifecycleStatus]] = {
    "completed": (EventType.TURN_COMPLETED, LifecycleStatus.COMPLETED),
    "interrupted": (EventType.TURN_INTERRUPTED, LifecycleStatus.INTERRUPTED),
    "failed": (EventType.TURN_FAILED, LifecycleStatus.FAILED),
}


class ConversationEvents(ConversationRecorder):
    """Recorder of one conversation. Whatever starts is ended: a tool call by its turn's end at the latest."""

    def turn_started(self, turn_id: str, text: str) -> None:
        at, scope = utcnow(), self._scope
        lifecycles = self._begin_turn(turn_id, at)
        payload = {"role": scope.role, "subject": scope.subject, "step": scope.step_id, "attempt": scope.attempt}
        began = self._event(EventType.TURN_STARTED, at, **payload)
        asked = self._event(EventType.ITEM_COMPLETED, at, item_id=new_id(), type=USER_ITEM, text=short(text))
        self._record([began, asked], lifecycles)

    def replied(self, text: str, usage: Usage) -> None:
        at = utcnow()
        events = [self._event(EventType.TURN_USAGE, at, **usage.model_dump())]
        lifecycles: list[Lifecycle] = []
        if text:
            item = self._item(new_id(), MESSAGE_ITEM, self._turn_id, at)
            ids = {"item_id": item.item_id, "type": MESSAGE_ITEM}
            events.append(self._event(EventType.ITEM_STARTED, at, **ids))
            events.append(self._event(EventType.ITEM_COMPLETED, at, **ids, text=short(text)))
            lifecycles.append(item.ended(LifecycleStatus.COMPLETED, at))
        self._record(events, lifecycles)

    def call_failed(self, model: str, why: Failure, *, will_retry: bool) -> None:
        payload = {
            "role": self._scope.role,
            "subject": self._scope.subject,
            "model": model,
            "will_retry": will_retry,
            "kind": why.kind,
            "why": short(why.message),
            "reset_seconds": why.reset_seconds,
        }
        self._record([self._event(EventType.TURN_ERROR, utcnow(), **payload)])

    def tool_started(self, call: ModelCall) -> None:
        at = utcnow()
        item = self._items[call.id] = self._item(call.id, TOOL_ITEM, self._turn_id, at)
        payload = {"item_id": call.id, "tool": call.name, "arguments": short(call.arguments)}
        self._record([self._event(EventType.TOOL_STARTED, at, **payload)], [item])

    def tool_completed(self, call: ModelCall, answer: ToolAnswer) -> None:
        at = utcnow()
        status = LifecycleStatus.COMPLETED if answer.success else LifecycleStatus.FAILED
        payload = {
            "item_id": call.id,
            "tool": call.name,
            "success": answer.success,
            "answer": short(answer.text()),
            "status": str(status),
            "ms": round(answer.seconds * 1000),
        }
        started = self._items.pop(call.id, None)
        ended: list[Lifecycle] = [started.ended(status, at)] if started is not None else []
        self._record([self._event(EventType.TOOL_COMPLETED, at, **payload)], ended)

    def turn_ended(self, result: TurnResult | None) -> None:
        at, turn = utcnow(), self._turn
        if turn is None:
            return
        status: TurnStatus = result.status if result is not None else "interrupted"
        type_, state = _ENDS[status]
        payload: dict[str, Any] = {"role": self._scope.role, "ms": _millis(turn.started_at, at)}
        if result is not None and result.refusal is not None:
            type_ = EventType.TURN_REFUSED
            payload["why"] = short(result.refusal)
        elif result is not None and result.failure is not None and status == "failed":
            payload |= {"kind": result.failure.kind, "why": short(result.failure.message)}
        made = self._event(type_, at, **payload)
        self._record([made], self._end_turn(state, at))

    @property
    def _turn_id(self) -> str:
        return self._turn.turn_id if self._turn is not None else ""


def _millis(begin: dt.datetime, end: dt.datetime) -> int:
    return round((end - begin).total_seconds() * 1000)


_EARLY = b'{"error":"not taken: first look at the answers of the other tools, then answer alone","success":false}'
_BESIDE = b'{"error":"not called: the turn ends with the answer","success":false}'
_AGAIN = "This is no answer in the form that was asked for. Give your answer now."

Limited = Callable[[float | None], None]


class Ended(NamedTuple):
    """End of a loop: the answer, or the words with which the model declined."""

    text: str
    refusal: str | None = None
    way: str | None = None  # in which the answer came
    cut: bool = False  # it ended at the bound of its length


class ModelLimits:
    """Models of one worker that their providers limit now, by loop time: others are asked first for so long."""

    _UNKNOWN_SECONDS = 5.0

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, model: str, seconds: float | None) -> None:
        self._until[model] = asyncio.get_running_loop().time() + (seconds or self._UNKNOWN_SECONDS)

    def order(self, models: Sequence[str], first: str | None) -> list[str]:
        now = asyncio.get_running_loop().time()
        return sorted(models, key=lambda model: (self._until.get(model, 0.0) > now, model != first))


@dataclass(slots=True)
class TurnLoop:
    """Loop of one turn. It adds to the conversation's history; usage, cost and model are those of its calls so far."""

    client: ModelClient
    spec: ConversationSpec
    history: ChatHistory
    tools: Sequence[dict[str, Any]]
    schema: Mapping[str, Any]  # of the answer
    metadata: dict[str, str]
    events: ConversationEvents
    limits: ModelLimits
    ways: AnswerWays
    liveness: Liveness  # of this turn
    forced: bool = False  # the first call must answer already
    on: bool = False  # it goes on with the answer that was cut off in the turn before, as text
    on_limited: Limited | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    context_tokens: int | None = None
    model: str | None = None

    async def run(self) -> Ended:
        """Run to the answer, at the latest in the last call. Raises ModelError."""
        most, must = self.spec.model_calls, self.forced
        for number in range(1, most + 1):
            last = number == most or self.on
            must = must or last
            reply, way = await self._ask(must=must)
            if (ended := self._cut(reply)) is not None:
                return ended
            self.history.add(reply.message)
            ended = self._ended(reply, way)
            results = await self._answers(reply.message.calls, must)
            if results:
                self.history.add(ToolResults(results))
            if ended is not None:
                return ended
            if must or not reply.message.calls:
                if way is not None and not self.ways.failed(reply.message.model, way):
                    last = True
                if last:
                    return Ended(reply.text, None, _by("words"))
                must = True
                self.history.add(DeskMessage(_AGAIN))
        raise AssertionError("the last call ends the loop")

    async def _ask(self, *, must: bool) -> tuple[Answered, Way | None]:
        """By the next model where one cannot serve it, with less where the context is full, in the next way where
        refused. must: it has to answer."""
        # A turn stays with the model that answered last.
        models = self.limits.order((self.spec.model, *self.spec.fallbacks), self.model)
        while True:
            model = models[0]
            way = self.ways.of(model) if must else None
            request = Request(
                self.history, self.tools, self.spec.effort, way, self.schema, self.metadata, self.on
            )  # fmt: skip
            try:
                reply = await self.client.ask(model, request, self.liveness)
            except ModelError as error:
                models = self._after(error, models, way)
                continue
            self._count(model, reply)
            return reply, way

    def _after(self, error: ModelError, models: list[str], way: Way | None) -> list[str]:
        """Return the models that may make a call again which failed. Raises the error where none may."""
        model, why = models[0], error.failure
        if self.liveness.tokens:
            self.usage, self.cost_usd = self.usage + Usage.unknown(), None  # what was written is paid for
        if why.kind in LIMITS:
            self.limits.note(model, why.reset_seconds)
        elsewhere = len(models) > 1 and why.kind in ELSEWHERE
        again = not elsewhere and (
            (why.kind == "context_window" and self.history.shorten())
            or (way is not None and refuses_way(why) and self.ways.failed(model, way))
        )
        self.events.call_failed(model, why, will_retry=elsewhere or again)
        if elsewhere:
            return models[1:]
        if again:
            return models
        if why.kind == "rate_limited" and self.on_limited is not None:
            self.on_limited(why.reset_seconds)
        raise error

    def _count(self, model: str, reply: Answered) -> None:
        self.usage += reply.usage
        self.liveness.reads(reply.done)
        self.context_tokens, self.model = reply.usage.input_tokens, model
        known = self.cost_usd is not None and reply.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (reply.cost_usd or 0.0) if known else None
        self.events.replied(reply.message.text, reply.usage)

    def _cut(self, reply: Answered) -> Ended | None:
        """None for a whole or refused answer. Raises ModelError if no answer was begun."""
        if not reply.cut or reply.refusal is not None:
            return None
        calls = reply.message.calls
        begun = next(
            (call.arguments for call in reversed(calls) if call.name == ANSWER), reply.text if not calls else ""
        )
        found = answer_in(begun)
        if found.problem is None:
            return None
        self.liveness.cut = True
        if not found.text.strip():
            raise ModelError(self._no_room())
        # As text: what is not JSON could not go back as a call.
        self.history.add(ModelMessage(reply.message.model, found.text, (), reply.message.thinking))
        return Ended(begun, None, _by("words"), cut=True)

    def _no_room(self) -> Failure:
        if self.liveness.too_long:
            return self.liveness.length()
        tokens = f"{self.liveness.reasoned:,.0f} tokens of reasoning and {self.liveness.written:,.0f} others"
        return failure("length", f"the model came to the bound of its output after {tokens}; {RAISE['output']}")

    def _ended(self, reply: Answered, way: Way | None) -> Ended | None:
        """Return the end that a reply makes; None when the loop goes on. If the model answers and calls tools in one
        reply, the answer was written without their results: it counts only where the call had to answer."""
        calls, text = reply.message.calls, reply.text
        if reply.refusal is not None:
            return Ended(text, reply.refusal)
        answers = [call for call in calls if call.name == ANSWER]
        if answers and (way is not None or len(answers) == len(calls)):
            forced = way == "forced_tool" and not self.on
            return Ended(answers[-1].arguments, None, _by("forced_tool" if forced else "tool"))
        if calls and way is None:
            return None
        if declines(reply.message.text):
            return Ended(text, reply.message.text)
        if self.on:
            return Ended(text, None, _by("words"))
        found = answer_in(text)
        by = "words" if way in (None, "forced_tool") else way
        return Ended(found.text, None, _by(by)) if found.problem is None else None

    async def _answers(self, calls: Sequence[ModelCall], must: bool) -> dict[str, ToolAnswer | bytes]:
        if must or all(call.name == ANSWER for call in calls):
            own = {spec.name for spec in self.spec.tools.specs()}
            for call in calls:
                if call.name != ANSWER and (call.name not in own or not isinstance(_arguments(call), dict)):
                    await self._call(call)  # it goes on record, and runs nothing
            return {call.id: b'{"success":true}' if call.name == ANSWER else _BESIDE for call in calls}
        early = {call.id: _EARLY for call in calls if call.name == ANSWER}
        tools = [call for call in calls if call.name != ANSWER]
        self.liveness.uses_tools()
        answers = await asyncio.gather(*(self._call(call) for call in tools))
        found = {call.id: answer for call, answer in zip(tools, answers, strict=True)}
        return {call.id: early[call.id] if call.id in early else found[call.id] for call in calls}

    async def _call(self, call: ModelCall) -> ToolAnswer:
        self.events.tool_started(call)
        answer = await self._answer(call)
        self.events.tool_completed(call, answer)
        return answer

    async def _answer(self, call: ModelCall) -> ToolAnswer:
        try:
            return await self.spec.tools.call(call.name, _arguments(call))
        except Exception as error:
            log.exception("tool.raised", tool=call.name)
            return failed(call.name, f"{call.name} failed: {error}")


def _arguments(call: ModelCall) -> Any:
    try:
        return orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        return call.arguments


def _by(way: str) -> str:
    return f"answer by {way}"


def is_policy(error: ModelError) -> bool:
    return error.failure.kind == POLICY


log = structlog.get_logger(__name__)

ENDED_SECONDS = 0.5  # a cancelled model call ends within milliseconds, and a tool's thread is not waited for
LOOK_SECONDS = 5.0  # between two looks at a turn that goes on


class LitellmConversation:
    """A thread that runs turns. Made by LitellmRuntime.conversation; not usable after its block ends."""

    def __init__(
        self,
        spec: ConversationSpec,
        deadline: float,
        config: LitellmConfig,
        client: ModelClient,
        limits: ModelLimits,
        ways: AnswerWays,
        observer: Observer | None,
    ) -> None:
        self.thread_id = new_id()
        # No thread is kept: its role gets the desk's memory in the question instead.
        self.reason = "stateless" if spec.keep else "initial"
        self.running_turn_id: str | None = None
        self.events = ConversationEvents(
            observer, spec, RuntimeKind.LITELLM, self.thread_id, self.reason, config.worker, kept=False
        )
        self._spec, self._deadline, self._config = spec, deadline, config
        self._client, self._limits, self._ways = client, limits, ways
        self._turn_limits = spec.limits or config.limits
        self._history = ChatHistory(spec.base_instructions, spec.items)
        self._cut = False
        self._one_turn = asyncio.Lock()
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[None] = self._loop.create_future()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        """Run one turn and return its end; a failure is a result, not an exception.

        The first turn of a conversation may call tools; a later one asks for a repair of its answer, and has to answer
        at once, or for the rest of an answer that was cut off, which is text. It ends at the conversation's deadline,
        at the turn's own limit, or when its provider is silent for too long.
        """
        async with self._one_turn:
            if self._stop.done():
                return self._result("", "interrupted", interrupted())
            turn_id, result = new_id(), None
            # A forced call does not reason: a given conversation that asks for an effort may answer by itself first.
            forced = bool(self._history.items) or bool(self._spec.items and self._spec.effort is None)
            liveness = Liveness(self._turn_limits)
            if text:
                self._history.add(DeskMessage(text))
            work = TurnLoop(
                client=self._client,
                spec=self._spec,
                history=self._history,
                tools=tool_list(self._spec.tools.specs(), output_schema),
                schema=output_schema,
                metadata=dict(metadata) | {"thread_id": self.thread_id, "turn_id": turn_id},
                events=self.events,
                limits=self._limits,
                ways=self._ways,
                liveness=liveness,
                forced=forced,
                on=self._cut,
                on_limited=on_limited,
            )
            self.events.turn_started(turn_id, text)
            self.running_turn_id = turn_id
            try:
                if on_started is not None:
                    on_started(turn_id)
                result = await self._run(turn_id, work)
            finally:
                self.running_turn_id = None
                self.events.turn_ended(result)
            self._cut = result.cut
            return result

    def interrupt(self) -> None:
        if not self._stop.done():
            self._stop.set_result(None)

    async def _run(self, turn_id: str, work: TurnLoop) -> TurnResult:
        had = min(self._deadline - self._loop.time(), self._turn_limits.turn_seconds)
        until = self._loop.time() + had
        running = asyncio.ensure_future(work.run())
        progress = Progress(work.liveness, self.events.progressed)
        try:
            while not (running.done() or self._stop.done()) and (left := until - self._loop.time()) > 0:
                some = min(left, LOOK_SECONDS)
                await asyncio.wait((running, self._stop), timeout=some, return_when=asyncio.FIRST_COMPLETED)
                if not running.done():
                    progress.report()
        finally:
            ended = running.done()
            if not ended:
                running.cancel()
                await asyncio.wait((running,), timeout=ENDED_SECONDS)
        if ended:
            return self._ended(turn_id, work, running)
        if self._stop.done():
            return self._result(turn_id, "interrupted", interrupted(), work)
        return self._result(turn_id, "failed", work.liveness.timeout(had), work)

    def _ended(self, turn_id: str, work: TurnLoop, running: asyncio.Future[Ended]) -> TurnResult:
        try:
            ended = running.result()
        except ModelError as error:
            if is_policy(error):
                return self._result(turn_id, "failed", None, work, Ended("", error.failure.message))
            return self._result(turn_id, "failed", error.failure, work)
        return self._result(turn_id, "completed", None, work, ended)

    def _result(
        self,
        turn_id: str,
        status: TurnStatus,
        why: Failure | None,
        work: TurnLoop | None = None,
        ended: Ended | None = None,
    ) -> TurnResult:
        text, refusal, way, cut = ended or Ended("")
        if work is None:
            return TurnResult(self.thread_id, turn_id, status, text, Usage(), why, refusal)
        why = with_spent(why, work.usage.total_tokens)
        work.liveness.way = way
        return TurnResult(
            *(self.thread_id, turn_id, status, text, work.usage, why, refusal),
            context_tokens=work.context_tokens,
            model=work.model,
            cost_usd=work.cost_usd if work.model is not None else None,
            way=work.liveness.record,
            cut=cut,
        )


class LitellmRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime, one a worker process; every method belongs to the loop it was started on.

    It keeps no thread and starts no process. observer records the conversations' events.
    """

    def __init__(self, config: LitellmConfig, *, observer: Observer | None = None) -> None:
        self._config, self._observer = config, observer
        self._client, self._limits, self._ways = ModelClient(config), ModelLimits(), AnswerWays()
        super().__init__("LiteLLM runtime")

    async def start(self) -> None:
        """Load the library, in a thread of its own: it takes seconds."""
        await asyncio.to_thread(library)

    async def close(self, grace_seconds: float) -> None:
        await super().close(grace_seconds)
        await close_clients()

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[LitellmConversation]:
        """Open a conversation for (role, subject), without any history, until the block ends. deadline: loop.time() by
        which everything in the block has to be over. Raises ProcessDied when closing."""
        self._require_open()
        conversation = LitellmConversation(
            spec, deadline, self._config, self._client, self._limits, self._ways, self._observer
        )  # fmt: skip
        with self._holding(conversation):
            conversation.events.opened()
            try:
                yield conversation
            finally:
                conversation.events.closed()


def build(settings: Settings, worker: str, observer: Observer | None) -> LitellmRuntime:
    return LitellmRuntime(litellm_config(settings, worker), observer=observer)
