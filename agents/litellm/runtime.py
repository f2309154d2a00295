"""The LiteLLM runtime of one worker process, and its conversations: a history in memory, and turns on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import structlog

from chordesk.agents.litellm.client import AnswerWays, ModelClient
from chordesk.agents.litellm.library import LitellmConfig, ModelError, close_clients, library, litellm_config
from chordesk.agents.litellm.loop import ConversationEvents, Ended, ModelLimits, TurnLoop, is_policy
from chordesk.agents.litellm.messages import ChatHistory, DeskMessage, tool_list
from chordesk.agents.pulse import Progress, Pulse, interrupted, with_spent
from chordesk.agents.runtime import ActiveRuntime, ConversationSpec, Observer, TurnResult, TurnStatus
from chordesk.models.answers import Failure, Usage
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id

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
        self.events = ConversationEvents(observer, spec, self.thread_id, self.reason, config.worker)
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
            pulse = Pulse(self._turn_limits)
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
                pulse=pulse,
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
        progress = Progress(work.pulse, self.events.progressed)
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
        return self._result(turn_id, "failed", work.pulse.timeout(had), work)

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
        return TurnResult(
            *(self.thread_id, turn_id, status, text, work.usage, why, refusal),
            context_tokens=work.context_tokens,
            model=work.model,
            cost_usd=work.cost_usd if work.model is not None else None,
            way=way,
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
        with self._active.holding(conversation):
            conversation.events.opened()
            try:
                yield conversation
            finally:
                conversation.events.closed()


def build(settings: Settings, worker: str, observer: Observer | None) -> LitellmRuntime:
    return LitellmRuntime(litellm_config(settings, worker), observer=observer)
