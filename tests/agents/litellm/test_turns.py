"""Turns through the library against a loopback model in two dialects: tools, answers, images, limits, interrupts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from chordesk.agents.litellm.client import METADATA_HEADER
from chordesk.models.answers import Usage
from chordesk.tools.registry import ToolAnswer, ToolImage
from tests.agents.codex.kit import METADATA, SCHEMA, Kit, deadline, until
from tests.agents.litellm.kit import DIALECTS, OPENAI, one_turn, running, spec
from tests.agents.observed import Seen
from tests.fakes.chat import Calls, FakeChat, answer, outputs
from tests.fakes.responses import Call, Silence

GOOD = {"ok": True}
PNG = (
    b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
    b"\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82"
)


async def _quotes(_arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {"price": 1.25}


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_turn_calls_tools_and_answers_through_the_answer_tool(model: FakeChat, name: str) -> None:
    kit, seen = Kit(quotes_get=_quotes, news_list=_quotes), Seen()
    model.script(Call("news_list", '{"symbols":["ACME","IBM"]}'), answer(GOOD))
    started: list[str] = []
    async with running(seen) as runtime, runtime.conversation(spec(kit, name), deadline()) as conversation:
        result = await conversation.turn("What of ACME?", SCHEMA, METADATA, started.append)
        assert conversation.reason == "initial"
    assert (result.status, result.failure, result.refusal) == ("completed", None, None)
    assert json.loads(result.text) == GOOD
    assert result.usage == Usage(input_tokens=200, output_tokens=40, total_tokens=240)
    assert (result.context_tokens, result.model) == (100, name)
    assert result.cost_usd is not None
    assert 0 < result.cost_usd < 0.01
    assert started == [result.turn_id]
    assert kit.calls == [("news_list", {"symbols": ["ACME", "IBM"]})]
    first, second = model.requests
    functions = [tool.get("function", tool) for tool in first.body["tools"]]
    assert [one["name"] for one in functions] == ["quotes_get", "news_list", "answer"]
    schema = functions[-1].get("parameters") or functions[-1]["input_schema"]
    assert schema["required"] == ["ok"]
    assert json.loads(outputs(second.body)[0]) == {"price": 1.25}
    assert json.loads(first.headers[METADATA_HEADER]).items() >= METADATA.items()
    assert [one for one in seen.types if one != "turn.progress"] == [
        "thread.started", "turn.started", "item.completed", "turn.usage", "tool.started", "tool.completed",
        "turn.usage", "turn.completed", "thread.closed",
    ]  # fmt: skip
    assert seen.payloads("tool.started")[0]["tool"] == "news_list"
    assert all(one.thread_id for one in seen.events)


async def test_a_model_that_reasons_with_tools_is_asked_through_the_responses_api(model: FakeChat) -> None:
    """The library chooses that wire by itself: OpenAI refuses tools beside an effort in chat completions."""
    kit = Kit(quotes_get=_quotes)
    model.script(Call("quotes_get", '{"symbols":["A"]}'), Call("answer", '{"ok":"maybe"}'), answer(GOOD))
    async with running() as runtime, runtime.conversation(spec(kit, effort="high"), deadline()) as conversation:
        first = await conversation.turn("What of ACME?", SCHEMA, METADATA)
        assert (first.status, json.loads(first.text)) == ("completed", {"ok": "maybe"})
        assert first.usage == Usage(input_tokens=200, output_tokens=40, reasoning_tokens=10, total_tokens=240)
        second = await conversation.turn("It does not fit: answer again.", SCHEMA, METADATA)
        assert json.loads(second.text) == GOOD
    assert [one.path for one in model.requests] == ["/v1/responses", "/v1/responses", "/v1/chat/completions"]
    assert model.requests[0].body["reasoning"]["effort"] == "high"
    assert json.loads(outputs(model.requests[1].body)[0]) == {"price": 1.25}
    assert kit.calls == [("quotes_get", {"symbols": ["A"]})]


@pytest.mark.parametrize("name", DIALECTS)
async def test_parallel_calls_run_beside_each_other_and_are_answered_in_their_order(model: FakeChat, name: str) -> None:
    both = asyncio.Event()
    waiting: list[str] = []

    async def meeting(arguments: Mapping[str, Any]) -> dict[str, Any]:
        waiting.append(arguments["symbols"][0])
        if len(waiting) == 2:
            both.set()
        await both.wait()
        return {"of": arguments["symbols"][0]}

    calls = (Call("meeting", '{"symbols":["A"]}'), Call("meeting", '{"symbols":["B"]}'))
    model.script(Calls(calls, "Both at once."), answer(GOOD))
    seen = Seen()
    async with running(seen) as runtime:
        assert (await one_turn(runtime, spec(Kit(meeting=meeting), name))).status == "completed"
    assert [json.loads(text) for text in outputs(model.requests[1].body)] == [{"of": "A"}, {"of": "B"}]
    assert {"type": "agentMessage", "text": "Both at once."} in seen.payloads("item.completed")


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_tools_image_reaches_the_model(model: FakeChat, name: str) -> None:
    class Drawing(Kit):
        async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
            return ToolAnswer(name, True, {"drawn": 1}, True, True, 0.0, ToolImage(PNG, "image/png"))

    model.script(Call("chart", "{}"), answer(GOOD))
    async with running() as runtime:
        await one_turn(runtime, spec(Drawing(chart=_quotes), name))
    messages = model.requests[1].body["messages"]
    assert json.loads(outputs(model.requests[1].body)[0]) == {"drawn": 1}
    data = ToolImage(PNG, "image/png").data_url()
    if name == OPENAI:
        assert messages[-2]["role"] == "tool"
        assert messages[-1]["content"][1]["image_url"]["url"] == data
    else:
        (result,) = messages[-1]["content"]
        assert result["type"] == "tool_result"
        (image,) = [part for part in result["content"] if part["type"] == "image"]
        assert image["source"]["data"] == data.partition(",")[2]


@pytest.mark.parametrize("name", DIALECTS)
async def test_tool_trouble_is_an_answer_and_the_turn_goes_on(model: FakeChat, name: str) -> None:
    async def raising(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("the feed is broken")

    kit = Kit(raising=raising)
    model.script(
        Call("orders_submit"), Call("raising", "[1]"), Call("raising", '{"symbols":'), Call("raising"), answer(GOOD)
    )
    async with running() as runtime:
        assert (await one_turn(runtime, spec(kit, name))).status == "completed"
    found = [json.loads(text)["error"] for text in outputs(model.requests[-1].body)]
    refused = ["no call of a tool: orders_submit", *["no call of a tool: raising"] * 2]
    assert found == [*refused, "raising failed: the feed is broken"]
    assert kit.calls == [("raising", {})]
    assert kit.rogue == [("orders_submit", {}), ("raising", [1]), ("raising", '{"symbols":')]


@pytest.mark.parametrize("name", DIALECTS)
async def test_the_last_call_has_to_answer(model: FakeChat, name: str) -> None:
    model.policy = lambda body: answer(GOOD) if _forced(body) else Call("quotes_get", '{"symbols":["A"]}')
    async with running() as runtime:
        result = await one_turn(runtime, spec(Kit(quotes_get=_quotes), name, model_calls=4))
    assert json.loads(result.text) == GOOD
    assert [_forced(one.body) for one in model.requests] == [False, False, False, True]


def _forced(body: Mapping[str, Any]) -> bool:
    choice = body.get("tool_choice")
    return isinstance(choice, dict) and "answer" in (choice.get("name"), choice.get("function", {}).get("name"))


async def test_an_answer_beside_other_calls_is_not_taken_before_their_answers(model: FakeChat) -> None:
    kit = Kit(quotes_get=_quotes)
    model.script(Calls((Call("quotes_get", '{"symbols":["A"]}'), answer({"ok": False}))), answer(GOOD))
    async with running() as runtime:
        result = await one_turn(runtime, spec(kit))
    assert json.loads(result.text) == GOOD
    assert len(kit.calls) == 1
    assert "not taken" in outputs(model.requests[1].body)[1]


async def test_a_model_without_a_known_price_has_no_cost(model: FakeChat) -> None:
    async with running() as runtime:
        for name in ("openai/no-such-model-1", "anthropic/claude-nosuch-1"):
            result = await one_turn(runtime, spec(model=name))
            assert result.usage.total_tokens == 120
            assert result.cost_usd is None


async def test_an_interrupt_does_not_wait_for_a_tool(model: FakeChat) -> None:
    seen, running_tool = Seen(), asyncio.Event()

    async def hanging(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        running_tool.set()
        await asyncio.sleep(60)
        return {}

    model.script(Call("hanging"))
    async with running(seen) as runtime, runtime.conversation(spec(Kit(hanging=hanging)), deadline()) as conversation:
        turn = asyncio.ensure_future(conversation.turn("What of ACME?", SCHEMA, METADATA))
        await running_tool.wait()
        conversation.interrupt()
        assert (await turn).status == "interrupted"
    last = {one.item_id: one for one in seen.lifecycles if hasattr(one, "item_id")}
    assert [str(one.status) for one in last.values()] == ["interrupted"]


async def test_a_turn_ends_at_its_limit_and_a_silent_call_before_it(model: FakeChat) -> None:
    model.script(Silence(60), Silence(60))
    async with running(turn_seconds=0.5) as runtime:
        result = await one_turn(runtime, spec())
        assert result.failure is not None
        assert (result.status, result.failure.kind, result.failure.retryable) == ("failed", "timeout", False)
        assert "DESK_TURN_SECONDS" in result.failure.message
    async with running(first_token_seconds=0.5) as runtime:
        result = await one_turn(runtime, spec())
        assert result.failure is not None
        assert (result.status, result.failure.kind) == ("failed", "no_first_token")
        assert "no first token for 0.5 s" in result.failure.message


async def test_a_cancelled_turn_leaves_no_call_behind_and_its_record_ends(model: FakeChat) -> None:
    seen = Seen()
    model.script(Silence(60))
    async with running(seen) as runtime:
        turn = asyncio.ensure_future(one_turn(runtime, spec()))
        await until(lambda: len(model.requests) == 1)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        left = [one for one in asyncio.all_tasks() if "acompletion" in repr(one)]
        assert left == []
    assert seen.types[-2:] == ["turn.interrupted", "thread.closed"]
