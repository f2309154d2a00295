"""(l) CPU of a LiteLLM turn against the same calls by the bare library: one process, rounds of each in turn.

Run as a process, so that nothing else is in its figures; prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from chordesk.agents.litellm.library import LitellmConfig, library
from chordesk.agents.litellm.messages import ChatHistory, tool_list
from chordesk.agents.litellm.runtime import LitellmRuntime
from tests.agents.codex.kit import METADATA, SCHEMA, Kit
from tests.agents.litellm.kit import OPENAI, Seen, environment, spec
from tests.stack import REPOSITORY

QUESTION = "What of ACME?"
WARM = 1  # rounds that fill caches and are not counted


@dataclass(frozen=True, slots=True)
class LibraryCost:
    """CPU milliseconds a turn of two model calls and one tool call: through the runtime, by the library alone, and by
    it without streams; medians of the rounds. loaded_ms, loaded_mb: CPU and resident memory that the import of the
    library takes."""

    runtime_ms: float
    bare_ms: float
    whole_ms: float
    loaded_ms: float
    loaded_mb: float

    @property
    def ratio(self) -> float:
        return self.runtime_ms / self.bare_ms


def library_cost(turns: int, rounds: int) -> LibraryCost:
    """Measure in a process of its own, against a stand-in in another one."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fakes.chat"], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True
    ) as model:
        try:
            assert model.stdout is not None
            environ = {**os.environ, **environment(model.stdout.readline().strip())}
            command = [sys.executable, "-m", "tests.bench.turns.library", str(turns), str(rounds)]
            done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=True)
            return LibraryCost(**json.loads(done.stdout.splitlines()[-1]))
        finally:
            model.kill()


async def _bare(*, stream: bool) -> None:
    """Make the calls of one turn as the library's own documents do."""
    lite = library()
    tools = tool_list(Kit().specs(), SCHEMA)
    messages: list[Any] = ChatHistory("Role: quick\nBe brief.").render(OPENAI, images_in_results=False)
    messages.append({"role": "user", "content": QUESTION})
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    for _ in range(2):
        reply = await lite.acompletion(
            model=OPENAI, messages=messages, tools=tools, num_retries=0, max_retries=0, **options
        )
        if stream:
            reply = lite.stream_chunk_builder([chunk async for chunk in reply], messages=messages)
        message = reply.choices[0].message
        messages.append(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        messages += [{"role": "tool", "tool_call_id": one.id, "content": "{}"} for one in message.tool_calls]
    lite.completion_cost(completion_response=reply, model=OPENAI)


async def _round(turns: int, at_once: int, turn: Callable[[], Awaitable[Any]]) -> float:
    """Return CPU milliseconds a turn."""
    waiting = iter(range(turns))

    async def work() -> None:
        for _ in waiting:
            await turn()

    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(at_once)))
    return (time.process_time() - began) * 1000 / turns


async def main(turns: int, rounds: int, at_once: int = 64) -> None:
    import psutil

    process = psutil.Process()
    began, before = time.process_time(), process.memory_info().rss
    library()
    loaded = (time.process_time() - began) * 1000, (process.memory_info().rss - before) / 2**20
    runtime = LitellmRuntime(LitellmConfig("bench"), observer=Seen())
    await runtime.start()

    async def ours() -> None:
        async with runtime.conversation(spec(), asyncio.get_running_loop().time() + 600) as conversation:
            result = await conversation.turn(QUESTION, SCHEMA, METADATA)
        assert result.status == "completed", result.failure

    ways = {"runtime_ms": ours, "bare_ms": partial(_bare, stream=True), "whole_ms": partial(_bare, stream=False)}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(WARM + rounds):
        for name, turn in list(ways.items())[:: 1 if number % 2 else -1]:
            found[name].append(await _round(turns, at_once, turn))
    await runtime.close(5)
    medians = {name: statistics.median(some[WARM:]) for name, some in found.items()}
    print(json.dumps({**medians, "loaded_ms": loaded[0], "loaded_mb": loaded[1]}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
