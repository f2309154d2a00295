"""Streams of a provider, in its dialects: a turn lives while anything comes, and how a stream ends decides what becomes
of its turn. Local servers, with their habits, are asked by chat completions."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from chordesk.agents.runtime import TurnResult
from chordesk.models.answers import Usage
from tests.agents.codex.kit import METADATA, SCHEMA, Kit, deadline, run, until
from tests.agents.litellm.kit import ANTHROPIC, DIALECTS, LOCAL, OPENAI, one_turn, running, spec
from tests.agents.litellm.test_turns import GOOD
from tests.agents.observed import Seen
from tests.fakes import local_server
from tests.fakes.chat import ChatReply, FakeChat, Paced, Reasoned, answer, outputs
from tests.fakes.dialects import ASKING, BOTH
from tests.fakes.local_server import HTML, LocalServer, Says
from tests.fakes.responses import Call, Silence, Text

WHOLE = '{"ok":true}'


def result_of(reply: ChatReply, model: FakeChat, name: str, **changes: Any) -> TurnResult:
    found: list[TurnResult] = []
    model.script(reply)

    async def work() -> None:
        async with running(**changes) as runtime:
            found.append(await one_turn(runtime, spec(model=name)))

    run(work())
    return found[0]


def local_turn(server: LocalServer, *replies: local_server.Reply, kit: Kit | None = None, **changes: Any) -> TurnResult:
    found: list[TurnResult] = []
    server.script(*replies)

    async def work() -> None:
        async with running() as runtime:
            found.append(await one_turn(runtime, spec(kit, LOCAL, **changes)))

    run(work())
    return found[0]


async def test_a_turn_lives_while_its_provider_sends_anything(model: FakeChat) -> None:
    """Twice as long as each limit, with comments before the first token and slow tokens after it: each dialect is asked
    once, and its tokens are counted once. What it does is reported meanwhile."""
    seen = Seen()
    model.policy = lambda _body: Paced(Reasoned("It is up.", answer(GOOD)), first=7.0, heartbeat=0.3, every=0.2)
    async with running(seen, first_token_seconds=4.0, silence_seconds=4.0) as runtime:
        wanted = (spec(), spec(model=ANTHROPIC), spec(effort="high"))
        for result in await asyncio.gather(*(one_turn(runtime, one) for one in wanted)):
            assert (result.status, result.failure) == ("completed", None)
            assert json.loads(result.text) == GOOD
            assert result.usage.total_tokens == 120
    assert sorted(one.path for one in model.requests) == ["/v1/chat/completions", "/v1/messages", "/v1/responses"]
    assert all(one.body["stream"] for one in model.requests)
    progress = seen.payloads("turn.progress")
    assert {one["phase"] for one in progress} <= {"waiting", "reasoning", "writing"}
    assert len(progress) >= 3


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_that_falls_silent_ends_the_turn_and_the_connection(model: FakeChat, name: str) -> None:
    result = result_of(Paced(Text("It is up."), end="open"), model, name, silence_seconds=0.5)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("silent", False)
    assert "silent for 0.5 s after" in result.failure.message
    assert "DESK_SILENCE_SECONDS" in result.failure.message
    assert len(model.requests) == 1
    run(until(lambda: model.left == 1))


async def test_another_model_answers_in_place_of_a_silent_one(model: FakeChat) -> None:
    """What the silent one wrote is paid for and was never counted."""
    silent, late = Paced(Text("It is up."), end="open"), Silence(60)
    async with running(silence_seconds=2.0, first_token_seconds=2.0) as runtime:
        for reply, total in ((silent, None), (late, 120)):
            model.script(reply, answer(GOOD))
            result = await one_turn(runtime, spec(fallbacks=(ANTHROPIC,)))
            assert (result.status, result.model) == ("completed", ANTHROPIC)
            assert result.usage.total_tokens == total


@pytest.mark.parametrize("name", DIALECTS)
def test_a_stream_that_ends_early_is_no_answer(model: FakeChat, name: str) -> None:
    for end in ("plain", "dropped"):
        result = result_of(Paced(Text("It is"), end=end), model, name)
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("stream_cut", True)


def test_an_answer_that_is_whole_counts_though_its_stream_does_not_say_that_it_ended(server: LocalServer) -> None:
    assert local_turn(server, Says(WHOLE, finish="")).text == WHOLE
    assert local_turn(server, Says(calls=(local_server.Call("answer", WHOLE),), finish="", end="plain")).text == WHOLE
    result = local_turn(server, Says('{"ok":', finish=""))
    assert result.failure is not None
    assert result.failure.kind == "stream_cut"


@pytest.mark.parametrize("name", DIALECTS)
def test_an_error_inside_a_stream_has_its_kind(model: FakeChat, name: str) -> None:
    errors = {
        "overloaded": {"type": "overloaded_error", "message": "Overloaded"},
        "rate_limited": {"type": "rate_limit_error", "code": "rate_limit_error", "message": "rate_limit_error: wait"},
    }
    for kind, error in errors.items():
        result = result_of(Paced(Text("It is up."), end="failed", error=error), model, name)
        assert result.failure is not None
        assert (result.failure.kind, result.usage.missing) == (kind, Usage.unknown().missing)


async def test_a_server_that_does_not_stream_is_asked_for_the_whole_answer(server: LocalServer) -> None:
    """At the first call of a worker both answers are paid for; then it is asked so at once."""
    server.policy = lambda _body: Says(WHOLE, stream=False)
    async with running() as runtime:
        first = await one_turn(runtime, spec(model=LOCAL))
        assert (first.text, first.usage) == (WHOLE, Usage.unknown())
        second = await one_turn(runtime, spec(model=LOCAL))
        assert second.text == WHOLE
        assert second.usage.total_tokens
    assert [bool(one.body.get("stream")) for one in server.requests] == [True, False, False]


def test_a_page_in_place_of_an_answer_is_named_with_its_remedy(server: LocalServer) -> None:
    result = local_turn(server, HTML)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("not_found", False)
    assert "openai/small answered with text/html" in result.failure.message
    assert "OPENAI_API_BASE" in result.failure.message
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "counted",
    [
        None,
        {"prompt_tokens": -5, "completion_tokens": 3, "total_tokens": -2},
        {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100},
        {"prompt_tokens": 10**18, "completion_tokens": 3, "total_tokens": 10**18},
    ],
)
def test_tokens_that_cannot_be_are_unknown_and_the_answer_counts(server: LocalServer, counted: Any) -> None:
    result = local_turn(server, Says(WHOLE, usage=counted))
    assert (result.status, result.text) == ("completed", WHOLE)
    assert result.usage == Usage.unknown()
    assert result.cost_usd is None


def test_tool_calls_are_told_apart_whatever_their_ids(server: LocalServer) -> None:
    calls = [("quotes_get", '{"symbols":["A"]}'), ("quotes_get", '{"symbols":["B"]}')]
    for given in ({"id": "same"}, {"id": ""}, {"index": False}):
        made = tuple(local_server.Call(name, arguments, **given) for name, arguments in calls)
        kit = Kit()
        assert local_turn(server, Says(calls=made), Says(WHOLE), kit=kit).text == WHOLE
        assert kit.calls == [("quotes_get", {"symbols": ["A"]}), ("quotes_get", {"symbols": ["B"]})]
        answers = [json.loads(text) for text in outputs(server.chats()[-1].body)]
        assert answers == [{"echo": {"symbols": ["A"]}}, {"echo": {"symbols": ["B"]}}]
        ids = [one["tool_call_id"] for one in server.chats()[-1].body["messages"] if one["role"] == "tool"]
        assert len(set(ids)) == 2


def test_what_is_no_call_of_a_tool_reaches_the_toolset_which_has_it_on_record(server: LocalServer) -> None:
    """Also where the model had to answer and no tool is called any more."""
    kit, foreign = Kit(), local_server.Call("orders_submit", "[1]")
    broken = local_server.Call("quotes_get", '{"symbols":')
    assert local_turn(server, Says(calls=(broken, foreign)), Says(WHOLE), kit=kit).text
    assert kit.calls == []
    assert kit.rogue == [("quotes_get", '{"symbols":'), ("orders_submit", [1])]
    assert "no call" in outputs(server.chats()[-1].body)[0]
    own = local_server.Call("quotes_get", '{"symbols":["A"]}')
    server.policy = lambda _body: Says(calls=(own, foreign))
    local_turn(server, kit=kit, model_calls=1)
    assert kit.calls == []
    assert kit.rogue[-1] == ("orders_submit", [1])


def test_reasoning_is_no_answer_wherever_it_stands(server: LocalServer) -> None:
    no = '{"ok":false}'
    for reasoned in (
        Says(no, reasoning=WHOLE),
        Says(no, reasoning=WHOLE, reasoning_key="reasoning"),
        Says(f"<think>{WHOLE}</think>{no}"),
        Says(f"{WHOLE}</think>{no}"),
        Says(f"<|channel|>analysis<|message|>{WHOLE}<|end|><|start|>assistant<|channel|>final<|message|>{no}"),
    ):
        assert local_turn(server, reasoned).text == no
    # Where nothing else was written, it is the only answer there is.
    server.policy = lambda _body: Says("", reasoning=WHOLE)
    found = local_turn(server)
    assert (found.text, str(found.way).endswith("among the reasoning")) == (WHOLE, True)


@pytest.mark.parametrize("proxy", ["nonsense", "http://127.0.0.1:9", "http://127.0.0.1:notaport", "foo://x"])
def test_what_is_on_loopback_is_asked_without_a_proxy(
    proxy: str, server: LocalServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.setenv("NO_PROXY", "example.com,[::1")
    assert local_turn(server, Says(WHOLE), Says(WHOLE)).text == WHOLE


async def test_a_call_in_any_dialect_is_that_call(server: LocalServer) -> None:
    wrong = {}
    async with running() as runtime:
        for name, reply in {**ASKING, **BOTH}.items():
            kit, wanted = Kit(), ["ACME", "IBM"] if name in BOTH else ["ACME"]
            server.script(reply, Says(WHOLE))
            result = await one_turn(runtime, spec(kit, LOCAL))
            symbols = [symbol for _, arguments in kit.calls for symbol in arguments["symbols"]]
            if (result.text, symbols, kit.rogue) != (WHOLE, wanted, []):
                wrong[name] = (result.text, kit.calls, kit.rogue, result.failure)
    assert wrong == {}


@pytest.mark.parametrize("name", [OPENAI, ANTHROPIC])
async def test_reasoning_goes_back_to_the_model_that_signed_it(model: FakeChat, name: str) -> None:
    thought = Reasoned("The price matters.", Call("quotes_get", '{"symbols":["A"]}'), "c2lnbmF0dXJl")
    model.script(thought, answer(GOOD))
    async with running() as runtime:
        assert (await one_turn(runtime, spec(model=name))).status == "completed"
    (said,) = [one for one in model.requests[1].body["messages"] if one["role"] == "assistant"]
    blocks = [one for one in said.get("content") or () if one["type"] == "thinking"]
    signed = {"type": "thinking", "thinking": "The price matters.", "signature": "c2lnbmF0dXJl"}
    assert blocks == ([signed] if name == ANTHROPIC else [])
    assert "price matters" not in json.dumps(said) or name == ANTHROPIC


async def test_an_interrupt_in_the_middle_of_an_answer_closes_its_connection(model: FakeChat) -> None:
    model.script(Paced(Text("on and on "), every=0.05, end="endless"))
    seen = Seen()
    async with running(seen) as runtime, runtime.conversation(spec(), deadline()) as conversation:
        turn = asyncio.ensure_future(conversation.turn("What of ACME?", SCHEMA, METADATA))
        await until(lambda: len(model.requests) == 1)
        await asyncio.sleep(0.2)
        conversation.interrupt()
        assert (await turn).status == "interrupted"
        await until(lambda: model.left == 1)
    assert seen.types[-2:] == ["turn.interrupted", "thread.closed"]
