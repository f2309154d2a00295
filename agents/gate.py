"""Admission of turns: the protocol that the runner asks before it starts one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol


class Gate(Protocol):
    """Admits the turns of one model. A turn that may not start raises Postponed: nothing was begun or recorded."""

    @property
    def wait_seconds(self) -> float:
        """Return the longest that `turn` waits."""

    async def check(self) -> None:
        """Check before anything is opened. Raises Postponed."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Hold a place among the turns in flight for the length of the block. Raises Postponed."""

    def limited(self, reset_seconds: float | None) -> None:
        """Note that the provider limits its rate, for that long if it named a time."""


class OpenGate:
    """A gate that admits every turn."""

    wait_seconds = 0.0

    async def check(self) -> None:
        return None

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limited(self, reset_seconds: float | None) -> None:
        return None
