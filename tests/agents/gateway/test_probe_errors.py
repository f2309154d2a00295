"""URLs that are no model server of the desk: each is named with what to set."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from chordesk.agents.gateway.probe import ask_server, look_at_endpoint, look_at_server
from chordesk.models.errors import DeskError, KeyRefused, ModelMissing, ModelServerError, ServerAway, WrongApi
from tests.fakes.local_server import HTML, LocalServer, Pace, Raw, Reply, Says
from tests.fakes.responses import Status

NOWHERE = Status(404, {"error": "404 page not found"})
LOADING = Status(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})
REFUSED = Status(401, {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}})
WITHOUT = Status(400, {"error": {"message": "'input' is required"}})
MODELS, CHAT, RESPONSES = "/v1/models", "/v1/chat/completions", "/v1/responses"


async def error_of(server: LocalServer, url: str = "", model: str = "small") -> DeskError:
    with pytest.raises(DeskError) as found:
        await ask_server(url or server.url, None, model)
    return found.value


@pytest.mark.parametrize(
    ("pages", "kind", "text", "remedy"),
    [
        ({MODELS: HTML, CHAT: HTML}, WrongApi, "a page for browsers", "DESK_PROVIDER_URL"),
        (
            {MODELS: HTML, CHAT: Raw(b"<html><title>Open WebUI</title>", "text/html")},
            WrongApi, "a page for browsers (Open WebUI)", "such as http://127.0.0.1:11434/v1",
        ),
        ({MODELS: NOWHERE, CHAT: NOWHERE}, WrongApi, "it answers 404 404 page not found", "DESK_PROVIDER_URL"),
        ({CHAT: NOWHERE, RESPONSES: WITHOUT}, WrongApi, "the Responses API and no chat", "DESK_PROVIDER=endpoint"),
        ({MODELS: REFUSED, CHAT: REFUSED}, KeyRefused, "refuses the key: 401 Invalid API Key", "DESK_PROVIDER_KEY"),
        ({CHAT: REFUSED}, KeyRefused, "refuses the key", "DESK_PROVIDER_KEY"),
        ({MODELS: LOADING, CHAT: LOADING}, ServerAway, "is not ready: 503 Loading model", "wait"),
        (
            {MODELS: Status(302, {}, {"location": "https://elsewhere.test/v1/models"}), CHAT: Status(302, {})},
            WrongApi, "redirects", "follow",
        ),
        ({CHAT: Status(500, {"error": "out of memory"})}, ModelServerError, "500 out of memory", "log"),
        ({CHAT: Raw(b'{"answer": 42}', "application/json")}, ModelServerError, "fails to answer for small", "log"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_said_with_the_remedy(
    pages: Mapping[str, Reply], kind: type[DeskError], text: str, remedy: str
) -> None:
    with LocalServer(kind="unknown") as server:
        server.pages.update(pages)
        error = await error_of(server)
    assert isinstance(error, kind)
    assert server.url in str(error)
    assert text in str(error)
    assert remedy in str(error)


PLAIN_KEY = "correct-horse-battery"  # unlike any key's form, so that only who sent it can know it
QUOTED = {"error": {"message": f"the key {PLAIN_KEY} is wrong"}}


@pytest.mark.parametrize(
    "reply",
    [
        Status(401, QUOTED), Status(400, QUOTED), Status(500, QUOTED), Status(429, QUOTED),
        Status(307, {}, {"location": f"http://elsewhere.test/{PLAIN_KEY}"}), Says(f"You sent {PLAIN_KEY}."),
        Raw(f"<html><title>{PLAIN_KEY}</title>".encode(), "text/html"),
    ],
)  # fmt: skip
async def test_a_key_that_a_server_quotes_is_neither_told_nor_kept(reply: Reply) -> None:
    with LocalServer(kind="unknown") as server:
        server.pages[CHAT] = reply
        try:
            found = (await ask_server(server.url, PLAIN_KEY, "small")).model_dump_json()
        except DeskError as error:
            found = str(error)
    assert PLAIN_KEY not in found


async def test_a_server_behind_a_proxy_is_asked_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalServer(kind="unknown") as server:
        monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
        await look_at_server("http://models.invalid/v1", None, "small")
        assert server.requests


@pytest.mark.parametrize("tail", ["", "/v1/chat/completions", "/v1/models", "/api", "/v1/v1"])
async def test_a_url_beside_the_base_gets_the_right_one(tail: str) -> None:
    with LocalServer(kind="ollama") as server:
        error = await error_of(server, server.root + tail)
        assert isinstance(error, WrongApi)
        assert error.remedy == f"set DESK_PROVIDER_URL={server.url}"


async def test_a_server_that_is_not_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v1"
    with pytest.raises(ServerAway, match="cannot be reached: Connect") as found:
        await look_at_server(url, None, "small")
    assert found.value.retryable
    assert "start the server" in found.value.remedy


async def test_a_login_in_the_url_is_not_shown() -> None:
    with pytest.raises(ServerAway) as found:
        await look_at_server("http://me:secret@127.0.0.1:9/v1", None, "small")
    assert "secret" not in str(found.value)


@pytest.mark.parametrize("kind", ["ollama", "vllm", "lmstudio", "unknown"])
async def test_a_model_that_the_server_lacks_comes_with_those_it_has(kind: str) -> None:
    with LocalServer(kind=kind, models=["small", "large:8b"]) as server:  # type: ignore[arg-type]
        error = await error_of(server, model="huge:70b")
        assert not server.chats()
    assert isinstance(error, ModelMissing)
    assert "has no model huge:70b; it has small, large:8b" in str(error)
    assert ("ollama pull huge:70b" in error.remedy) is (kind == "ollama")
    assert "DESK_MODEL" in error.remedy


async def test_an_answer_to_no_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chordesk.agents.gateway.server_description.LOOK_SECONDS", 0.2)
    silent = socket.create_server(("127.0.0.1", 0))
    with silent, pytest.raises(ServerAway, match=r"did not answer within 0\.2 s"):
        await look_at_server(f"http://127.0.0.1:{silent.getsockname()[1]}/v1", None, "small")


async def test_a_look_asks_for_no_answer() -> None:
    with LocalServer(kind="ollama", context=8192, pace=Pace(first=60)) as server:
        found = await look_at_server(server.url, "a-key", "small")
        assert not server.chats()
        assert {seen.headers["authorization"] for seen in server.requests} == {"Bearer a-key"}
    assert (found.server, found.context, found.slots, found.models) == ("ollama", 8192, None, ("small",))
    assert (found.schema_way, found.tool_way, found.whole) == ("json_schema", "schema", False)
    assert "taken as 1" in found.why["slots"]


async def test_a_server_without_a_list_of_models_says_by_itself_that_one_is_missing() -> None:
    with LocalServer(kind="unknown") as server:
        server.pages[MODELS] = NOWHERE
        assert isinstance(await error_of(server, model="huge"), ModelMissing)
        assert (await ask_server(server.url, None, "small")).models == ()


ONCE = Raw(b"Internal Server Error", "text/plain", 500)


async def test_a_server_that_fails_at_an_empty_request_has_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once is no reason not to start; one that fails at whatever it is asked is named as that."""
    with LocalServer(kind="unknown") as server:
        server.pages = {RESPONSES: ONCE}
        await look_at_endpoint(server.url, None)
        server.pages = {MODELS: ONCE, CHAT: ONCE}
        assert (await look_at_server(server.url, None, "small")).models == ()
        server.pages = {RESPONSES: ONCE, f"{RESPONSES}-of-nobody": ONCE}
        with pytest.raises(ServerAway, match="the probe got 500 from"):
            await look_at_endpoint(server.url, None)
        server.pages = {RESPONSES: WITHOUT}
        monkeypatch.setattr(server, "_page", Stumbling(server._page))
        await look_at_endpoint(server.url, None)


class Stumbling:
    """Answers once with a 500, then as the server does."""

    def __init__(self, then: Callable[..., Reply]) -> None:
        self.then, self.left = then, 1

    def __call__(self, *given: Any) -> Reply:
        self.left -= 1
        return ONCE if self.left >= 0 else self.then(*given)
