"""The open conversations of a runtime: interrupting one, and waiting for all when the runtime closes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import structlog

log = structlog.get_logger(__name__)


class Interruptible(Protocol):
    """A conversation that knows its running turn, None between turns."""

    thread_id: str
    running_turn_id: str | None

    def interrupt(self) -> None: ...


class ActiveConversations:
    """The open conversations of one runtime; every method belongs to the runtime's loop."""

    def __init__(self) -> None:
        self._open: set[Interruptible] = set()
        self._idle = asyncio.Event()

    @contextmanager
    def holding(self, conversation: Interruptible) -> Iterator[None]:
        """Count a conversation as open until the block ends."""
        self._open.add(conversation)
        try:
            yield
        finally:
            self._open.discard(conversation)
            if not self._open:
                self._idle.set()

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        """End this turn as interrupted, and return True if it runs here."""
        for conversation in self._open:
            if (conversation.thread_id, conversation.running_turn_id) == (thread_id, turn_id):
                conversation.interrupt()
                return True
        return False

    async def close(self, grace_seconds: float, interrupted_seconds: float) -> None:
        """Wait for the open conversations, interrupt those left after the grace time, and wait for them as well."""
        await self._wait_idle(grace_seconds)
        for conversation in self._open:
            conversation.interrupt()
        await self._wait_idle(interrupted_seconds)

    async def _wait_idle(self, seconds: float) -> None:
        if not self._open or seconds <= 0:
            return
        self._idle.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            log.warning("conversations.still_open", count=len(self._open))
