"""The LiteLLM runtime of one worker process: conversations in memory, and the library that makes their calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chordesk.agents.active import ActiveConversations
from chordesk.agents.litellm.client import ModelClient
from chordesk.agents.litellm.config import LitellmConfig
from chordesk.agents.litellm.conversation import LitellmConversation
from chordesk.agents.litellm.library import close_clients, library
from chordesk.agents.litellm.loop import ModelLimits
from chordesk.agents.litellm.ways import AnswerWays
from chordesk.agents.runtime import ConversationSpec, Observer, ProcessStatus
from chordesk.models.errors import ProcessDied

INTERRUPTED_SECONDS = 2.0


class LitellmRuntime:
    """Implements agents.runtime.Runtime, one a worker process; every method belongs to the loop it was started on.

    It keeps no thread and starts no process. observer records the conversations' events.
    """

    def __init__(self, config: LitellmConfig, *, observer: Observer | None = None) -> None:
        self._config, self._observer = config, observer
        self._client, self._limits, self._ways = ModelClient(config), ModelLimits(), AnswerWays()
        self._active = ActiveConversations()
        self._closing = False

    async def start(self) -> None:
        """Load the library, in a thread of its own: it takes seconds."""
        await asyncio.to_thread(library)

    async def close(self, grace_seconds: float) -> None:
        """Let running turns end within the grace time, interrupt the rest, and close the connections."""
        self._closing = True
        await self._active.close(grace_seconds, INTERRUPTED_SECONDS)
        await close_clients()

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        """End this turn as interrupted, and return True if it runs here."""
        return self._active.interrupt(thread_id, turn_id)

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[LitellmConversation]:
        """Open a conversation for (role, subject), without any history, until the block ends.

        deadline: loop.time() by which everything in the block has to be over. Raises ProcessDied when closing.
        """
        if self._closing:
            raise ProcessDied("the LiteLLM runtime is closing")
        conversation = LitellmConversation(
            spec, deadline, self._config, self._client, self._limits, self._ways, self._observer
        )  # fmt: skip
        with self._active.holding(conversation):
            conversation.events.opened()
            try:
                yield conversation
            finally:
                conversation.events.closed()
