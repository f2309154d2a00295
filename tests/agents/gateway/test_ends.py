"""Turns on a model server that end badly, late or too long: each is asked once, and says what was wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from chordesk.agents.gateway.service import Gateway, Upstream
from chordesk.agents.providers.liveness import Liveness, TurnLimits
from chordesk.agents.runtime import TurnResult
from chordesk.models.answers import Usage
from tests.agents.codex.kit import FINAL, Kit, deadline, echo, one_turn, turn, until
from tests.agents.gateway import kit
from tests.agents.gateway.kit import Asked, NoTools, asks, facts_of, local
from tests.fakes.local_server import HTML, Call, FailsMidway, LocalServer, Pace, Raw, Reply, Says
from tests.fakes.responses import Status

OVERFLOW: dict[str, dict[str, Any]] = {
    "llama.cpp": {
        "code": 400, "message": "request (9000 tokens) exceeds the available context size (8192 tokens)",
        "type": "exceed_context_size_error", "n_prompt_tokens": 9000, "n_ctx": 8192,
    },
    "vllm": {
        "message": "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (8000 in "
        "the messages, 1000 in the completion).", "type": "BadRequestError", "code": 400,
    },
    "ollama": {"message": "the input length exceeds the context length: 9000 > 8192", "type": "invalid_request_error"},
    "lmstudio": {
        "message": "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with "
        "context length of only 8192 tokens",
    },
    "openai": {"code": "context_length_exceeded", "message": "context length 8192 exceeded: 9000", "type": "x"},
}  # fmt: skip


async def test_an_overflow_has_both_numbers(server: LocalServer, tmp_path: Path, registry: str) -> None:
    async with local(server, tmp_path, registry) as runtime:
        for error in OVERFLOW.values():
            server.requests.clear()
            server.script(Status(400, {"error": error}))
            result = await one_turn(runtime, asks())
            assert result.failure is not None
            assert (result.status, result.failure.kind) == ("failed", "context_window"), error
            assert "9,000 tokens does not fit the context of small on http://127.0.0.1:" in result.failure.message
            assert ", 8,192 tokens; serve it with a larger context" in result.failure.message
            assert len(server.chats()) == 1


NO_MODEL = {"error": {"message": 'model "small" not found, try pulling it first', "type": "not_found_error"}}
# The reply, the kind of failure, whether it is tried again, and what its message says.
BAD: dict[str, tuple[Reply, str, bool, str]] = {
    "not pulled": (Status(404, NO_MODEL), "not_found", False, "has no model small"),
    "not pulled, named": (Status(404, NO_MODEL), "not_found", False, "it has small, other"),
    "no such path": (Status(404, {"error": {"message": "File Not Found"}}), "not_found", False, "no such address"),
    "a page": (HTML, "bad_request", False, "answered text/html, which is no answer of a model"),
    "a page as an error": (Raw(b"<html>Bad gateway</html>", "text/html", 502), "server_error", True, "502: a page"),
    "another API": (Status(200, {"answer": 42}), "bad_request", False, "answered application/json, which is no answer"),
    "an empty stream": (Raw(b""), "stream_cut", True, "broke off the answer of small"),
    "half a JSON": (Raw(b'{"choices": [', "application/json"), "stream_cut", True, "broke off the answer of small"),
    "a redirect": (Status(307, {}, {"location": "http://127.0.0.1:1/x"}), "bad_request", False, "redirects to"),
    "the key": (Status(401, {"error": {"message": "bad key"}}), "unauthorized", False, "check DESK_PROVIDER_KEY"),
    "a limit": (Status(429, {"error": {"message": "slow down"}}, {"retry-after": "7"}), "rate_limited", True, "slow"),
    "loading": (Status(503, {"error": {"message": "Loading model"}}), "overloaded", True, "it may still load"),
    "a crash": (Status(500, {"error": {"message": "slot died"}}), "server_error", True, "500: slot died"),
    "a bad request": (Status(400, {"error": {"message": "no such field"}}), "bad_request", False, "no such field"),
    "an error in words": (Status(400, {"error": "no such field"}), "bad_request", False, "no such field"),
    "an error midway": (FailsMidway({"message": "slot died", "code": 500}, "ha"), "server_error", True, "slot died"),
    "an overflow midway": (FailsMidway(OVERFLOW["llama.cpp"], "ha"), "context_window", False, "9,000"),
    "dropped": (Says("half of", end="dropped"), "stream_cut", True, "after 2 tokens"),
    "no end at all": (Says("half of", end="plain", finish=""), "stream_cut", True, "after 2 tokens"),
    "nothing": (Says("", finish="stop"), "invalid_output", False, "without a word"),
    "reasoning alone": (Says("", reasoning="x" * 80, finish="length"), "length", False, "20 tokens of reasoning"),
}  # fmt: skip


async def test_what_went_wrong_is_named_and_asked_once(server: LocalServer, tmp_path: Path, registry: str) -> None:
    server.models.append("other")
    async with local(server, tmp_path, registry) as runtime:
        for name, (reply, kind, retryable, said) in BAD.items():
            server.requests.clear()
            server.script(reply)
            result = await one_turn(runtime, asks(tools=NoTools()))
            assert result.failure is not None, name
            assert (result.status, result.failure.kind, result.failure.retryable) == ("failed", kind, retryable), name
            assert said in result.failure.message
            assert server.url in result.failure.message
            assert len(server.chats()) == 1, name
            assert result.refusal is None
            assert result.failure.reset_seconds == (7.0 if name == "a limit" else None)


def test_a_server_that_is_away_is_named(tmp_path: Path, registry: str) -> None:
    with LocalServer() as server:
        facts = facts_of(server).model_dump()
    result = kit.asked(server, tmp_path, registry, url=facts["url"])
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("unreachable", True)
    assert f"no model server answers at {server.url}: Connection refused; start it" in result.failure.message


@pytest.mark.parametrize("bounded", [True, False])
async def test_an_answer_that_is_too_long_is_cut_and_kept(
    bounded: bool, server: LocalServer, tmp_path: Path, registry: str
) -> None:
    """With a server that keeps to max_tokens, and with one that writes for ever."""
    found: list[TurnResult] = []
    server.script(Says('{"ok":true,"why":"so it is. ', end="endless", bounded=bounded))
    facts = {"schema_way": "json_object"}
    async with local(server, tmp_path, registry, facts=facts, output_tokens=100) as runtime:
        found.append(await one_turn(runtime, asks(tools=NoTools())))
        await until(lambda: server.open == 0)
    (result,) = found
    assert (result.status, result.cut, result.failure) == ("completed", True, None)
    assert result.text.startswith('{"ok":true,"why":"so it is. ')
    assert server.left == (0 if bounded else 1)
    assert (result.usage == Usage.unknown()) is not bounded
    assert len(server.chats()) == 1


def test_a_call_that_was_cut_off_is_not_answered(server: LocalServer, asked: Asked) -> None:
    """The model would write it again, as long as before; where the server keeps to a schema it has to answer."""
    tools = Kit()
    cut = Says(calls=(Call("quotes_get", '{"symbols":["' + "A" * 200, id="c"),), finish="length")
    result = asked(cut, Says(FINAL), tools=tools)
    assert (result.text, tools.calls, len(server.chats())) == (FINAL, [], 2)
    server.requests.clear()
    result = asked(cut, tools=tools, schema_way="json_object")
    assert result.failure is not None
    assert (result.failure.kind, tools.calls, len(server.chats())) == ("length", [], 1)
    assert "cut off in a call of quotes_get" in result.failure.message


def test_a_server_that_refuses_the_second_request_is_left_with_the_first(asked: Asked) -> None:
    refused = Status(400, {"error": {"message": "response_format is not supported"}})
    result = asked(Says("It is fine."), refused)
    assert (result.status, result.text, result.failure) == ("completed", "It is fine.", None)


async def test_a_slow_start_with_signs_of_life_is_waited_for(
    server: LocalServer, tmp_path: Path, registry: str
) -> None:
    """Longer than the first token may take, in silence but for heartbeats; then a token a second or so."""
    server.script(Says(FINAL, pace=Pace(first=6.5, rate=3.0, heartbeat=0.5, beat="comment")))
    async with local(server, tmp_path, registry, first_token_seconds=4.5, silence_seconds=4.5) as runtime:
        result = await one_turn(runtime, asks(tools=NoTools()))
    assert (result.status, result.text) == ("completed", FINAL)
    assert result.usage.output_tokens == 3
    assert len(server.chats()) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Says(FINAL, pace=Pace(headers=600.0)), "no_first_token"),
        (Says("half of it", end="open"), "silent"),
    ],
)
async def test_silence_ends_the_turn_and_the_servers_work(
    reply: Says, kind: str, server: LocalServer, tmp_path: Path, registry: str
) -> None:
    server.script(reply)
    async with local(server, tmp_path, registry, first_token_seconds=2.0, silence_seconds=2.0) as runtime:
        result = await one_turn(runtime, asks(tools=NoTools()))
        await until(lambda: server.open == 0)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == (kind, False)
    assert (server.left, len(server.chats())) == (1, 1)


async def test_an_interrupt_stops_the_server(server: LocalServer, tmp_path: Path, registry: str) -> None:
    server.script(Says("word ", end="endless", bounded=False, pace=Pace(rate=100.0)))
    async with (
        local(server, tmp_path, registry) as runtime,
        runtime.conversation(asks(tools=NoTools()), deadline()) as conversation,
    ):
        turning = asyncio.create_task(turn(conversation))
        await until(lambda: server.tokens > 10)
        conversation.interrupt()
        result = await turning
        await until(lambda: server.open == 0)
    assert result.status == "interrupted"
    assert (server.left, len(server.chats())) == (1, 1)


@asynccontextmanager
async def answers_of(server: LocalServer, key: str) -> AsyncIterator[Callable[[str], Awaitable[tuple[int, str]]]]:
    """Asks a gateway, as the app-server does for a thread; the one that it watches is `a-thread`."""

    async def facts(_model: str) -> Any:
        return facts_of(server)

    gateway = Gateway(Upstream(server.url, key, facts=facts))
    await gateway.start()
    gateway.watch("a-thread", Liveness(TurnLimits()))
    async with aiohttp.ClientSession() as session:

        async def ask(thread: str) -> tuple[int, str]:
            body, headers = {"model": "small", "input": [], "stream": True}, {"thread-id": thread}
            async with session.post(f"{gateway.url}/responses", json=body, headers=headers) as response:
                return response.status, await response.text()

        try:
            yield ask
        finally:
            await gateway.close()


async def test_nobody_else_is_answered(server: LocalServer) -> None:
    """It has the key: another process on this host cannot spend it."""
    async with answers_of(server, "a-key") as ask:
        assert [(await ask(thread))[0] for thread in ("another", "a-thread")] == [403, 200]
    (seen,) = server.chats()
    assert seen.headers["authorization"] == "Bearer a-key"


async def test_a_failure_never_tells_the_key(server: LocalServer) -> None:
    server.script(Status(400, {"error": {"message": "bad: Bearer secret-key-1234"}}))
    async with answers_of(server, "secret-key-1234") as ask:
        _, told = await ask("a-thread")
    assert "bad: " in told
    assert "secret-key-1234" not in told
    assert json.loads(told.rpartition("data: ")[2])["type"] == "response.failed"


async def test_a_router_may_answer_by_any_model_and_a_restarted_server_may_not(
    server: LocalServer, tmp_path: Path, registry: str
) -> None:
    """Who answered is on record, also where the target of a name changes. A server of one model that was started anew
    has another list of models."""
    async with local(server, tmp_path, registry) as runtime:
        for name in ("small-v2", "large-v1", "maker/huge", "large-v1"):
            server.policy = lambda _body, name=name: Says(FINAL, model=name)
            result = await one_turn(runtime, asks())
            assert (result.text, result.failure) == (FINAL, None), name
            assert (f"answered by {name}" in str(result.way)) is (name != "small-v2")
        server.restart("other")
        server.policy = server.able
        failure = (await one_turn(runtime, asks(tools=NoTools()))).failure
    assert failure is not None
    assert (failure.kind, "other answers on" in failure.message) == ("not_found", True)


async def test_a_model_that_is_asked_for_by_an_alias_may_answer_by_its_name(
    server: LocalServer, tmp_path: Path, registry: str
) -> None:
    server.aliases, server.any_model = ["chat"], True
    server.policy = lambda _body: Says(FINAL, model="weights-q4")
    async with local(server, tmp_path, registry, facts={"model": "chat", "models": ("small", "chat")}) as runtime:
        result = await one_turn(runtime, asks())
    assert (result.text, result.failure) == (FINAL, None)


def test_usage_that_cannot_be_true_is_not_believed(asked: Asked) -> None:
    """Neither more read than was sent, nor more written than came: a budget would be gone by one lie."""
    for read, written in ((9_000_000, 20), (200, 900_000)):
        told = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        result = asked(Says(FINAL, usage=told))
        assert result.status == "completed"
        assert result.usage.total_tokens is None


def test_tokens_that_nobody_counted_are_in_no_sum(server: LocalServer, asked: Asked) -> None:
    """The app-server has estimates of its own."""
    for reply in (Status(500, {"error": {"message": "slot died"}}), Says("half of", end="dropped", usage=None)):
        assert asked(reply).usage.total_tokens in (0, None)
    assert asked(Says(FINAL, usage=None)).usage.total_tokens is None


@pytest.mark.parametrize("native", [True, False])
async def test_a_model_that_calls_tools_for_ever_is_ended(
    server: LocalServer, tmp_path: Path, registry: str, native: bool
) -> None:
    """Whatever it is told: each further call would send all before it again. Those of a tool that it does not have are
    told, the last one too, which nobody answered."""
    numbers, name = itertools.count(), "quotes_get" if native else "orders_submit"

    def calls(_body: dict[str, Any]) -> Reply:
        arguments = {"symbols": [f"S{next(numbers)}"]}
        if native:
            return Says(calls=(Call(name, json.dumps(arguments)),))
        return Says(json.dumps({"reply": {"tool_calls": [{"name": name, "arguments": arguments}]}}))

    server.policy = calls
    way = {"tool_way": "native" if native else "schema", "context": None}
    async with local(server, tmp_path, registry, way) as runtime:
        result = await one_turn(runtime, asks(tools=Kit(quotes_get=echo)))
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("endless_calls", False)
    assert f"goes on calling tools ({name})" in result.failure.message
    assert len(server.chats()) <= 15
    assert len(result.rogue) == (0 if native else len(server.chats()))
