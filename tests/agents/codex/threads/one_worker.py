"""A worker in a process of its own, which a test may kill: it runs the turns that it is asked for through a pipe.

Each question opens a conversation of its own for one turn, which is answered by one dict once it is over and recorded.
The processes are forked from one that has loaded this module: loading is most of what such a worker costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import sys
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

import structlog

from chordesk.agents.codex.runtime import CodexRuntime
from tests.agents.codex.kit import deadline, running, spec, turn
from tests.agents.codex.threads.vaults import vault_over
from tests.patience import PATIENCE

LEASE_SECONDS = 6.0  # shorter ones run out within a turn on a busy machine
_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([__name__])


def work(pipe: Connection, *arguments: str) -> None:
    """Serve until the pipe's other end closes. arguments: name, home, and the URLs of model, Redis and database."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(serve(pipe, *arguments))


async def serve(pipe: Connection, name: str, home: str, model: str, redis_url: str, database: str) -> None:
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as held:
        vault = held.enter_context(vault_over(database))
        runtime = await held.enter_async_context(
            running(model, Path(home), redis_url, vault=vault, worker=name, lease_seconds=LEASE_SECONDS)
        )
        with contextlib.suppress(EOFError):
            while True:
                pipe.send(await one(runtime, await loop.run_in_executor(None, pipe.recv)))


async def one(runtime: CodexRuntime, text: str) -> dict[str, Any]:
    async with runtime.conversation(spec(keep=True), deadline()) as conversation:
        done = await turn(conversation, text)
        return {"thread_id": done.thread_id, "turn_id": done.turn_id, "reason": conversation.reason}


class OneWorker:
    """The test's end of such a process."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments

    def __enter__(self) -> OneWorker:
        self._pipe, theirs = _forking.Pipe()
        self._process = _forking.Process(target=work, args=(theirs, *self._arguments))
        self._process.start()
        theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._pipe.close()
        if kind is not None:
            self._process.kill()
        self._await_end()

    def ask(self, text: str) -> None:
        self._pipe.send(text)

    def answer(self) -> dict[str, Any]:
        answer: dict[str, Any] = self._pipe.recv()  # EOFError: the worker ended without an answer
        return answer

    def turn(self, text: str) -> dict[str, Any]:
        self.ask(text)
        return self.answer()

    def kill(self) -> None:
        """As the machine would when it is out of memory: nothing is cleaned up. Its app-servers see the end of their
        input."""
        self._process.kill()
        self._await_end()

    def _await_end(self) -> None:
        self._process.join(PATIENCE)
        assert self._process.exitcode is not None, "the worker does not end"
