"""Turns of the real app-server on an endpoint of the Responses API: passed on and back as they are, with the key."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import psutil
import pytest
from aiohttp.client_reqrep import ConnectionKey

from chordesk.agents.gateway import server_requests
from chordesk.agents.gateway.server_requests import Server
from chordesk.agents.gateway.service import Gateway, Signs, Upstream
from chordesk.agents.providers.liveness import Liveness, TurnLimits
from chordesk.agents.runtime import TurnResult
from chordesk.models.answers import Usage
from tests.agents.codex.kit import FINAL, Kit, deadline, one_turn, run, spec, turn
from tests.agents.gateway.kit import endpoint
from tests.fakes import responses
from tests.fakes.responses import (
    SSE_HEADERS,
    Call,
    Cut,
    Failing,
    FakeResponses,
    Receive,
    Refusal,
    Seen,
    Send,
    Status,
    Streamed,
    Text,
    stream_of,
)

KEY = "sk-endpoint-0123456789"


class Endpoint(FakeResponses):
    """An endpoint whose answers may be any bytes: (status, headers, parts with the seconds before each)."""

    raw: tuple[int, list[tuple[bytes, bytes]], list[tuple[float, bytes]]] | None = None
    left = 0

    def __enter__(self) -> Endpoint:
        super().__enter__()
        return self

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        if self.raw is None:
            await super().answer(seen, receive, send)
            return
        status, headers, parts = self.raw
        await send({"type": "http.response.start", "status": status, "headers": headers})
        gone = asyncio.ensure_future(_gone(receive))
        for seconds, part in parts:
            await asyncio.wait((gone,), timeout=seconds)
            if gone.done():
                self.left += 1
                return
            await send({"type": "http.response.body", "body": part, "more_body": True})
        gone.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def asked(served: FakeResponses, home: Path, registry: str, **changes: Any) -> TurnResult:
    found: list[TurnResult] = []

    async def work() -> None:
        async with endpoint(served, home, registry, provider_key=KEY, **changes) as runtime:
            found.append(await one_turn(runtime, spec()))

    run(work())
    return found[0]


async def test_a_turn_goes_on_as_it_is_and_the_app_server_never_has_the_key(tmp_path: Path, registry: str) -> None:
    kit = Kit()
    with FakeResponses() as served:
        served.script(Call("quotes_get", '{"symbols":["ACME"]}'), Text(FINAL))
        async with (
            endpoint(served, tmp_path, registry, provider_key=KEY) as runtime,
            runtime.conversation(spec(kit), deadline()) as conversation,
        ):
            result = await turn(conversation)
            for process in runtime.status():
                told = psutil.Process(process.pid)
                assert KEY not in " ".join((*told.environ().values(), *told.cmdline()))
        assert (result.status, result.text, result.way) == ("completed", FINAL, None)
        assert result.usage == Usage(
            input_tokens=200, cached_input_tokens=0, output_tokens=40, reasoning_tokens=0, total_tokens=240
        )
        assert len(kit.calls) == 1
        for seen in served.calls():
            assert seen.path == "/v1/responses"
            assert seen.headers["authorization"] == f"Bearer {KEY}"
            assert seen.headers["host"] == served.url.removeprefix("http://").removesuffix("/v1")
            assert seen.headers["accept"] == "text/event-stream"
            assert seen.headers["content-type"] == "application/json"
            assert seen.headers["user-agent"].startswith("chordesk/")
            assert seen.headers["thread-id"] == seen.body["prompt_cache_key"] == result.thread_id
            assert "accept-encoding" not in seen.headers
            assert seen.metadata["step_id"] == "step-1"


REPLIES: Mapping[str, tuple[Any, tuple[str, str | None]]] = {
    "text": (Text(FINAL), ("completed", None)),
    "in pieces": (Streamed(FINAL, 4), ("completed", None)),
    "refusal": (Refusal("I will not."), ("completed", None)),
    "failed": (Failing("server_error"), ("failed", "stream_cut")),
    "overflow": (Failing("context_length_exceeded", "9000 tokens, context 8192"), ("failed", "context_window")),
    "cut": (Cut(), ("failed", "stream_cut")),
    "bad request": (Status(400, {"error": {"message": "no"}}), ("failed", "bad_request")),
    "crash": (Status(500, {"error": {"message": "no"}}), ("failed", "server_error")),
    "busy": (Status(503, {"error": {"message": "no"}}), ("failed", "overloaded")),
}


async def test_ends_are_those_of_an_app_server_alone(tmp_path: Path, registry: str) -> None:
    with FakeResponses() as served:
        async with endpoint(served, tmp_path, registry, provider_key=KEY) as runtime:
            for name, (reply, (status, kind)) in REPLIES.items():
                served.policy = lambda _body, reply=reply: reply
                result = await one_turn(runtime, spec())
                assert result.status == status, name
                assert (result.failure.kind if result.failure else None) == kind, name
                assert (result.refusal is not None) == (name == "refusal")
                if name == "overflow":  # of which the app-server counts a whole context as spent
                    assert result.failure is not None
                    assert "9,000 tokens does not fit the context of gpt-5.5" in result.failure.message
                    assert result.usage.total_tokens in (0, None)


async def test_a_key_that_an_endpoint_quotes_is_not_told(tmp_path: Path, registry: str) -> None:
    """Though it is of no known form."""
    key = "correct-horse-battery"
    said = f"the key {key} is wrong"
    replies = [
        Failing("invalid_prompt", said),
        *(Status(code, {"error": {"message": said}}) for code in (400, 401, 500)),
    ]
    with FakeResponses() as served:
        async with endpoint(served, tmp_path, registry, provider_key=key) as runtime:
            for reply in replies:
                served.policy = lambda _body, reply=reply: reply
                result = await one_turn(runtime, spec())
                assert result.failure is not None
                assert key not in result.failure.message
                if reply is not replies[-1]:  # of which the app-server keeps the words to itself
                    assert "the key ******** is wrong" in result.failure.message


PAGE = [(b"content-type", b"text/html")]
JSON = [(b"content-type", b"application/json")]
WRONG: Mapping[str, tuple[int, list[tuple[bytes, bytes]], bytes, str, tuple[str, ...]]] = {
    "a page": (200, PAGE, b"<html>It works!</html>", "bad_request", ("/responses answered text/html", "It works!")),
    "another API": (200, JSON, b'{"answer":42}', "bad_request", ("/responses answered application/json", "/v1")),
    "a page as an error": (403, PAGE, b"<html>No</html>", "bad_request", ("(403) answered text/html",)),
    "no Responses API": (404, JSON, b'{"detail":"No"}', "not_found", ("no Responses API", "DESK_PROVIDER=local")),
    "no such model": (
        404, JSON, b'{"error":{"message":"The model `gpt-5.5` does not exist","code":"model_not_found"}}', "not_found",
        ("has no model gpt-5.5", "DESK_MODEL"),
    ),
    "the key": (401, JSON, b'{"error":{"message":"bad key"}}', "unauthorized", ("bad key", "DESK_PROVIDER_KEY")),
    "an overflow": (
        400, JSON, b'{"error":{"type":"exceed_context_size_error","message":"x","n_prompt_tokens":9000,"n_ctx":8192}}',
        "context_window", ("9,000", "8,192"),
    ),
    "a redirect": (301, [(b"location", b"http://127.0.0.1:1/")], b"", "bad_request", ("redirects to",)),
}  # fmt: skip


def test_a_failure_names_figures_and_addresses_that_are_known_alone() -> None:
    def told(url: str) -> str:
        return str(Server(url, "gpt-5.5").of_endpoint(404, b'{"detail":"No"}'))

    assert "set DESK_PROVIDER_URL=http://host:1/v1, or for a server" in told("http://host:1")
    assert "DESK_PROVIDER_URL" not in told("http://host:1/v1")
    overflow = str(Server("http://host:1/v1", "gpt-5.5").of_error({"message": "prompt is too long"}, 400))
    assert "the prompt does not fit the context of gpt-5.5 on http://host:1/v1 (prompt is too long)" in overflow
    assert "about 0" not in overflow


async def test_what_is_no_answer_is_told_with_its_url_and_asked_once(tmp_path: Path, registry: str) -> None:
    with Endpoint() as served:
        async with endpoint(served, tmp_path, registry, provider_key=KEY) as runtime:
            for name, (status, headers, body, kind, said) in WRONG.items():
                served.requests.clear()
                served.raw = (status, headers, [(0.0, body)])
                result = await one_turn(runtime, spec())
                assert result.failure is not None, name
                assert (result.failure.kind, result.failure.retryable) == (kind, False), name
                assert all(part in result.failure.message for part in (served.url, *said)), name
                assert KEY not in result.failure.message
                assert len(served.requests) == 1, name


def test_a_packed_answer_is_unpacked(tmp_path: Path, registry: str) -> None:
    with Endpoint() as served:
        packed = gzip.compress(stream_of(Text(FINAL)))
        served.raw = (200, [*SSE_HEADERS, (b"content-encoding", b"gzip")], [(0.0, packed)])
        result = asked(served, tmp_path, registry)
    assert (result.status, result.text) == ("completed", FINAL)


def test_a_slow_endpoint_lives_by_its_signs_and_a_silent_one_is_left(tmp_path: Path, registry: str) -> None:
    with Endpoint() as served:
        beats = [(1.0, b": heartbeat\n\n")] * 5
        served.raw = (200, SSE_HEADERS, [*beats, (0.0, stream_of(Streamed(FINAL, 4)))])
        result = asked(served, tmp_path, registry, first_token_seconds=4.0)
        assert (result.status, result.text) == ("completed", FINAL)
        served.raw = (200, SSE_HEADERS, [(0.0, stream_of(Cut())), (600.0, b"")])
        result = asked(served, tmp_path, registry, first_token_seconds=2.0)
        assert result.failure is not None
        assert result.failure.kind == "no_first_token"
        assert served.left == 1


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **fields}))


def test_an_answer_that_is_too_long_is_cut_and_kept(tmp_path: Path, registry: str) -> None:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    opening = _event("response.created", response={"id": "r"}) + _event("response.output_item.added", item=item)
    delta = _event("response.output_text.delta", item_id="msg_1", delta="word ")
    with Endpoint() as served:
        served.raw = (200, SSE_HEADERS, [(0.0, opening), *[(0.01, delta)] * 2000])
        result = asked(served, tmp_path, registry, output_tokens=50)
    assert (result.status, result.cut, result.failure) == ("completed", True, None)
    assert result.text.startswith("word word ")
    assert result.usage == Usage.unknown()


async def test_bytes_and_headers_come_back_as_they_are() -> None:
    """However the stream is cut into pieces; other paths too."""
    body = stream_of(Streamed(FINAL, 4)) + b": the end\n\n" + _event("codex.new", anything=[1, 2])
    with Endpoint() as served:
        gateway = Gateway(Upstream(served.url, KEY, chat=False))
        await gateway.start()
        gateway.watch("t", Liveness(TurnLimits()))
        headers = [*SSE_HEADERS, (b"x-request-id", b"abc"), (b"x-ratelimit-remaining", b"7")]
        pieces = [(0.0, body[at : at + 7]) for at in range(0, len(body), 7)]
        served.raw = (200, headers, pieces)
        sent = {"thread-id": "t", "OpenAI-Beta": "x", "Authorization": "Bearer other", "Cookie": "a=b"}
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(f"{gateway.url}/responses?a=b%20c", data=b"{}", headers=sent) as answer,
            ):
                assert (answer.status, await answer.read()) == (200, body)
                assert answer.headers["x-request-id"] == "abc"
                assert answer.headers["x-ratelimit-remaining"] == "7"
        finally:
            await gateway.close()
        (seen,) = served.requests
        assert seen.headers["openai-beta"] == "x"
        assert seen.headers["authorization"] == f"Bearer {KEY}"


ITEM = {"id": "rs_1", "type": "reasoning", "summary": []}
STREAMS: Mapping[str, tuple[bytes, str, float]] = {
    "created": (_event("response.created", response={}), "waiting", 0),
    "a comment": (b": x\n\n", "waiting", 0),
    "hidden reasoning": (_event("response.output_item.added", item=ITEM), "reasoning", 0),
    "reasoning": (_event("response.reasoning_summary_text.delta", delta="x" * 40), "reasoning", 10),
    "raw reasoning": (_event("response.reasoning_text.delta", delta="x" * 40), "reasoning", 10),
    "text": (_event("response.output_text.delta", delta='"\\' + "x" * 38), "writing", 10),
    "arguments": (_event("response.function_call_arguments.delta", delta="x" * 40), "writing", 10),
    "a whole item": (_event("response.output_item.done", item={"type": "message"}), "writing", 1),
    "whole reasoning": (_event("response.output_item.done", item=ITEM), "reasoning", 0),
    "no event line": (b'data: {"type":"response.output_text.delta","delta":"x"}\n\n', "writing", 1),
    "other line ends": (b'data: {"type":"response.output_text.delta","delta":"x"}\r\n\r\n', "writing", 1),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("cut", [lambda told: [told], lambda told: [bytes([one]) for one in told]])
def test_signs_of_life(name: str, cut: Callable[[bytes], list[bytes]]) -> None:
    told, phase, tokens = STREAMS[name]
    liveness = Liveness(TurnLimits())
    liveness.requested()
    signs = Signs(liveness, lambda: Server("x", "y"))
    assert b"".join([*map(signs.passed, cut(told)), signs.rest()]) == told
    assert (liveness.phase, liveness.tokens) == (phase, tokens)


def test_an_answer_that_the_endpoint_cut_at_its_length_is_kept(tmp_path: Path, registry: str) -> None:
    item = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}
    response = {"id": "r", "incomplete_details": {"reason": "max_output_tokens"}, "usage": responses.USAGE}
    body = _event("response.output_item.done", output_index=0, item=item)
    with Endpoint() as served:
        served.raw = (200, SSE_HEADERS, [(0.0, body + _event("response.incomplete", response=response))])
        result = asked(served, tmp_path, registry)
    assert (result.status, result.text, result.cut) == ("completed", "half", True)
    assert result.usage.total_tokens == 120


@pytest.mark.parametrize("reason", ["max_output_tokens", "length"])
def test_reasoning_that_came_to_the_limit_of_tokens_is_no_refusal(reason: str, tmp_path: Path, registry: str) -> None:
    item = {"id": "r", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Let me think."}]}
    response = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": reason}, "usage": responses.USAGE}
    body = _event("response.output_item.done", output_index=0, item=item)
    with Endpoint() as served:
        served.raw = (200, SSE_HEADERS, [(0.0, body + _event("response.incomplete", response=response))])
        result = asked(served, tmp_path, registry)
    assert (result.refusal, result.failure and result.failure.kind) == (None, "length")
    assert "limit of tokens" in str(result.failure)


@pytest.mark.parametrize("name", ["functions", "a token in the name", "in the text", "a text in a text"])
async def test_a_call_in_a_dialect_is_that_call(name: str, tmp_path: Path, registry: str) -> None:
    told, arguments = '{"symbols":["ACME"]}', '{"symbols":"ACME"}'
    replies = {
        "functions": Call("functions.quotes_get", arguments),
        "a token in the name": Call("quotes_get<|channel|>commentary", told),
        "in the text": Text(f'<tool_call>{{"name":"quotes_get","arguments":{told}}}</tool_call>'),
        "a text in a text": Call("quotes_get", orjson.dumps(told).decode()),
    }
    kit = Kit()
    with FakeResponses() as served:
        served.script(replies[name], Text(FINAL))
        async with endpoint(served, tmp_path, registry) as runtime:
            result = await one_turn(runtime, spec(kit))
    assert (result.text, result.rogue) == (FINAL, ())
    assert kit.calls == [("quotes_get", {"symbols": ["ACME"]})]


@pytest.mark.parametrize("name", ["a stream that is called JSON", "JSON that is called a stream"])
def test_what_comes_counts_and_not_its_label(name: str, tmp_path: Path, registry: str) -> None:
    item = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": FINAL}]}
    response = {"id": "r", "status": "completed", "output": [item], "usage": responses.USAGE}
    body = _event("response.output_item.done", output_index=0, item=item)
    body += _event("response.completed", response={**response, "output": []})
    with Endpoint() as served:
        if name.startswith("a stream"):
            served.raw = (200, [(b"content-type", b"application/json")], [(0.0, body)])
        else:
            served.raw = (200, SSE_HEADERS, [(0.0, orjson.dumps(response))])
        result = asked(served, tmp_path, registry)
    assert (result.status, result.text, result.usage.total_tokens) == ("completed", FINAL, 120)


def test_a_server_without_tls_is_no_certificate_that_is_not_trusted() -> None:
    key = ConnectionKey("127.0.0.1", 8080, True, True, None, None, None)
    error = aiohttp.ClientConnectorSSLError(key, ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"))
    problem = server_requests.away("https://127.0.0.1:8080/v1", error)
    assert (problem.kind, problem.message) == (
        "unreachable",
        "https://127.0.0.1:8080/v1 speaks no TLS: set DESK_PROVIDER_URL to it with http://",
    )
