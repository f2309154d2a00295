"""What the pre-flight says of model servers, and of a model that did not answer as it should."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.gateway.facts import known_facts
from chordesk.agents.providers.liveness import RAISE
from chordesk.models.errors import KeyRefused
from chordesk.tasks.doctor import model
from chordesk.tasks.doctor.check import Check, CheckStatus
from chordesk.tasks.engine.policy import POLICY
from tests.fakes.local_server import HTML, Abilities, Body, LocalServer, Pace, Reply, Says
from tests.fakes.responses import FakeResponses, Status
from tests.tasks.doctor.test_doctor import check_context, one

NOWHERE = Status(404, {"detail": "Not Found"})


def checked(home: Path, server: LocalServer, name: str = "server", **settings: Any) -> Check:
    own = {"provider": "local", "provider_url": server.url, "model": "small"}
    return one(name, check_context(home, **{**own, **settings}))


def labelled(check: Check) -> dict[str, str]:
    """Return the findings of a table by their labels."""
    lines = check.detail.splitlines()[1:]
    return {line[: model.WIDTH].strip(): line[model.WIDTH :] for line in lines}


def test_a_capable_server_is_described_and_its_facts_are_kept(tmp_path: Path) -> None:
    with LocalServer(context=16_384, slots=2) as server:
        found = checked(tmp_path, server)
        assert known_facts(tmp_path, server.url, "small") is not None
        head = f"small on llama.cpp 1.2.3 at {server.url}"
    assert (found.status, found.remedy) == (CheckStatus.OK, "")
    assert found.detail.splitlines()[0] == head
    told = labelled(found)
    assert (told.pop("reads")[-15:], told.pop("writes")[-15:]) == ("tokens a second", "tokens a second")
    assert told == {
        "answers": "held to the JSON schema by the server (response_format)",
        "tools": "the server's own tool calls",
        "both": "together",
        "parallel": "yes",
        "context": "16,384 tokens",
        "at once": "2 turns",
        "images": "yes",
        "reasoning": "none seen",
        "streaming": "yes",
        "usage": "yes",
        "cache": "yes",
        "bounds": "lengths, bounds, items, patterns, enumerations of 200",
    }


def test_weak_ways_are_warnings_with_their_reasons(tmp_path: Path) -> None:
    can = Abilities(schema=False, json_object=False, tools=False, images=False)
    with LocalServer(kind="unknown", abilities=can) as server:
        able = server.able
        server.policy = lambda body: Says(able(body).text, stream=False, usage=None)  # type: ignore[union-attr]
        found = checked(tmp_path, server)
    told = labelled(found)
    assert found.status is CheckStatus.WARN
    assert told["answers"].startswith("the schema in words, one repair (json_schema: ignored, it wrote")
    assert told["tools"].startswith("put into the answer's schema (no tool was called")
    assert told["context"] == "unknown (the server does not say it in /models)"
    assert told["at once"] == "unknown (the server does not say how many turns it works on at once: taken as 1)"
    assert "server of an unknown kind" in found.detail
    for remedy in (
        "answers may not fit",
        "template has tools",
        "context is unknown",
        "DESK_FIRST_TOKEN_SECONDS",
        "usage",
    ):
        assert remedy in found.remedy


def test_a_server_that_is_too_slow_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "ASK_SECONDS", 1.0)
    monkeypatch.setattr(model, "LEAST_SECONDS", 1.0)
    with LocalServer(pace=Pace(first=30, heartbeat=0.2)) as server:
        found = checked(tmp_path, server)
    assert found.status is CheckStatus.WARN
    assert labelled(found)["streaming"] == "not found out (one call was not answered within 0.5 s)"
    assert "the server is slow" in found.remedy


@pytest.mark.parametrize(
    ("pages", "detail", "remedy"),
    [
        ({"/v1/models": HTML, "/v1/chat/completions": HTML}, "a page for browsers", "DESK_PROVIDER_URL"),
        ({"/v1/chat/completions": Status(401, {"error": "no"})}, "refuses the key", KeyRefused.remedy),
        (
            {"/v1/models": Status(200, {"data": [{"id": "a"}, {"id": "b"}]})},
            "no model small; it has a, b",
            "DESK_MODEL",
        ),
    ],
)
def test_a_server_that_is_none_fails_with_the_remedy(
    tmp_path: Path, pages: Mapping[str, Reply], detail: str, remedy: str
) -> None:
    with LocalServer(kind="unknown") as server:
        server.pages.update(pages)
        found = [checked(tmp_path, server, name) for name in ("server", "model")]
    for check in found:
        assert check.status is CheckStatus.FAIL
        assert detail in check.detail
        assert remedy in check.remedy


def test_a_role_of_a_local_server_beside_another_provider(tmp_path: Path) -> None:
    with LocalServer(kind="ollama", models=["small", "qwen3:8b"]) as server:
        own = {"provider": "rulebook", "provider_url": None, "local_url": server.url}
        found = checked(tmp_path, server, **own, role_models="trader=local:small;risk=local:qwen3:8b")
        assert found.status is CheckStatus.OK
        assert found.detail.count("on ollama 1.2.3 at") == 2
        found = checked(tmp_path, server, **own, role_models="trader=local:huge")
    assert found.status is CheckStatus.FAIL
    assert found.remedy == "run `ollama pull huge`, or set DESK_ROLE_MODELS to one of them"


@pytest.mark.parametrize("name", ["server", "model"])
def test_an_endpoint_with_chat_completions_alone_is_a_model_server(tmp_path: Path, name: str) -> None:
    with LocalServer(kind="vllm") as server:
        found = checked(tmp_path, server, name, provider="endpoint")
    assert found.status is CheckStatus.FAIL
    assert found.detail == f"{server.url} has chat completions and no Responses API"
    assert found.remedy == f"use DESK_PROVIDER=local with DESK_PROVIDER_URL={server.url}"


@pytest.mark.parametrize(
    ("page", "detail"), [(HTML, "answers with a page for browsers"), (NOWHERE, "has no Responses API: it answers 404")]
)
def test_an_endpoint_that_is_none(tmp_path: Path, page: Reply, detail: str) -> None:
    with LocalServer() as server:
        server.pages = {f"{start}{end}": page for start in ("/v1", "") for end in ("/responses", "/chat/completions")}
        found = checked(tmp_path, server, provider="endpoint")
    assert found.status is CheckStatus.FAIL
    assert detail in found.detail
    assert "DESK_PROVIDER_URL" in found.remedy


def _endless(_body: Body) -> Says:
    return Says("never ending ", end="endless", bounded=False)


@pytest.mark.parametrize(
    ("habit", "limits", "kind", "remedy"),
    [
        (lambda _body: Says("late", pace=Pace(first=60)), {"first_token_seconds": 1}, "no_first_token", "first_token"),
        (_endless, {"output_tokens": 50}, "length", "output"),
    ],
)  # fmt: skip
def test_a_turn_that_a_limit_ended_names_what_to_set(
    tmp_path: Path, habit: Callable[[Body], Says], limits: Mapping[str, float], kind: str, remedy: str
) -> None:
    with LocalServer() as server:
        context = check_context(tmp_path, provider="local", provider_url=server.url, model="small", **limits)
        model.facts_now(context, "small")
        server.policy = habit
        found = one("model", context)
    assert found.status is CheckStatus.FAIL
    assert found.detail.startswith(f"{kind}: "), found
    assert RAISE[remedy] in found.remedy
    assert RAISE[remedy] not in found.detail


def test_a_context_that_is_too_small_names_what_to_set(tmp_path: Path) -> None:
    with LocalServer(kind="vllm", context=2048) as server:
        able, told = server.able, "This model's maximum context length is 2048 tokens, and you have 9000 input tokens."

        def policy(body: Body) -> Reply:
            long = len(body["messages"][0]["content"]) > 2000
            return Status(400, {"error": {"message": told}}) if long else able(body)

        server.policy = policy
        found = checked(tmp_path, server, "model")
    assert found.status is CheckStatus.FAIL, found
    assert "2,048 tokens" in found.detail
    assert "larger context" in found.remedy


def test_every_failure_of_a_provider_or_model_has_a_remedy_of_its_own() -> None:
    of_others = {"policy", "unknown"}
    kinds = list(POLICY)
    wanted = set(kinds[: kinds.index("process_died")]) | {"timeout", "no_first_token", "silent", "length"}
    assert wanted - of_others <= set(model.REMEDIES)


def test_a_name_that_is_not_the_models_is_a_warning(tmp_path: Path) -> None:
    with LocalServer(model="other.gguf") as server:
        found = checked(tmp_path, server)
    assert found.status is CheckStatus.WARN
    assert "set DESK_MODEL=other.gguf" in found.remedy


def test_an_endpoint_is_asked_for_no_answer(tmp_path: Path) -> None:
    with FakeResponses() as far:
        found = one("server", check_context(tmp_path, provider="endpoint", provider_url=far.url, model="gpt-5.5"))
        assert [seen.body for seen in far.calls()] == [{}]
    assert (found.status, found.detail) == (CheckStatus.OK, f"{far.url} has a Responses API")


def test_an_endpoint_without_its_v1(tmp_path: Path) -> None:
    with LocalServer(kind="unknown") as server:
        server.pages["/v1/responses"] = Status(400, {"error": {"message": "'input' is required"}})
        found = checked(tmp_path, server, provider="endpoint", provider_url=server.root)
    assert found.remedy == f"set DESK_PROVIDER_URL={server.url}"


def test_a_turn_on_a_local_model_says_how_long_it_took(tmp_path: Path) -> None:
    with LocalServer(pace=Pace(first=1.2)) as server:
        found = checked(tmp_path, server, "model")
    assert found.status is CheckStatus.OK, found
    assert "local:small answered in" in found.detail
    assert "of them written at" in found.detail
