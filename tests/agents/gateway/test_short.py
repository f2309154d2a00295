"""Answers that do not end by themselves: noticed early, and ended by bounds in the schema that the server keeps to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.gateway.stream import SHORT_CHARS, SHORT_ITEMS, repeated, shortened
from tests.agents.codex.kit import FINAL, SCHEMA, Kit, one_turn
from tests.agents.gateway.kit import Asked, NoTools, asks, local
from tests.agents.gateway.test_chat import ANSWER, QUOTES
from tests.fakes.local_server import Call, LocalServer, Reply, Says
from tests.fakes.responses import Status

ROWS = ",".join(json.dumps({"symbol": f"S{number}", "close": number / 7}) for number in range(60))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"symbols":[' + '"AAPL",' * 100, '"AAPL",'),
        ('{"why":"' + "and is available in the marketplace, " * 20, "and is available in the marketplace, "),
        ("\n" * 700, "\n"),
        ("so it is. " * 30, None),
        (ROWS, None),
        ("", None),
    ],
)
def test_what_is_said_again_and_again(text: str, found: str | None) -> None:
    told = repeated(text)
    assert told is found is None or (told is not None and found is not None and sorted(told) == sorted(found))


def test_every_text_and_list_gets_an_end_and_nothing_else_changes() -> None:
    free: dict[str, Any] = {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "verdict": {"type": "string", "enum": ["YES", "NO"]},
            "day": {"type": "string", "format": "date"},
            "risks": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Risk"}},
            "many": {"type": "array", "minItems": 6, "items": {"type": "number"}},
        },
        "required": ["type"],
        "additionalProperties": False,
        "$defs": {"Risk": {"anyOf": [{"type": "string", "maxLength": 20}, {"type": "null"}]}},
    }
    short = shortened(free)
    names: dict[str, Any] = short["properties"]
    assert names["type"] == {"type": "string", "maxLength": SHORT_CHARS}
    assert names["risks"] == {**free["properties"]["risks"], "maxItems": SHORT_ITEMS}
    assert names["many"]["maxItems"] == 6
    assert {key: names[key] for key in ("verdict", "day")} == {
        key: free["properties"][key] for key in ("verdict", "day")
    }
    assert short["$defs"] == free["$defs"]
    assert {**short, "properties": free["properties"]} == free


@pytest.mark.parametrize("tools", [True, False])
def test_an_answer_that_says_the_same_for_ever_is_asked_for_again_and_ends(
    tools: bool, server: LocalServer, asked: Asked
) -> None:
    """The server is stopped after a page, not when its context is full."""
    loop = Says('{"ok":true,"why":"' + "so it is, " * 2_000, end="endless", bounded=False)
    result = asked(loop, ANSWER, tools=Kit() if tools else NoTools())
    assert (result.status, result.text, result.cut) == ("completed", FINAL, False)
    assert result.way is not None
    assert result.way.endswith("; cut off, and asked again for a short one")
    assert server.left == 1
    assert result.usage.output_tokens is not None
    assert 150 < result.usage.output_tokens < 1_000
    assert result.usage.input_tokens is not None
    assert result.context_tokens == result.usage.input_tokens // 2  # both were read, and the thread holds one
    first, second = (seen.body for seen in server.chats())
    assert second["response_format"]["json_schema"]["schema"]["properties"]["ok"] == {"type": "boolean"}
    assert second.get("tool_choice") == ("none" if tools else None)
    assert second["messages"] == first["messages"]


@pytest.mark.parametrize("way", ["native", "schema"])
def test_a_model_that_makes_the_same_call_again_and_again_has_to_answer(
    way: str, server: LocalServer, asked: Asked
) -> None:
    wish = json.dumps({"reply": {"tool_calls": [{"name": QUOTES.name, "arguments": json.loads(QUOTES.arguments)}]}})
    call = Says(calls=(QUOTES,)) if way == "native" else Says(wish)
    last = ANSWER if way == "native" else Says('{"reply":{"answer":{"ok":true}}}')
    kit = Kit()
    result = asked(call, call, call, last, tools=kit, tool_way=way)
    assert (result.status, result.text, len(kit.calls)) == ("completed", FINAL, 3)
    bodies = [seen.body for seen in server.chats()]
    if way == "native":
        assert [body.get("tool_choice") for body in bodies] == [None, None, None, "none"]
    else:
        replies = [body["response_format"]["json_schema"]["schema"]["properties"]["reply"] for body in bodies]
        assert ["anyOf" in reply for reply in replies] == [True, True, True, False]
    assert all(body["messages"][0] == bodies[0]["messages"][0] for body in bodies)


def test_a_context_that_is_nearly_full_has_room_for_an_answer_alone(server: LocalServer, asked: Asked) -> None:
    long = Call("quotes_get", json.dumps({"symbols": [f"A{number}" for number in range(400)]}))
    result = asked(Says(calls=(long,)), ANSWER, context=3_000)
    assert (result.status, result.text) == ("completed", FINAL)
    assert [seen.body.get("tool_choice") for seen in server.chats()] == [None, "none"]


def test_a_call_without_end_in_words_ends_in_an_answer(server: LocalServer, asked: Asked) -> None:
    loop = Says('{"reply":{"tool_calls":[{"name":"quotes_get","arguments":{"symbols":[' + '"ACME",' * 500)
    kit = Kit()
    result = asked(loop, Says('{"reply":{"answer":{"ok":true}}}'), tools=kit, tool_way="schema")
    assert (result.text, result.cut, kit.calls) == (FINAL, False, [])
    schema = server.chats()[1].body["response_format"]["json_schema"]["schema"]
    assert list(schema["properties"]["reply"]["properties"]) == ["answer"]


async def test_bounds_that_a_server_refuses_are_left_out(server: LocalServer, tmp_path: Path, registry: str) -> None:
    """Also where they were found to be kept to: the turn goes on, and later ones do not ask for them."""
    able = server.able

    def refusing(body: Mapping[str, Any]) -> Reply:
        no = "minLength" in str(body.get("response_format"))
        return Status(400, {"error": {"message": "minLength is not supported"}}) if no else able(body)

    server.policy = refusing
    bounded = {**SCHEMA, "properties": {"ok": {"type": "boolean"}}, "minLength": 1}
    async with local(server, tmp_path, registry, facts={"keywords": ("lengths",)}) as runtime:
        for asked in (2, 1):
            server.requests.clear()
            result = await one_turn(runtime, replace(asks(tools=NoTools()), bounded=bounded))
            assert (result.status, len(server.chats())) == ("completed", asked)
