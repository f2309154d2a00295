"""Turns of the real app-server on a server of chat completions: how it is asked, and what is made of its answers."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from chordesk.models.answers import Usage
from chordesk.tools.registry import ToolAnswer, ToolImage
from tests.agents.codex.kit import FINAL, SCHEMA, Kit, one_turn
from tests.agents.gateway.kit import Asked, NoTools, asks, local
from tests.fakes.local_server import Call, LocalServer, Says

ANSWER = Says(FINAL)
QUOTES = Call("quotes_get", '{"symbols":["ACME"]}')
SCHEMA_ASKED = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}


def test_a_turn_without_tools_asks_for_the_schema_at_once(server: LocalServer, asked: Asked) -> None:
    result = asked(ANSWER, tools=NoTools())
    assert (result.status, result.text, result.failure, result.cut) == ("completed", FINAL, None, False)
    assert result.way == "chat completions; answer by json_schema; tools by native"
    (seen,) = server.chats()
    assert seen.body["response_format"] == SCHEMA_ASKED
    system, user = seen.body["messages"]
    assert system["role"] == "system"
    assert system["content"].startswith("Role: quick\nBe brief.\n\n")
    assert json.dumps(SCHEMA, separators=(",", ":")) in system["content"]
    assert user == {"role": "user", "content": "What of ACME?"}
    assert (seen.body["stream"], seen.body["max_tokens"]) == (True, 8000)
    assert not {"tools", "tool_choice", "reasoning_effort", "parallel_tool_calls"} & seen.body.keys()
    read = result.usage.input_tokens
    assert read is not None
    assert result.usage == Usage(
        input_tokens=read, cached_input_tokens=read // 2, output_tokens=3, reasoning_tokens=0, total_tokens=read + 3
    )


def test_tools_are_called_and_an_answer_that_fits_is_asked_for_once(server: LocalServer, asked: Asked) -> None:
    tools = Kit()
    result = asked(Says(calls=(QUOTES,)), Says(f"So it is:\n```json\n{FINAL}\n```"), tools=tools)
    assert (result.text, tools.calls) == (FINAL, [("quotes_get", {"symbols": ["ACME"]})])
    assert str(result.way).endswith("; the answer was taken out of a text")
    first, second = server.chats()
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["quotes_get"]
    assert "response_format" not in first.body | second.body
    call, output = second.body["messages"][-2:]
    assert call["tool_calls"][0]["function"] == {"name": "quotes_get", "arguments": QUOTES.arguments}
    assert (output["role"], output["tool_call_id"]) == ("tool", call["tool_calls"][0]["id"])
    assert json.loads(output["content"]) == {"echo": {"symbols": ["ACME"]}}
    assert second.body["messages"][:2] == first.body["messages"]


def test_a_text_that_does_not_fit_is_asked_for_again_with_the_same_beginning(server: LocalServer, asked: Asked) -> None:
    result = asked(Says("It is fine, I think."), ANSWER)
    assert (result.status, result.text) == ("completed", FINAL)
    assert result.way is not None
    assert result.way.endswith("; asked again for the schema")
    first, second = (seen.body for seen in server.chats())
    assert {**first, "response_format": SCHEMA_ASKED, "tool_choice": "none"} == second
    read = [sum(len(message["content"]) for message in first["messages"])]
    assert result.usage.input_tokens is not None
    assert result.usage.input_tokens > 2 * read[0] // 4  # both calls are counted


@pytest.mark.parametrize(("reply", "left"), [(Says("word ", end="endless", bounded=False), 1), (Says("x " * 200), 0)])
def test_a_prose_without_end_is_asked_for_again_in_time(
    reply: Says, left: int, server: LocalServer, asked: Asked
) -> None:
    """The server is stopped long before its answer is as long as it may be, and the schema is asked for."""
    result = asked(reply, ANSWER)
    assert (result.status, result.text, result.cut) == ("completed", FINAL, False)
    assert (len(server.chats()), server.left) == (2, left)
    assert (result.usage == Usage.unknown()) is bool(left)
    assert server.tokens < 8000


def test_a_prose_that_was_cut_off_is_asked_for_again_and_half_an_answer_by_bounds(
    server: LocalServer, asked: Asked
) -> None:
    result = asked(Says("It is", finish="length"), ANSWER)
    assert (result.text, result.cut, len(server.chats())) == (FINAL, False, 2)
    half = Says('{"ok":tr', finish="length")
    result = asked(half, ANSWER)
    assert (result.text, result.cut, len(server.chats())) == (FINAL, False, 4)
    # Where no schema is kept to, its reader goes on with it.
    result = asked(half, ANSWER, schema_way="json_object")
    assert (result.text, result.cut, len(server.chats())) == ('{"ok":tr', True, 5)


def test_where_tools_and_a_schema_go_together_both_are_asked_for(server: LocalServer, asked: Asked) -> None:
    result = asked(Says(calls=(QUOTES,)), ANSWER, beside=True)
    assert result.text == FINAL
    assert all(seen.body["response_format"] == SCHEMA_ASKED and seen.body["tools"] for seen in server.chats())


@pytest.mark.parametrize("way", ["forced_tool", "json_object", "words"])
def test_ways_of_a_schema_that_is_not_enforced(way: str, server: LocalServer, asked: Asked) -> None:
    said = Says(calls=(Call("answer", FINAL),)) if way == "forced_tool" else ANSWER
    result = asked(said, tools=NoTools(), schema_way=way)
    assert (result.status, result.text) == ("completed", FINAL)
    (body,) = (seen.body for seen in server.chats())
    forced = {"type": "function", "function": {"name": "answer"}}
    assert body.get("tool_choice") == (forced if way == "forced_tool" else None)
    assert body.get("response_format") == ({"type": "json_object"} if way == "json_object" else None)
    assert ('"additionalProperties":false' in body["messages"][0]["content"]) == (way != "forced_tool")


def test_tools_of_a_template_without_words_for_them_are_a_part_of_the_schema(server: LocalServer, asked: Asked) -> None:
    tools = Kit()
    call = {"reply": {"tool_calls": [{"name": "quotes_get", "arguments": {"symbols": ["ACME"]}}]}}
    answer = {"reply": {"answer": {"ok": True}}}
    replies = (Says(json.dumps(call)), Says(json.dumps(answer)))
    result = asked(*replies, tools=tools, tool_way="schema")
    assert (result.text, tools.calls) == (FINAL, [("quotes_get", {"symbols": ["ACME"]})])
    first, second = (seen.body for seen in server.chats())
    assert "tools" not in first
    form = first["response_format"]["json_schema"]["schema"]["properties"]["reply"]["anyOf"]
    assert [list(branch["properties"]) for branch in form] == [["tool_calls"], ["answer"]]
    assert "quotes_get: The tool quotes_get." in first["messages"][0]["content"]
    said, told = second["messages"][-2:]
    assert json.loads(said["content"]) == call
    assert (told["role"], told["content"].partition("\n")[0]) == ("user", "The answer of quotes_get:")


ODD: Mapping[str, tuple[Says, ...]] = {
    "two answers": (Says(FINAL, answers=2),),
    "no stream": (Says(FINAL, stream=False),),
    "no stream, reasoning": (Says(FINAL, reasoning="Hm.", stream=False),),
    "no [DONE]": (Says(FINAL, end="plain"),),
    "no finish_reason": (Says(FINAL, finish=""),),
    "open after its end": (Says(FINAL, end="kept"),),
    "calls with one id": (
        Says(calls=(Call("quotes_get", '{"symbols":["A"]}', "x"), Call("quotes_get", "{}", "x"))),
        ANSWER,
    ),
    "calls without ids": (Says(calls=(Call("quotes_get", '{"symbols":["A"]}', "", index=False),)), ANSWER),
    "an id again": (
        Says(calls=(Call("quotes_get", "{}", "c0"),)),
        Says(calls=(Call("quotes_get", "{}", "c0"),)),
        ANSWER,
    ),
    "broken arguments": (Says(calls=(Call("quotes_get", '{"symbols":["A"'),)), ANSWER),
    "no tool's name": (Says(calls=(Call("no_tool", "{}"),)), ANSWER),
    "calls and no stream": (Says(calls=(QUOTES, QUOTES), stream=False), ANSWER),
}


async def test_odd_answers_are_read(server: LocalServer, tmp_path: Path, registry: str) -> None:
    async with local(server, tmp_path, registry) as runtime:
        for name, replies in ODD.items():
            server.requests.clear()
            server.script(*replies)
            result = await one_turn(runtime, asks(tools=Kit()))
            assert (result.status, result.text, result.failure) == ("completed", FINAL, None), name
            bodies = [seen.body for seen in server.chats()]
            assert len(bodies) == len(replies), name
            calls = [call for message in bodies[-1]["messages"] for call in message.get("tool_calls", ())]
            outputs = [message for message in bodies[-1]["messages"] if message["role"] == "tool"]
            ids = [call["id"] for call in calls]
            assert len(set(ids)) == len(ids) == sum(len(reply.calls) for reply in replies), name
            assert [message["tool_call_id"] for message in outputs] == ids, name
            assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls), name


def test_a_prompt_that_can_not_fit_is_not_sent(server: LocalServer, asked: Asked) -> None:
    result = asked(ANSWER, context=8)
    assert result.failure is not None
    assert result.failure.kind == "context_window"
    assert "does not fit the context of small" in result.failure.message
    assert not server.chats()


class Pictures(Kit):
    """Every call is answered with a picture of a megabyte."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        answer = await super().call(name, arguments)
        return replace(answer, image=ToolImage(_picture(), "image/png"))


@cache
def _picture() -> bytes:
    drawn = io.BytesIO()
    Image.frombytes("RGB", (570, 570), random.Random(1).randbytes(570 * 570 * 3)).save(drawn, "PNG")
    return drawn.getvalue()


def test_pictures_go_to_models_that_see_them(server: LocalServer, asked: Asked) -> None:
    replies = (Says(calls=(QUOTES, QUOTES, QUOTES)), ANSWER)
    result = asked(*replies, tools=Pictures(), images=True)
    assert (result.status, result.text) == ("completed", FINAL)
    last = server.chats()[1].body["messages"][-1]
    contents = [part for part in last["content"] if isinstance(part, dict)]
    urls = [part["image_url"]["url"] for part in contents if part["type"] == "image_url"]
    assert len(urls) == 3
    assert all(len(url) > 1_000_000 for url in urls)
