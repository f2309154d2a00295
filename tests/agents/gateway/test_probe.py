"""What a model server can do, found out by real calls to one with the habits of real servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.gateway.probe import ODD, ask_server
from chordesk.tasks.doctor.model import table
from tests.fakes.local_server import Abilities, Call, Kind, LocalServer, Pace, Reply, Says
from tests.fakes.responses import Status
from tests.patience import PATIENCE

KINDS: tuple[Kind, ...] = ("llama.cpp", "ollama", "vllm", "lmstudio", "unknown")


async def asked(server: LocalServer, seconds: float = PATIENCE) -> ServerFacts:
    return await ask_server(server.url, None, server.model, seconds=seconds)


def says(reply: Reply) -> Says:
    assert isinstance(reply, Says)
    return reply


@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_that_does_all_it_is_asked(kind: Kind) -> None:
    with LocalServer(kind=kind, context=16_384, slots=3) as server:
        found = await asked(server)
    assert (found.server, found.models) == (kind, ("small",))
    assert (found.schema_way, found.tool_way, found.beside, found.parallel_tools) == (
        "json_schema",
        "native",
        True,
        True,
    )
    assert (found.streaming, found.usage, found.cached_tokens, found.reasoning) == (True, True, True, False)
    assert found.context == (None if kind == "unknown" else 16_384)
    assert found.slots == (3 if kind == "llama.cpp" else None)
    assert found.version == ("" if kind in ("lmstudio", "unknown") else "1.2.3")
    assert found.whole
    assert "schema_way" not in found.why
    assert "tool_way" not in found.why
    assert found.write_speed
    assert found.read_speed


@pytest.mark.parametrize(
    ("lacks", "way", "reasons"),
    [
        ({"schema": False}, "forced_tool", ["json_schema: ignored"]),
        ({"schema": False, "tools": False}, "json_object", ["json_schema: ignored", "forced_tool: ignored"]),
        (
            {"schema": False, "tools": False, "json_object": False},
            "words",
            ["json_schema: ignored", "forced_tool: ignored", "json_object: ignored"],
        ),
    ],
)
async def test_what_a_server_ignores_is_done_in_the_next_best_way(
    lacks: Mapping[str, bool], way: str, reasons: list[str]
) -> None:
    with LocalServer(abilities=replace(Abilities(), **lacks)) as server:
        found = await asked(server)
    assert found.schema_way == way
    assert all(reason in found.why["schema_way"] for reason in reasons)


async def test_a_refused_schema_is_no_error_of_the_server() -> None:
    with LocalServer() as server:
        able = server.able

        def policy(body: Mapping[str, Any]) -> Reply:
            return Status(400, {"error": {"message": "what is this"}}) if "response_format" in body else able(body)

        server.policy = policy
        found = await asked(server)
    assert found.schema_way == "forced_tool"
    assert "json_schema: refused, 400 what is this" in found.why["schema_way"]


async def test_a_template_without_tools_gets_them_by_the_schema() -> None:
    with LocalServer(abilities=Abilities(tools=False)) as server:
        found = await asked(server)
    assert (found.schema_way, found.tool_way, found.beside) == ("json_schema", "schema", None)
    assert "no tool was called: it wrote" in found.why["tool_way"]


@pytest.mark.parametrize("arguments", ['{"symbol": "ACME"', '["ACME"]', '{"price": 1}', ""])
async def test_calls_that_cannot_be_read_are_none(arguments: str) -> None:
    with LocalServer() as server:
        able = server.able
        server.policy = lambda body: Says(calls=(Call("get_price", arguments),)) if body.get("tools") else able(body)
        found = await asked(server)
    assert found.tool_way == "schema"
    assert "get_price" in found.why["tool_way"]


@pytest.mark.parametrize("habit", ["the schema keeps tools from being called", "tools make it forget the schema"])
async def test_a_schema_and_tools_that_do_not_go_together(habit: str) -> None:
    """Ollama has the first habit, servers of #19051 the second."""
    with LocalServer() as server:
        able = server.able

        def policy(body: Mapping[str, Any]) -> Reply:
            both = "tools" in body and "response_format" in body
            if both and habit.startswith("the schema"):
                return able({**body, "tools": []})
            return able({**body, "response_format": None} if both else body)

        server.policy = policy
        found = await asked(server)
    assert (found.schema_way, found.tool_way, found.beside) == ("json_schema", "native", False)
    assert found.why["beside"].startswith(
        "no tool was called beside a schema" if habit.startswith("the schema") else "the schema is dropped"
    )


