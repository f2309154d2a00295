"""Turns through the real app-server against a loopback model: answers, tools, deadlines, and every fault."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chordesk.models.answers import Usage
from tests.agents.codex.kit import FINAL, METADATA, SCHEMA, Codex, Kit, deadline, one_turn, run, running, spec
from tests.fakes.responses import (
    Call,
    Cut,
    Failing,
    FakeResponses,
    Malformed,
    Refusal,
    Reply,
    Status,
    Text,
    tool_then_final,
)


async def test_a_turn_answers_with_its_usage_and_carries_its_metadata(model: FakeResponses, codex: Codex) -> None:
    started: list[str] = []
    async with codex() as runtime, runtime.conversation(spec(), deadline()) as conversation:
        result = await conversation.turn("What of ACME?", SCHEMA, METADATA, started.append)
        assert conversation.reason == "initial"
    assert (result.status, result.text, result.failure, result.refusal) == ("completed", FINAL, None, None)
    assert result.usage == Usage(input_tokens=100, output_tokens=20, total_tokens=120)
    assert started == [result.turn_id]
    (seen,) = model.calls()
    assert seen.metadata.items() >= METADATA.items()
    assert seen.metadata["thread_id"] == result.thread_id
    assert seen.body["text"]["format"]["schema"] == SCHEMA
    texts = [(item["role"], item["content"][0]["text"]) for item in seen.body["input"]]
    assert texts == [("developer", "Role: quick\nBe brief."), ("user", "What of ACME?")]


async def test_tools_round_trip(model: FakeResponses, codex: Codex) -> None:
    """The model sees the toolset's names and no other, its call reaches the toolset, the answer reaches the model."""
    kit = Kit(quotes_get=_quotes, news_list=_quotes, portfolio_get=_quotes)
    model.policy = tool_then_final("news_list", '{"symbols":["ACME","IBM"]}', FINAL)
    async with codex() as runtime:
        result = await one_turn(runtime, spec(kit))
    assert result.text == FINAL
    assert result.usage.total_tokens == 240
    assert kit.calls == [("news_list", {"symbols": ["ACME", "IBM"]})]
    first, second = model.calls()
    assert first.tools == second.tools == ["quotes_get", "news_list", "portfolio_get"]
    assert first.body["tools"][0]["parameters"]["properties"]["symbols"]["items"] == {"type": "string"}
    assert json.loads(second.body["input"][-1]["output"]) == {"price": 1.25}
    assert second.metadata.items() >= METADATA.items()


async def _quotes(_arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"price": 1.25}


