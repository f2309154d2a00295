"""How a turn ends without an answer: silence, its deadline, a caller that leaves, an interrupt, a killed process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import psutil

from chordesk.agents.codex.turns import MOST_TOOL_CALLS
from tests.agents.codex.kit import FINAL, Codex, Kit, echo, one_turn, spec, until
from tests.fakes.responses import Call, Dripping, FakeResponses, Silence, Text, tool_then_final

QUIET = 3.0  # seconds of silence after which a turn is given up: what an app-server needs on a busy machine


async def test_a_model_that_does_not_begin_is_given_up_once(model: FakeResponses, codex: Codex) -> None:
    model.script(Silence(30))
    async with codex(first_token_seconds=QUIET) as runtime:
        result = await one_turn(runtime, spec())
        assert result.status == "failed"
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("no_first_token", False)
        assert "DESK_FIRST_TOKEN_SECONDS" in result.failure.message
        assert (await one_turn(runtime, spec())).status == "completed"
        assert len(runtime.status()) == 1, "the process went on"


async def test_a_model_that_writes_slowly_lives(model: FakeResponses, codex: Codex) -> None:
    model.script(Dripping(FINAL, pieces=8, gap=1.0))
    limits = {"first_token_seconds": 5.0, "silence_seconds": 5.0}
    async with codex(**limits) as runtime:
        result = await one_turn(runtime, spec())
    assert (result.status, result.text, len(model.requests)) == ("completed", FINAL, 1)


async def test_a_model_that_calls_tools_for_ever_is_ended(model: FakeResponses, codex: Codex) -> None:
    model.policy = lambda _body: Call("echo")
    async with codex() as runtime:
        result = await one_turn(runtime, spec(Kit(echo=echo)))
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("endless_calls", False)
    assert len(model.requests) <= MOST_TOOL_CALLS + 2


async def test_a_slow_tool_is_progress(model: FakeResponses, codex: Codex) -> None:
    async def slow(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(QUIET + 1)
        return {}

    model.policy = tool_then_final("", "{}", FINAL)
    async with codex(first_token_seconds=QUIET) as runtime:
        assert (await one_turn(runtime, spec(Kit(slow=slow)))).status == "completed"


async def test_a_turn_ends_at_the_deadline(model: FakeResponses, codex: Codex) -> None:
    """Though every tool call is progress."""

    async def slow(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0.3)
        return {}

    model.policy = lambda _body: Call("slow")
    async with codex() as runtime:
        result = await one_turn(runtime, spec(Kit(slow=slow)), seconds=4)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("timeout", False)
        calls = len(model.requests)
        await asyncio.sleep(1)
        assert len(model.requests) <= calls + 1, "the turn went on after its end"


async def test_a_killed_process_fails_its_turns_at_once_and_the_next_works(model: FakeResponses, codex: Codex) -> None:
    model.policy = lambda _body: Silence(30)
    async with codex() as runtime:
        turns = [asyncio.create_task(one_turn(runtime, spec(subject=str(number)))) for number in range(5)]
        await until(lambda: len(model.requests) == 5)
        psutil.Process(runtime.status()[0].pid).kill()
        results = await asyncio.gather(*turns)
        for result in results:
            assert result.failure is not None
            assert (result.failure.kind, result.failure.retryable) == ("process_died", True)
        model.policy = lambda _body: Text(FINAL)
        assert (await one_turn(runtime, spec())).status == "completed"
