"""Says whether a turn may start now; who decides that is no agent's business."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Protocol


class Gate(Protocol):
    """Before a turn. What may not start raises Postponed: nothing was begun, and nothing is recorded."""

    @property
    def wait_seconds(self) -> float:
        """The longest that `turn` waits."""

    async def check(self) -> None:
        """Before anything is opened. Raises Postponed."""

    def turn(self) -> AbstractAsyncContextManager[None]:
        """A place among the turns in flight, for the length of the block. Raises Postponed."""

    def limited(self, reset_seconds: float | None) -> None:
        """The provider limits its rate; for so long, if it said so."""


class OpenGate:
    """Lets every turn start."""

    wait_seconds = 0.0

    async def check(self) -> None:
        return None

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limited(self, reset_seconds: float | None) -> None:
        return None
