"""Demands of the policy on the real app-server: the provider's reset time, forks and fresh threads."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.runtime import Opening
from chordesk.models.quotas import Quota
from tests.agents.codex.kit import METADATA, SCHEMA, Codex, deadline, one_turn, spec
from tests.fakes.responses import Cut, FakeResponses, Reply, Status


async def test_retry_after_is_what_the_app_server_waited(model: FakeResponses, codex: Codex) -> None:
    """The app-server does not pass the header on; it obeys it once, and that takes as long as the header asks."""
    model.policy = lambda _body: Status(429, {"error": {"message": "slow"}}, {"Retry-After": "2"})
    limited: list[tuple[float, float | None]] = []
    loop = asyncio.get_running_loop()
    async with codex() as runtime, runtime.conversation(spec(), deadline()) as conversation:
        began = loop.time()
        result = await conversation.turn(
            "?", SCHEMA, METADATA, on_limited=lambda reset: limited.append((loop.time() - began, reset))
        )
    assert result.failure is not None
    assert result.failure.kind == "rate_limited"
    assert result.failure.reset_seconds == pytest.approx(2, abs=0.5)
    ((after, reset),) = limited
    assert after < 1, "the first refusal is reported at once"
    assert reset is None


@pytest.mark.parametrize("provider", ["rulebook", "endpoint"])
async def test_a_plans_limit_ends_with_its_used_up_window(model: FakeResponses, codex: Codex, provider: str) -> None:
    """Straight from the app-server, whose text has whole minutes of local time, and through the gateway."""
    ends, told = int(time.time()) + 3 * 86_400, list[Quota]()
    windows = {
        "x-codex-primary-used-percent": "40",
        "x-codex-primary-window-minutes": "300",
        "x-codex-primary-reset-at": str(ends - 86_400),
        "x-codex-secondary-used-percent": "100",
        "x-codex-secondary-window-minutes": "10080",
        "x-codex-secondary-reset-at": str(ends),
    }
    error = {"type": "usage_limit_reached", "message": "The usage limit has been reached"}
    model.policy = lambda _body: Status(429, {"error": error}, windows)
    async with codex(on_quota=told.append, provider=provider) as runtime:
        result = await one_turn(runtime, spec())
        assert result.failure is not None
        assert result.failure.kind == "usage_limit"
        assert result.failure.reset_seconds == pytest.approx(ends - time.time(), abs=5)
        assert [(one.used, one.label) for one in told[0].windows] == [(40, "5 h window"), (100, "7 d window")]
        model.policy = lambda _body: Status(429, {"error": {**error, "resets_at": ends}})
        again = await one_turn(runtime, spec())
    assert again.failure is not None
    assert again.failure.reset_seconds == pytest.approx(ends - time.time(), abs=5)
    assert len(model.calls()) == 2


async def test_waiting_out_a_long_limit_is_no_silence(model: FakeResponses, codex: Codex) -> None:
    model.policy = lambda _body: Status(429, {"error": {"message": "slow"}}, {"Retry-After": "60"})
    async with codex(first_token_seconds=4.0) as runtime:
        result = await one_turn(runtime, spec())
    assert result.failure is not None
    assert (result.failure.kind, result.failure.reset_seconds) == ("rate_limited", None), "nobody said how long it is"


@pytest.mark.parametrize(
    ("reply", "most", "kind", "reset"),
    [
        (Status(500, {"error": {"message": "boom"}}), 5, "server_error", None),
        (Status(429, {"error": {"message": "slow"}}, {"Retry-After": "2"}), 2, "rate_limited", 2),
    ],
)
async def test_the_app_server_s_own_tries_with_a_login_are_few(
    model: FakeResponses, codex: Codex, tmp_path: Path, reply: Reply, most: int, kind: str, reset: float | None
) -> None:
    """Left alone it would ask 30 times and 6 times."""
    (tmp_path / "auth.json").write_text('{"auth_mode":"apikey","OPENAI_API_KEY":"sk-login"}')
    model.policy = lambda _body: reply
    flags = {"openai_base_url": model.url}
    async with codex(provider="codex", provider_url=None, login_home=tmp_path, flags=flags) as runtime:
        result = await one_turn(runtime, spec())
    assert result.failure is not None
    assert result.failure.kind == kind
    assert result.failure.reset_seconds == (reset and pytest.approx(reset, abs=0.8))
    assert len(model.calls()) <= most


def asked(model: FakeResponses) -> list[str]:
    """Return the user's messages of the thread, by the last request."""
    items = list(model.calls())[-1].body["input"]
    return [item["content"][0]["text"] for item in items if item.get("role") == "user"]


@pytest.mark.parametrize(
    ("opening", "reason", "remembered"),
    [
        ("same", "resumed", ["one", "two", "three"]),
        ("fork", "forked:retry", ["one", "three"]),
        ("fresh", "retry", ["three"]),
    ],
)
async def test_the_next_attempt_opens_a_kept_thread_as_its_policy_asks(
    model: FakeResponses, codex: Codex, opening: Opening, reason: str, remembered: list[str]
) -> None:
    kept = spec(keep=True)

    async def ask_once(runtime: Any, text: str, how: Opening = "same") -> tuple[str, str, str]:
        async with runtime.conversation(replace(kept, opening=how), deadline()) as conversation:
            result = await conversation.turn(text, SCHEMA, METADATA)
            return conversation.reason, conversation.thread_id, result.status

    async with codex() as runtime:
        _, first, _ = await ask_once(runtime, "one")
        model.script(*[Cut()] * 4)
        assert (await ask_once(runtime, "two"))[2] == "failed"
        model._replies.clear()
        why, thread, status = await ask_once(runtime, "three", opening)
        assert (why, status) == (reason, "completed")
        assert asked(model) == remembered
        assert (thread == first) is (opening == "same")
        why, later, _ = await ask_once(runtime, "four")
        assert (why, later) == ("resumed", thread), "the new thread has taken the old one's place"


async def test_a_thread_asked_for_while_it_is_being_unloaded_goes_on(codex: Codex) -> None:
    """Its resume may be answered before the unloading takes effect: then the turn finds no thread."""
    async with codex() as runtime:
        for number in range(10):
            kept = spec(keep=True, subject=f"S{number}")
            first = await one_turn(runtime, kept)
            second = await one_turn(runtime, kept)
            assert second.failure is None
            assert second.thread_id == first.thread_id