async def test_tool_trouble_is_an_answer_and_the_turn_goes_on(model: FakeResponses, codex: Codex) -> None:
    """A hallucinated name, broken arguments, a tool that raises and one that hangs."""

    async def raising(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("the feed is broken")

    async def hanging(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    model.script(
        Call("orders_submit"), Call("raising", '{"symbols":'), Call("raising"), Call("hanging"), Call("raising", "[1]")
    )
    model.script(Text(FINAL))
    kit = Kit(raising=raising, hanging=hanging)
    kit.seconds = 0.3
    async with codex() as runtime:
        result = await one_turn(runtime, spec(kit))
    assert result.text == FINAL
    outputs = [seen.body["input"][-1]["output"] for seen in model.calls()[1:]]
    assert outputs[0] == "unsupported call: orders_submit"
    assert "failed to parse function arguments" in outputs[1]
    assert json.loads(outputs[2]) == {"error": "raising failed: the feed is broken", "success": False}
    assert json.loads(outputs[3]) == {"error": "hanging did not answer", "success": False}
    assert [name for name, _ in kit.calls] == ["raising", "hanging"]
    assert kit.rogue == [("raising", [1])]
    assert [(one.tool, one.arguments) for one in result.rogue] == [("orders_submit", "{}"), ("raising", '{"symbols":')]


OVERLOADED = {"error": {"code": "server_is_overloaded", "message": "busy"}}
LIMIT = {"error": {"type": "usage_limit_reached", "message": "limit", "plan_type": "plus", "resets_at": 1}}


FAULTS: list[tuple[Reply, str, bool]] = [
    (Status(400, {"error": {"message": "bad field"}}), "bad_request", False),
    (Status(401, {"error": {"message": "bad key"}}), "unauthorized", False),
    (Status(403), "unauthorized", False),
    (Status(404, {"error": {"message": "no such model"}}), "not_found", False),
    (Status(429, {"error": {"message": "slow"}}, {"Retry-After": "1"}), "rate_limited", True),
    (Status(429, LIMIT), "usage_limit", True),
    (Status(500), "server_error", True),
    (Status(503, OVERLOADED), "overloaded", True),
    (Cut(), "stream_cut", True),
    (Malformed(), "stream_cut", True),
    (Failing("rate_limit_exceeded", "try again in 1s"), "rate_limited", True),
    (Failing("context_length_exceeded"), "context_window", False),
    (Failing("insufficient_quota"), "no_credit", False),
    (Failing("server_error"), "stream_cut", True),
]


async def test_provider_faults(model: FakeResponses, codex: Codex) -> None:
    async with codex() as runtime:
        for reply, kind, retryable in FAULTS:
            model.policy = lambda _body, reply=reply: reply
            result = await one_turn(runtime, spec())
            assert result.status == "failed"
            assert result.failure is not None
            assert (result.failure.kind, result.failure.retryable) == (kind, retryable), reply
            assert result.failure.message
        model.policy = lambda _body: Text(FINAL)
        assert (await one_turn(runtime, spec())).status == "completed"


async def test_a_provider_that_is_not_there(tmp_path: Path, registry: str) -> None:
    async with running("http://127.0.0.1:9/v1", tmp_path, registry) as runtime:
        result = await one_turn(runtime, spec())
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("unreachable", True)


REFUSALS: list[tuple[Reply, str, str]] = [
    (Refusal("I will not trade."), "completed", "without an answer"),
    (Text(""), "completed", "without an answer"),
    (Text("I'm sorry, but I can't help with trading."), "completed", "I'm sorry, but"),
    (Failing("cyber_policy", "blocked by policy"), "failed", "blocked by policy"),
]


async def test_refusals(model: FakeResponses, codex: Codex) -> None:
    """The app-server drops a refusal part: a turn that ends without a message is one."""
    async with codex() as runtime:
        for reply, status, phrase in REFUSALS:
            model.policy = lambda _body, reply=reply: reply
            result = await one_turn(runtime, spec())
            assert (result.status, result.failure) == (status, None)
            assert result.refusal is not None
            assert phrase in result.refusal


async def test_a_call_without_figures_leaves_the_turn_without_them(model: FakeResponses, codex: Codex) -> None:
    model.script(Call("quotes_get", usage=None), Text(FINAL))
    async with codex() as runtime:
        result = await one_turn(runtime, spec())
    assert (result.status, result.text) == ("completed", FINAL)
    assert result.usage == Usage.unknown()


def test_sixty_four_turns_at_once(model: FakeResponses, codex: Codex) -> None:
    """Each waits in its tool for all others: one that had to wait for another's end would never come."""
    model.policy = tool_then_final("", '{"symbols":["ACME"]}', FINAL)

    async def work() -> None:
        together = asyncio.Barrier(64)

        async def meet(_arguments: Mapping[str, Any]) -> dict[str, Any]:
            await together.wait()
            return {}

        async with codex() as runtime:
            turns = (one_turn(runtime, spec(Kit(meet=meet), subject=str(number))) for number in range(64))
            results = await asyncio.gather(*turns)
            assert [result.status for result in results] == ["completed"] * 64
            assert len({result.thread_id for result in results}) == 64

    run(work())
