"""A runtime whose model confirms whatever it is asked, and a wrap that leaves each runtime as it is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from chordesk.plugins import UNDECIDED, ConversationSpec, ProcessStatus, Runtime, Settings, TurnResult, Usage

ANSWER = {
    "verdict": "CONFIRMED",
    "confidence": "low",
    "summary": "A toy says yes.",
    "keyRisks": [],
    "thesis": UNDECIDED,
}


class ToyConversation:
    def __init__(self) -> None:
        self.thread_id, self.reason = str(uuid4()), "initial"

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        turn = str(uuid4())
        if on_started is not None:
            on_started(turn)
        return TurnResult(self.thread_id, turn, "completed", json.dumps(ANSWER), Usage(), None, None)

    def interrupt(self) -> None:
        """A turn is over before anybody could."""


class ToyRuntime:
    async def start(self) -> None:
        """It has nothing to start."""

    async def close(self, grace_seconds: float) -> None:
        """It has nothing to end."""

    def status(self) -> list[ProcessStatus]:
        return []

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        return False

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[ToyConversation]:
        yield ToyConversation()


def build(settings: Settings, worker: str, observer: Any) -> ToyRuntime:
    return ToyRuntime()


class ToyWrap:
    def __init__(self, desk: Any) -> None:
        self.desk = desk

    def runtime(self, desk: Any, name: str, behind: Callable[[], Runtime]) -> Runtime:
        return behind()

    def disguise(self, run_id: str) -> None:
        return None
