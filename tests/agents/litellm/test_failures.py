"""Faults of a provider, through the library and the wire in both dialects: each becomes a failure kind that the desk's
policy knows; fallbacks, and what is hidden in a message."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.providers.provider_limits import LIMITS
from chordesk.agents.runtime import TurnResult
from chordesk.tasks.engine import policy
from tests.agents.codex.kit import Kit, run
from tests.agents.litellm.kit import ANTHROPIC, DIALECTS, KEY, OPENAI, environment, one_turn, running, spec
from tests.agents.litellm.test_turns import GOOD
from tests.agents.observed import Seen
from tests.fakes.chat import ChatReply, Dropped, FakeChat, Filtered, HalfJson, Raw, answer, outputs
from tests.fakes.responses import Call, Status, Text
from tests.stack import free_port

ROOT = Path(__file__).parents[3]


def _error(code: int, kind: str, message: str = "it went wrong", **headers: str) -> Status:
    body = {"type": "error", "error": {"type": kind, "code": kind, "message": message}}
    return Status(code, body, {name.replace("_", "-"): value for name, value in headers.items()})


FAULTS: dict[str, tuple[ChatReply, str]] = {
    "half a JSON": (HalfJson(), "stream_cut"),
    "a dropped connection": (Dropped(), "stream_cut"),
    "no object": (Raw({}), "stream_cut"),
    "no message": (Raw({"choices": [], "content": []}), "stream_cut"),
    "a refused key": (_error(401, "authentication_error"), "unauthorized"),
    "no permission": (_error(403, "permission_error"), "unauthorized"),
    "no such model": (_error(404, "not_found_error"), "not_found"),
    "a bad request": (_error(400, "invalid_request_error"), "bad_request"),
    "a rate limit": (_error(429, "rate_limit_error", retry_after="7"), "rate_limited"),
    "a used quota": (_error(429, "insufficient_quota", "You exceeded your current quota"), "no_credit"),
    "a plan's limit": (_error(429, "usage_limit_reached", "try again in 7 seconds"), "usage_limit"),
    "a plan's limit in another status": (
        _error(400, "invalid_request_error", "You have reached your specified API usage limits. Try again in 7 s"),
        "usage_limit",
    ),
    "a used-up balance": (
        _error(400, "invalid_request_error", "Your credit balance is too low to access the API"),
        "no_credit",
    ),
    "an error of the server": (_error(500, "api_error"), "server_error"),
    "unavailable": (_error(503, "unavailable"), "overloaded"),
    "overloaded": (_error(529, "overloaded_error", "Overloaded"), "overloaded"),
    "a full context": (
        _error(400, "context_length_exceeded", "This model's maximum context length is 8192 tokens"),
        "context_window",
    ),
    "a long prompt": (
        _error(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum"),
        "context_window",
    ),
}


def outcome(reply: ChatReply, model: FakeChat, name: str, seen: Seen | None = None) -> TurnResult:
    found: list[TurnResult] = []
    model.policy = lambda _body: reply

    async def work() -> None:
        async with running(seen) as runtime:
            found.append(await one_turn(runtime, spec(model=name)))

    run(work())
    return found[0]


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_becomes_a_failure_of_its_kind_after_one_request(model: FakeChat, fault: str, name: str) -> None:
    reply, kind = FAULTS[fault]
    seen = Seen()
    result = outcome(reply, model, name, seen)
    assert result.failure is not None
    assert (result.status, result.failure.kind) == ("failed", kind)
    assert len(model.requests) == (2 if isinstance(reply, Raw) else 1)  # one JSON: asked for without a stream
    assert kind in policy.POLICY
    assert result.failure.retryable == (
        kind in {"stream_cut", "rate_limited", "usage_limit", "server_error", "overloaded"}
    )
    (error,) = seen.payloads("turn.error")
    assert (error["kind"], error["will_retry"]) == (kind, False)
    assert seen.payloads("turn.failed")[0]["kind"] == kind
    if kind in LIMITS:
        assert result.failure.reset_seconds == 7.0


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_refused_connection_is_unreachable(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable, value in environment(f"http://127.0.0.1:{free_port()}/v1").items():
        monkeypatch.setenv(variable, value)
    async with running() as runtime:
        result = await one_turn(runtime, spec(model=name))
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("unreachable", True)


@pytest.mark.parametrize("name", [*DIALECTS, "gemini/gemini-2.5-pro"])
def test_a_missing_key_is_named_and_final(model: FakeChat, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    result = outcome(Text("never"), model, name)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("unauthorized", False)
    assert f"{name.partition('/')[0].upper()}_API_KEY" in result.failure.message
    assert "environment of the workers" in result.failure.message
    assert model.requests == []


@pytest.mark.parametrize("name", DIALECTS)
def test_a_key_is_in_no_message_and_no_event(
    model: FakeChat, name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    seen = Seen()
    text = f"Incorrect key {KEY} provided, and secret {KEY}"
    result = outcome(_error(401, "authentication_error", text), model, name, seen)
    assert result.failure is not None
    assert "Incorrect key" in result.failure.message
    shown = [result.failure.message, *(str(one) for one in seen.events), caplog.text, *capfd.readouterr()]
    assert not [one for one in shown if KEY in one]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_content_filter_is_a_refusal(model: FakeChat, name: str) -> None:
    result = outcome(Filtered(), model, name)
    assert result.failure is None
    assert "content filter" in (result.refusal or "")
    result = outcome(_error(400, "content_policy_violation", "stopped by content_policy_violation"), model, name)
    assert (result.status, result.failure) == ("failed", None)
    assert result.refusal is not None


async def test_another_model_answers_where_the_first_cannot(model: FakeChat) -> None:
    """The turn names the model that answered; a limited one is passed over while its limit lasts."""
    seen = Seen()
    served: list[str] = []

    def policy(body: dict[str, Any]) -> ChatReply:
        served.append(body["model"])
        return _error(429, "rate_limit_error", retry_after="60") if "gpt" in body["model"] else answer(GOOD)

    model.policy = policy
    async with running(seen) as runtime:
        for _ in range(2):
            result = await one_turn(runtime, spec(fallbacks=(ANTHROPIC,)))
            assert (result.status, result.model) == ("completed", ANTHROPIC)
            assert result.usage.total_tokens == 120
    assert served == ["gpt-5.5", "claude-sonnet-4-5", "claude-sonnet-4-5"]
    (error,) = seen.payloads("turn.error")
    assert (error["model"], error["kind"], error["will_retry"]) == (OPENAI, "rate_limited", True)


async def test_a_turn_goes_on_in_another_dialect_with_its_tool_answers(model: FakeChat) -> None:
    model.script(Call("quotes_get", '{"symbols":["A"]}'), _error(500, "api_error"), answer(GOOD))
    async with running() as runtime:
        result = await one_turn(runtime, spec(fallbacks=(ANTHROPIC,)))
    assert (result.status, result.model) == ("completed", ANTHROPIC)
    assert json.loads(outputs(model.requests[2].body)[0]) == {"echo": {"symbols": ["A"]}}


async def test_a_refused_key_is_not_covered_up_by_another_model(model: FakeChat) -> None:
    model.script(_error(401, "authentication_error"))
    async with running() as runtime:
        result = await one_turn(runtime, spec(fallbacks=(ANTHROPIC,)))
    assert result.failure is not None
    assert result.failure.kind == "unauthorized"
    assert len(model.requests) == 1


async def test_a_full_context_goes_on_without_the_older_answers(model: FakeChat) -> None:
    full = _error(400, "context_length_exceeded", "maximum context length is 8192 tokens")
    first, second = (Call("quotes_get", json.dumps({"symbols": [name]})) for name in "AB")
    model.script(first, second, full, answer(GOOD))
    seen = Seen()
    async with running(seen) as runtime:
        assert (await one_turn(runtime, spec(Kit()))).status == "completed"
    whole, shorter = outputs(model.requests[2].body), outputs(model.requests[3].body)
    assert [json.loads(text) for text in whole] == [{"echo": {"symbols": ["A"]}}, {"echo": {"symbols": ["B"]}}]
    assert "left out" in shorter[0]
    assert shorter[1] == whole[1]
    assert seen.payloads("turn.error")[0]["will_retry"] is True


_QUIET = """
import asyncio, socket, sys
there = []
def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        there.append(arguments[1][:2])
    elif event == "socket.getaddrinfo":
        there.append(arguments[:2])
sys.addaudithook(watch)
assert "litellm" not in sys.modules
from tests.agents.litellm.kit import ANTHROPIC, OPENAI, one_turn, running, spec
from tests.agents.codex.kit import run
assert "litellm" not in sys.modules, "loaded before a runtime starts"
async def work():
    async with running() as runtime:
        for name in (OPENAI, ANTHROPIC):
            print((await one_turn(runtime, spec(model=name))).status)
run(work())
print(sorted({(str(host), int(port)) for host, port in there if host is not None}))
"""


def test_nothing_but_the_models_call_goes_out(model: FakeChat) -> None:
    """In a process of its own: from the library's import on, every address that it asks for or connects to."""
    port = int(model.url.rpartition(":")[2].partition("/")[0])
    environ = {**os.environ, **environment(model.url), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", _QUIET], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    *statuses, found = done.stdout.splitlines()
    assert statuses == ["completed", "completed"]
    assert found == repr([("127.0.0.1", port)])
