"""A worker in a process of its own, which a test may kill: it runs the turns that its standard input asks for.

Run as `python -m tests.agents.codex.threads.one_worker NAME HOME MODEL_URL REDIS_URL DATABASE_URL`. Each line of the
input is a JSON
object: {"text": ...} opens a conversation of its own for one turn and ends it; with "hold" the conversation stays open
after the turn. Each turn is answered by one JSON line once it is over and recorded.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from agents.codex.conversation import CodexConversation
from agents.codex.runtime import CodexRuntime
from tests.agents.codex.kit import deadline, running, spec, turn
from tests.agents.codex.threads.vaults import vault_over
from tests.patience import PATIENCE

REPOSITORY = Path(__file__).parents[4]
LEASE_SECONDS = 6.0  # shorter ones run out within a turn on a busy machine


async def serve(name: str, home: str, model: str, redis_url: str, database: str) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as held:
        vault = held.enter_context(vault_over(database))
        runtime = await held.enter_async_context(
            running(model, Path(home), redis_url, vault=vault, worker=name, lease_seconds=LEASE_SECONDS)
        )
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            print(json.dumps(await one(runtime, held, json.loads(line))), flush=True)


async def one(runtime: CodexRuntime, held: AsyncExitStack, asked: dict[str, Any]) -> dict[str, Any]:
    opening = runtime.conversation(spec(keep=True), deadline())
    if asked.get("hold"):
        return await one_turn(await held.enter_async_context(opening), asked["text"])
    async with opening as conversation:
        return await one_turn(conversation, asked["text"])


async def one_turn(conversation: CodexConversation, text: str) -> dict[str, Any]:
    done = await turn(conversation, text)
    return {"thread_id": done.thread_id, "turn_id": done.turn_id, "status": done.status, "reason": conversation.reason}


class OneWorker:
    """The test's end of such a process."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> OneWorker:
        command = [sys.executable, "-m", "tests.agents.codex.threads.one_worker", *self._arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        if kind is not None:
            self.process.kill()
        self.process.wait(PATIENCE)

    def ask(self, text: str, *, hold: bool = False) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"text": text, "hold": hold}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def turn(self, text: str, *, hold: bool = False) -> dict[str, Any]:
        self.ask(text, hold=hold)
        return self.answer()

    def kill(self) -> None:
        """As the machine would when it is out of memory: nothing is cleaned up. Its app-servers see the end of their
        input."""
        self.process.kill()
        self.process.wait(PATIENCE)


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout has the answers
    asyncio.run(serve(*sys.argv[1:]))
