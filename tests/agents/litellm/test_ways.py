"""Ways to an answer: a server that ignores or refuses one is asked in the next best, once for each model of a
worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chordesk.agents.runtime import TurnResult
from tests.agents.codex.kit import SCHEMA, run
from tests.agents.litellm.kit import LOCAL, one_turn, running, spec
from tests.agents.observed import Seen
from tests.fakes import local_server
from tests.fakes.local_server import PROSE, Abilities, LocalServer, Says
from tests.fakes.responses import Status

WHOLE = '{"ok":true}'


@pytest.fixture
def server(server: LocalServer) -> LocalServer:
    server.abilities = Abilities(tools=False)
    return server


def turns(count: int = 1, observer: Seen | None = None) -> list[TurnResult]:
    """Turns of one worker, each in a conversation of its own."""
    found: list[TurnResult] = []

    async def work() -> None:
        async with running(observer) as runtime:
            for _ in range(count):
                found.append(await one_turn(runtime, spec(model=LOCAL)))

    run(work())
    return found


def asked(server: LocalServer) -> list[str]:
    """The ways in which the server was asked."""
    found = []
    for body in (one.body for one in server.chats()):
        choice, wanted = body["tool_choice"], body.get("response_format") or {}
        found.append("forced_tool" if isinstance(choice, dict) else wanted.get("type") or choice)
    return found


def in_words(body: Any) -> bool:
    """Whether a request says its schema in words."""
    return json.dumps(SCHEMA, separators=(",", ":")) in json.dumps(body["messages"]).replace("\\", "").replace(" ", "")


def test_a_server_whose_template_has_no_tools_is_asked_by_its_schema(server: LocalServer) -> None:
    """It writes prose whatever tool is forced; that is found once."""
    first, second = turns(2)
    for result in (first, second):
        assert result.status == "completed"
        assert set(json.loads(result.text)) == {"ok"}
        assert result.way == "answer by json_schema"
    assert asked(server) == ["auto", "forced_tool", "json_schema", "auto", "json_schema"]
    last = server.chats()[-1].body
    assert last["response_format"]["json_schema"] == {"name": "answer", "strict": True, "schema": SCHEMA}
    assert in_words(last)
    roles = [one["role"] for one in last["messages"]]
    assert roles == ["system", "user", "assistant", "user"]


def test_a_server_that_ignores_the_schema_too_is_asked_in_words(server: LocalServer) -> None:
    server.abilities = Abilities(tools=False, schema=False, json_object=False)
    able = server.able

    def policy(body: local_server.Body) -> local_server.Reply:
        return Says(f"Here it is:\n```json\n{WHOLE}\n```") if asked(server)[-1] == "none" else able(body)

    server.policy = policy
    (result,) = turns()
    assert (result.text, result.way) == (WHOLE, "answer by words")
    assert asked(server) == ["auto", "forced_tool", "json_schema", "json_object", "none"]
    assert in_words(server.chats()[-1].body)


@pytest.mark.parametrize(
    ("refused", "message", "ways"),
    [
        ({"forced_tool"}, "Invalid tool_choice type: 'object'. Supported string values: none, auto", "json_schema"),
        ({"forced_tool", "json_schema"}, "This response_format type is unavailable now", "json_object"),
    ],
)
def test_a_server_that_refuses_a_way_is_asked_in_the_next(
    server: LocalServer, refused: set[str], message: str, ways: str
) -> None:
    error = {"error": {"message": message, "type": "invalid_request_error"}}

    def policy(body: local_server.Body) -> local_server.Reply:
        way = asked(server)[-1]
        return Status(400, error) if way in refused else Says(PROSE if way == "auto" else WHOLE)

    server.policy = policy
    seen = Seen()
    first, second = turns(2, seen)
    assert [one.text for one in (first, second)] == [WHOLE, WHOLE]
    assert first.way == f"answer by {ways}"
    assert asked(server) == ["auto", "forced_tool", *sorted(refused - {"forced_tool"}), ways, "auto", ways]
    assert [one["will_retry"] for one in seen.payloads("turn.error")] == [True] * len(refused)


def test_a_server_that_refuses_tools_is_named_with_a_remedy(server: LocalServer) -> None:
    text = "registry.ollama.ai/library/small:latest does not support tools"
    server.script(Status(400, {"error": {"message": text, "type": "api_error"}}))
    (result,) = turns()
    assert result.failure is not None
    assert "does not support tools; give this role local:MODEL" in result.failure.message
    assert len(server.chats()) == 1
