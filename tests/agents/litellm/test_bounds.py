"""Bounds of an answer: each call has one, a longer answer is cut off and gone on with, and its end says what to
raise."""

from __future__ import annotations

import json

import pytest

from tests.agents.codex.kit import METADATA, SCHEMA, Kit, deadline, run, until
from tests.agents.litellm.kit import ANTHROPIC, DIALECTS, LOCAL, OPENAI, one_turn, running, spec
from tests.agents.litellm.test_turns import GOOD
from tests.fakes import local_server
from tests.fakes.chat import FakeChat, Reasoned, TooLong, answer
from tests.fakes.local_server import LocalServer, Says
from tests.fakes.responses import Call, Seen, Status, Text

ROOM = 32_768  # for reasoning


def bound(seen: Seen) -> int:
    """The most tokens of output that a request asks for."""
    (found,) = [
        seen.body[key] for key in ("max_tokens", "max_completion_tokens", "max_output_tokens") if key in seen.body
    ]
    assert type(found) is int
    return found


@pytest.mark.parametrize(
    ("name", "effort", "most"),
    [
        (OPENAI, None, 500 + ROOM),
        (ANTHROPIC, "high", 500 + ROOM),
        ("openai/gpt-4o", None, 500),
        ("openai/unknown-to-the-library", None, 500 + ROOM),
    ],
)
async def test_every_call_has_a_bound_with_room_for_reasoning(
    model: FakeChat, name: str, effort: str | None, most: int
) -> None:
    """The first call and the one that has to answer."""
    model.script(Text("Up, I think."), answer(GOOD))
    async with running(output_tokens=500) as runtime:
        assert (await one_turn(runtime, spec(model=name, effort=effort))).status == "completed"
    assert [bound(one) for one in model.requests] == [most, most]


@pytest.mark.parametrize(
    ("message", "rooms"),
    [
        (
            "max_tokens is too large: 33268. This model supports at most 16384 completion tokens, whereas you provided "
            "33268.",
            [16_384, 16_384],
        ),
        ("max_tokens: 33268 > 8192, which is the maximum allowed number of output tokens", [8192, 8192]),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 34768 tokens (1500 in the "
            "messages, 33268 in the completion).",
            [6692, 33_268],
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 33268. This model's maximum context length is 8192 "
            "tokens and your request has 1500 input tokens (33268 > 8192 - 1500).",
            [6692, 33_268],
        ),
        ("input length and `max_tokens` exceed context limit: 1500 + 33268 > 8192, decrease one", [6692, 33_268]),
    ],
)
async def test_a_server_that_refuses_the_bound_gets_its_own(model: FakeChat, message: str, rooms: list[int]) -> None:
    """At once from then on where it is the model's, and for this call where it is what its context has left."""
    refused = Status(400, {"error": {"message": message, "type": "invalid_request_error"}})
    model.script(refused, answer(GOOD), answer(GOOD))
    async with running(output_tokens=500) as runtime:
        for _ in range(2):
            assert (await one_turn(runtime, spec(model="openai/other"))).status == "completed"
    assert [bound(one) for one in model.requests] == [500 + ROOM, *rooms]


async def test_a_prompt_that_is_too_long_is_not_a_matter_of_the_bound(server: LocalServer) -> None:
    server.context = 100
    async with running() as runtime:
        result = await one_turn(runtime, spec(model=LOCAL), "x" * 4000)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("context_window", False)
        assert "(100 tokens)" in result.failure.message
    assert len(server.chats()) == 1


async def test_endless_text_is_cut_and_its_connection_closed(server: LocalServer) -> None:
    """Of a server that ignores the bound. What it wrote comes with the turn, and its tokens were never counted."""
    server.script(Says('{"ok": "' + "word " * 50, end="endless", bounded=False))
    async with running(output_tokens=300) as runtime:
        result = await one_turn(runtime, spec(model=LOCAL))
        assert (result.status, result.cut, result.failure) == ("completed", True, None)
        assert result.text.startswith('{"ok": "word word')
        assert 300 * 3 < len(result.text) < 300 * 4 + 4000
        assert result.usage.total_tokens is None
        await until(lambda: server.left == 1)


@pytest.mark.parametrize("name", DIALECTS)
def test_an_answer_cut_at_its_length_is_gone_on_with_as_text(model: FakeChat, name: str) -> None:
    """By the tool or as text: what was written is in the history as text, no tool is forced and no schema put on the
    rest."""
    for begun in (Call("answer", '{"ok": tr'), Text('{"ok": tr')):
        model.requests.clear()
        model.script(TooLong(begun), Text("ue}"), answer(GOOD))

        async def work() -> None:
            async with running() as runtime, runtime.conversation(spec(model=name), deadline()) as conversation:
                first = await conversation.turn("What of ACME?", SCHEMA, METADATA)
                assert (first.status, first.cut, first.text) == ("completed", True, '{"ok": tr')
                second = await conversation.turn("Go on where you stopped.", SCHEMA, METADATA)
                assert (second.status, second.cut, second.text) == ("completed", False, "ue}")
                third = await conversation.turn("It does not fit: answer again.", SCHEMA, METADATA)
                assert (json.loads(third.text), third.way) == (GOOD, "answer by forced_tool")

        run(work())
        rest = model.requests[1].body
        assert rest["tool_choice"] in ("none", {"type": "none"})
        assert "response_format" not in rest
        assert '"ok\\": tr' in json.dumps([one["content"] for one in rest["messages"] if one["role"] == "assistant"])


@pytest.mark.parametrize("name", DIALECTS)
async def test_reasoning_to_the_bound_fails_with_what_to_raise(model: FakeChat, name: str) -> None:
    model.script(TooLong(Reasoned("It could be this. It could be that. " * 20, Text(""))))
    async with running() as runtime:
        result = await one_turn(runtime, spec(model=name))
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("length", False)
        assert "of reasoning" in result.failure.message
        assert "DESK_OUTPUT_TOKENS" in result.failure.message
        assert "120 tokens were spent" in result.failure.message
    assert len(model.requests) == 1


async def test_a_tool_call_without_end_fails_and_is_not_made(server: LocalServer) -> None:
    kit = Kit()
    server.script(Says(calls=(local_server.Call("quotes_get", '{"symbols":["' + "A" * 8000),)))
    async with running(output_tokens=300) as runtime:
        result = await one_turn(runtime, spec(kit, LOCAL))
        assert result.failure is not None
        assert result.failure.kind == "length"
        assert "more than 300 tokens" in result.failure.message
    assert kit.calls == []
    assert len(server.chats()) == 1


async def test_reasoning_beyond_the_limit_of_the_answer_is_not_cut(server: LocalServer) -> None:
    """Whether the server keeps it apart or the model writes it into its text."""
    thought = "Let me see. " * 400
    server.script(
        Says('{"ok":true}', reasoning=thought), Says(f"<think>{thought}</think>" + '{"ok":true}', bounded=False)
    )
    async with running(output_tokens=300) as runtime:
        for _ in range(2):
            result = await one_turn(runtime, spec(model=LOCAL))
            assert (result.text, result.cut) == ('{"ok":true}', False)
