"""Edge cases: callers that give up early, turns that do not end, processes that do not start."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import psutil
import pytest

from chordesk.agents.codex import runtime as conversation_module
from chordesk.agents.codex.servers import claim_home
from chordesk.models.errors import ProcessDied
from tests.agents.codex.kit import (
    FINAL,
    METADATA,
    SCHEMA,
    Codex,
    deadline,
    one_turn,
    running,
    spec,
    turn,
    until,
)
from tests.fakes.responses import Call, FakeResponses, Silence, Slow, Text


async def test_a_caller_that_gives_up_while_the_turn_starts(model: FakeResponses, codex: Codex) -> None:
    """However early the cancellation comes, no turn goes on without its caller."""
    model.policy = lambda _body: Slow(0.2, Call("quotes_get"))
    async with codex() as runtime, runtime.conversation(spec(), deadline()) as conversation:
        for pause in (0, 0.001, 0.003, 0.01):
            task = asyncio.create_task(turn(conversation))
            await asyncio.sleep(pause)
            task.cancel()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        calls = len(model.requests)
        await asyncio.sleep(0.7)
        assert len(model.requests) <= calls + 1
        model.policy = lambda _body: Text(FINAL)
        assert (await turn(conversation)).status == "completed"


async def test_a_callback_that_raises_ends_the_turn(model: FakeResponses, codex: Codex) -> None:
    model.policy = lambda _body: Silence(30)

    def broken(_turn_id: str) -> None:
        raise ValueError("the row is gone")

    async with codex() as runtime, runtime.conversation(spec(), deadline()) as conversation:
        with pytest.raises(ValueError, match="the row is gone"):
            await conversation.turn("x", SCHEMA, METADATA, broken)
        model.policy = lambda _body: Text(FINAL)
        assert (await turn(conversation)).status == "completed"


async def test_a_turn_that_will_not_end_costs_the_process(
    model: FakeResponses, tmp_path: Path, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation_module, "INTERRUPT_SECONDS", 0.3)
    monkeypatch.setattr(conversation_module, "ENDED_SECONDS", 0.3)
    model.script(Text(FINAL), Silence(60))
    async with running(
        model, tmp_path, registry, first_token_seconds=4.0, health_seconds=60, rpc_seconds=4.0
    ) as runtime:
        await one_turn(runtime, spec())
        pid = runtime.status()[0].pid
        held = asyncio.create_task(one_turn(runtime, spec()))
        await until(lambda: len(model.requests) == 2)
        os.kill(pid, signal.SIGSTOP)
        result = await held
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("process_died", True)
        assert not psutil.pid_exists(pid)
        assert (await one_turn(runtime, spec())).status == "completed"


async def test_a_turn_that_cannot_start_in_time_is_retryable(codex: Codex) -> None:
    async with codex(health_seconds=60, rpc_seconds=4.0) as runtime:
        async with runtime.conversation(spec(), deadline()) as conversation:
            pid = runtime.status()[0].pid
            os.kill(pid, signal.SIGSTOP)
            result = await turn(conversation)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("rpc_timeout", True), result.failure.message
        await until(lambda: not psutil.pid_exists(pid))


async def test_a_setting_the_binary_does_not_know_stops_the_start(codex: Codex) -> None:
    async with codex(flags={"no_such_setting": 1}) as runtime:
        starts = [one_turn(runtime, spec(subject=str(number))) for number in range(3)]
        for error in await asyncio.gather(*starts, return_exceptions=True):
            assert isinstance(error, ProcessDied)
            assert "no_such_setting" in str(error)
        assert runtime.status() == []


def test_a_kept_home_keeps_its_id(tmp_path: Path) -> None:
    first = claim_home(tmp_path, "w")
    second = claim_home(tmp_path, "w")
    assert (first.path.name, second.path.name) == ("w", "w-2")
    assert first.id != second.id
    first.release()
    again = claim_home(tmp_path, "w")
    assert (again.path.name, again.id) == ("w", first.id)
    for home in (again, second):
        home.release()
