"""Admission of turns: the protocol that the runner asks before it starts one."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol


class Gate(Protocol):
    """Admits the turns of one model. A turn that may not start raises Postponed: nothing was begun or recorded."""

    def wait(self, turn_seconds: float) -> float:
        """Return the seconds that a turn which may take so long can wait for its place."""

    async def check(self) -> None:
        """Check before anything is opened. Raises Postponed."""

    def turn(self, ticket: str, until: float) -> AbstractAsyncContextManager[None]:
        """Hold a place among the turns in flight for the length of the block; whoever asked first gets one first.

        ticket: one that was postponed keeps its place in the line when it comes back with the same. until: loop time
        to which it waits. Raises Postponed.
        """

    def limited(self, reset_seconds: float | None) -> None:
        """Note that the provider limits its rate, for that long if it named a time."""

    async def park(self, reset_seconds: float | None, why: str) -> float | None:
        """Let no further turn start for that long; return the seconds, None where they are not known."""


class OpenGate:
    """A gate that admits every turn."""

    def wait(self, turn_seconds: float) -> float:
        return 0.0

    async def check(self) -> None:
        return None

    def turn(self, ticket: str, until: float) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limited(self, reset_seconds: float | None) -> None:
        return None

    async def park(self, reset_seconds: float | None, why: str) -> float | None:
        return None
