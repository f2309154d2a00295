"""The LiteLLM runtime of one worker process: conversations in memory, and the library that makes their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from agents.litellm.client import ModelClient
from agents.litellm.config import LitellmConfig
from agents.litellm.conversation import LitellmConversation
from agents.litellm.library import close_clients, library
from agents.litellm.loop import ModelLimits
from agents.runtime import ConversationSpec, Observer, ProcessStatus
from models.errors import ProcessDied

log = structlog.get_logger(__name__)

INTERRUPTED_SECONDS = 2.0


class LitellmRuntime:
    """Implements agents.runtime.Runtime, one a worker process; every method belongs to the loop it was started on.

    It keeps no thread and starts no process. observer records the conversations' events.
    """

    def __init__(self, config: LitellmConfig, *, observer: Observer | None = None) -> None:
        self._config, self._observer = config, observer
        self._client, self._limits = ModelClient(config), ModelLimits()
        self._active: set[LitellmConversation] = set()
        self._idle = asyncio.Event()
        self._closing = False

    async def start(self) -> None:
        """Load the library, in a thread of its own: it takes seconds."""
        await asyncio.to_thread(library)

    async def close(self, grace_seconds: float) -> None:
        """Let running turns end within the grace time, interrupt the rest, and close the connections."""
        self._closing = True
        await self._wait_idle(grace_seconds)
        for conversation in self._active:
            conversation.interrupt()
        await self._wait_idle(INTERRUPTED_SECONDS)
        await close_clients()

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        """End this turn as interrupted, and return True if it runs here."""
        for conversation in self._active:
            if (conversation.thread_id, conversation.running_turn_id) == (thread_id, turn_id):
                conversation.interrupt()
                return True
        return False

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[LitellmConversation]:
        """Open a conversation for (role, subject), without any history, until the block ends.

        deadline: loop.time() by which everything in the block has to be over. Raises ProcessDied when closing.
        """
        if self._closing:
            raise ProcessDied("the LiteLLM runtime is closing")
        conversation = LitellmConversation(
            spec, deadline, self._config, self._client, self._limits, self._observer
        )  # fmt: skip
        self._active.add(conversation)
        conversation.events.opened()
        try:
            yield conversation
        finally:
            self._active.discard(conversation)
            if not self._active:
                self._idle.set()
            conversation.events.closed()

    async def _wait_idle(self, seconds: float) -> None:
        if not self._active or seconds <= 0:
            return
        self._idle.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.warning("conversations.still_open", count=len(self._active))