async def test_an_answer_in_one_piece_is_no_stream() -> None:
    with LocalServer() as server:
        able = server.able
        server.policy = lambda body: replace(says(able(body)), stream=False)
        found = await asked(server)
    assert found.streaming is False
    assert "one piece" in found.why["streaming"]
    assert (found.schema_way, found.tool_way, found.usage) == ("json_schema", "native", True)


@pytest.mark.parametrize("thinks", ["tags", "field"])
async def test_a_model_that_reasons_gets_room_for_it(thinks: Any) -> None:
    with LocalServer(kind="unknown", abilities=Abilities(thinks=thinks)) as server:
        found = await asked(server)
        room = [seen.body["max_tokens"] for seen in server.chats()]
    assert found.reasoning is True
    assert (found.schema_way, found.tool_way) == ("json_schema", "native")
    assert room[0] < room[1]


@pytest.mark.parametrize("kind", ["llama.cpp", "ollama", "unknown"])
@pytest.mark.parametrize("images", [True, False, None])
async def test_pictures_are_claimed_where_they_are_seen(kind: Kind, images: bool | None) -> None:
    with LocalServer(kind=kind, abilities=Abilities(images=images)) as server:
        able = server.able

        def policy(body: Mapping[str, Any]) -> Reply:
            sees = isinstance(body["messages"][0]["content"], list) and images
            return Says("It is red.") if sees else able(body)

        server.policy = policy
        found = await asked(server)
    assert found.images is (images if kind == "unknown" else images is True)
    assert ("images" in found.why) is not (images is True)


@pytest.mark.parametrize(("kind", "way"), [("llama.cpp", "json_schema"), ("unknown", "words")])
async def test_a_server_that_reasons_in_silence_is_not_waited_for(kind: Kind, way: str) -> None:
    with LocalServer(kind=kind, pace=Pace(first=PATIENCE, heartbeat=0.1)) as server:
        found = await asked(server, seconds=1)
        calls = len(server.chats())
    assert calls == 1
    assert (found.schema_way, found.tool_way, found.whole) == (way, "schema", False)
    assert (found.streaming, found.usage, found.reasoning) == (None, None, None)
    assert set(found.why) > {"streaming", "usage", "schema_way", "tool_way", "read_speed", "write_speed"}


async def test_tools_that_are_called_where_they_are_forced_alone() -> None:
    with LocalServer() as server:
        able = server.able
        server.policy = lambda body: Says("Paris") if body.get("tool_choice") == "auto" else able(body)
        found = await asked(server)
    assert found.tool_way == "schema"
    assert found.why["tool_way"] == "a tool is called where it is forced, and only there"


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 10**12, "completion_tokens": -1}, {"prompt_tokens": "7"}]
)
async def test_usage_that_is_missing_or_absurd(usage: Mapping[str, Any] | None) -> None:
    with LocalServer() as server:
        able = server.able

        server.policy = lambda body: replace(says(able(body)), usage=usage)
        found = await asked(server)
    assert (found.usage, found.cached_tokens) == (False, False)
    assert found.why["usage"]


async def test_the_dialect_of_a_server_is_found() -> None:
    with LocalServer() as server:

        def written(body: Mapping[str, Any]) -> Reply:
            reply = server.able(body)
            if not isinstance(reply, Says) or not reply.calls or len(body["tools"]) < 2:
                return reply
            calls = [f'{{"name":"functions.{call.name}","arguments":{call.arguments}}}' for call in reply.calls]
            return Says("".join(f"<tool_call>{call}</tool_call>" for call in calls))

        server.policy = written
        found = await asked(server)
    assert (found.tool_way, found.parallel_tools, found.beside) == ("native", True, True)
    assert found.dialect == ("a call in the text, as <tool_call>", "read from the name 'functions.NAME'")
    assert "in a dialect: a call in the text, as <tool_call>" in table(found)


async def test_what_a_server_keeps_to_of_a_schema_is_found() -> None:
    """Also where it refuses some of it, and long enumerations."""
    with LocalServer() as server:
        able = server.able
        found = await asked(server)
        assert (found.keywords, found.choices) == (("lengths", "bounds", "items", "patterns"), 200)

        def refusing(body: Mapping[str, Any]) -> Reply:
            wanted = str(body.get("response_format"))
            no = "minLength" in wanted or "pattern" in wanted or wanted.count(ODD) > 100
            return Status(400, {"error": {"message": "not supported"}}) if no else able(body)

        server.policy = refusing
        found = await asked(server)
    assert (found.schema_way, found.keywords, found.choices) == ("json_schema", ("bounds", "items"), 40)
    assert "not kept to: lengths, patterns" in found.why["keywords"]
    assert "bounds, items, enumerations of 40" in table(found)
