"""A Responses request as messages of chat completions, in the narrow form that templates take."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

import pytest

from chordesk.agents.gateway.facts import ServerFacts
from chordesk.agents.gateway.stream import ChatAnswer
from chordesk.agents.gateway.translation import NO_PICTURE, Message, Messages, plan
from chordesk.models.analysis import ValidatorOutput
from chordesk.models.answers import bounded_schema, output_schema

PICTURE = "data:image/png;base64,AAAA"


def _text(role: str, text: str) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _call(id_: str, arguments: str = "{}") -> dict[str, Any]:
    return {"type": "function_call", "call_id": id_, "name": "chart", "arguments": arguments}


def _output(id_: str, output: Any = "ok") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id_, "output": output}


def _shown(id_: str) -> dict[str, Any]:
    parts = [{"type": "input_text", "text": "a chart"}, {"type": "input_image", "image_url": PICTURE}]
    return _output(id_, parts)


def _messages(*items: Any, images: bool = True) -> list[Message]:
    messages = Messages(images)
    messages.add_all("Be brief.", items)
    return messages.whole()


def test_there_is_one_system_message_and_it_comes_first() -> None:
    items = [_text("developer", "Role."), _text("user", "a"), _text("developer", "Later."), _text("user", "b")]
    assert _messages(*items) == [
        {"role": "system", "content": "Be brief.\n\nRole.\n\nLater."},
        {"role": "user", "content": "a\n\nb"},
    ]


def test_calls_of_one_message_stay_together() -> None:
    items = [_text("user", "a"), _text("assistant", "Let me see."), _call("1"), _call("2"), _output("1"), _output("2")]
    _, _, called, *answers = _messages(*items)
    assert called["content"] == "Let me see."
    assert [call["id"] for call in called["tool_calls"]] == ["1", "2"]
    assert [(one["role"], one["tool_call_id"]) for one in answers] == [("tool", "1"), ("tool", "2")]


def test_an_id_that_comes_again_is_another_one() -> None:
    items = [_text("user", "a"), _call("1"), _output("1", "first"), _call("1"), _output("1", "second")]
    _, _, one, first, other, second = _messages(*items)
    ids = [message["tool_calls"][0]["id"] for message in (one, other)]
    assert [first["tool_call_id"], second["tool_call_id"]] == ids
    assert len(set(ids)) == 2
    assert len(ids[1]) == 9


@pytest.mark.parametrize("arguments", ["{broken", "[1]", "", "null"])
def test_arguments_are_objects(arguments: str) -> None:
    called = _messages(_text("user", "a"), _call("1", arguments), _output("1"))[2]
    assert called["tool_calls"][0]["function"]["arguments"] == "{}"


def test_pictures_of_tools_follow_in_a_message_of_a_user() -> None:
    items = [_text("user", "a"), _call("1"), _call("2"), _shown("1"), _shown("2"), _text("user", "b")]
    *_, first, second, last = _messages(*items)
    assert [first["content"], second["content"]] == ["a chart", "a chart"]
    kinds = [part["type"] for part in last["content"]]
    assert (last["role"], kinds) == ("user", ["text", "image_url", "text", "image_url", "text"])


def test_a_model_without_eyes_is_told_that_a_picture_was_left_out() -> None:
    last = _messages(_text("user", "a"), _call("1"), _shown("1"), images=False)[-1]
    assert (last["role"], last["content"]) == ("tool", f"a chart\n{NO_PICTURE}")


FORM = {"type": "object", "properties": {"ok": {"$ref": "#/$defs/Ok"}}, "$defs": {"Ok": {"type": "boolean"}}}


def _facts(**changes: Any) -> ServerFacts:
    known: dict[str, Any] = {
        "url": "u",
        "server": "x",
        "version": "1",
        "model": "m",
        "asked_at": dt.datetime.now(dt.UTC),
    }
    return ServerFacts(**known | changes)


def _request(**changes: Any) -> dict[str, Any]:
    tool = {"type": "function", "name": "chart", "description": "d", "strict": False, "parameters": FORM}
    text = {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "strict": True, "schema": FORM}}
    asked = {"model": "m", "input": [_text("user", "a")], "tools": [tool], "text": text}
    return {**asked, "reasoning": {"effort": "xhigh"}, "store": False, **changes}


def test_definitions_of_tools_and_answer_are_told_apart() -> None:
    body = plan(_request(), _facts(tool_way="schema"), 100, 3.0).body
    form = body["response_format"]["json_schema"]["schema"]
    assert form["$defs"] == {"chart__Ok": {"type": "boolean"}, "Ok": {"type": "boolean"}}
    calls, answer = form["properties"]["reply"]["anyOf"]
    arguments = calls["properties"]["tool_calls"]["items"]["properties"]["arguments"]
    assert arguments["properties"]["ok"] == {"$ref": "#/$defs/chart__Ok"}
    assert answer["properties"]["answer"]["properties"]["ok"] == {"$ref": "#/$defs/Ok"}
    assert "$defs" not in arguments


def test_a_tool_is_called_first_where_an_answer_is_worth_nothing_before() -> None:
    facts = _facts(tool_way="schema")

    def reply(*items: Any, **changes: Any) -> list[str]:
        asked = _request(input=[_text("user", "a"), *items], **changes)
        body = plan(asked, facts, 100, 3.0, tools_first=True).body
        form = body["response_format"]["json_schema"]["schema"]["properties"]["reply"]
        return [name for branch in form.get("anyOf", [form]) for name in branch["properties"]]

    assert reply() == ["tool_calls"]
    short = plan(_request(), facts, 100, 3.0, tools_first=True).short
    assert short is not None
    assert '"tool_calls"' in json.dumps(short)
    assert '"answer"' not in json.dumps(short["response_format"]["json_schema"]["schema"])
    assert reply(_call("1"), _output("1")) == ["tool_calls", "answer"]
    assert reply(_call("1"), _output("1"), _text("user", "b")) == ["tool_calls"]
    assert "answer" not in plan(_request(), _facts(), 100, 3.0, tools_first=True).body.get("tool_choice", "")


READ: Mapping[str, tuple[str, tuple[str, list[tuple[str, str]]]]] = {
    "answer": ('{"reply":{"answer":{"ok":true}}}', ('{"ok":true}', [])),
    "calls": (
        '{"reply":{"tool_calls":[{"name":"chart","arguments":{"ok":true}},{"name":"chart","arguments":{}}]}}',
        ("", [("chart", '{"ok":true}'), ("chart", "{}")]),
    ),
    "in a fence": ('So:\n```json\n{"reply":{"answer":{"ok":true}}}\n```', ('{"ok":true}', [])),
    "cut off": ('{"reply": {"answer": {"ok":tr', ('{"ok":tr', [])),
    "prose": ("I do not know.", ("I do not know.", [])),
    "another object": ('{"ok":true}', ('{"ok":true}', [])),
    "text": ('{"reply":{"answer":"so"}}', ("so", [])),
}


@pytest.mark.parametrize("name", READ)
def test_calls_and_answers_in_words_are_read(name: str) -> None:
    text, (said, calls) = READ[name]
    answer = ChatAnswer()
    answer.take({"choices": [{"delta": {"content": text}}]})
    answer.end()
    reply = plan(_request(), _facts(tool_way="schema"), 100, 3.0).read(answer)
    assert (reply.text, [(call.name, call.arguments) for call in reply.calls]) == (said, calls)


def test_an_answer_fits_into_the_context() -> None:
    asked = _request(input=[_text("user", "x" * 3000)])
    assert plan(asked, _facts(context=2000), 8000, 3.0).body["max_tokens"] < 1000
    assert plan(asked, _facts(context=1000), 8000, 3.0).body["max_tokens"] == 256
    assert plan(asked, _facts(), 8000, 3.0).body["max_tokens"] == 8000


def test_a_request_is_the_same_from_call_to_call_but_for_what_is_new() -> None:
    """A server reads a beginning that it has read before no second time."""
    items = [_text("developer", "Role."), _text("user", "a")]
    first = plan(_request(input=items), _facts(), 100, 3.0).body
    second = plan(_request(input=[*items, _call("1"), _output("1")]), _facts(), 100, 3.0).body
    begun = json.dumps(first["messages"])[:-1]
    assert json.dumps(second["messages"]).startswith(begun)
    assert first["tools"] == second["tools"]


@pytest.mark.parametrize(("reasoning", "effort"), [(True, "high"), (False, None), (None, None)])
def test_the_effort_is_for_models_that_reason(reasoning: bool | None, effort: str | None) -> None:
    assert plan(_request(), _facts(reasoning=reasoning), 100, 3.0).body.get("reasoning_effort") == effort


def test_a_tool_of_the_role_may_be_called_answer() -> None:
    asked = _request(tools=[{"type": "function", "name": "answer", "description": "d", "parameters": FORM}])
    answer = ChatAnswer()
    call = {"index": 0, "id": "1", "function": {"name": "answer", "arguments": "{}"}}
    answer.take({"choices": [{"delta": {"tool_calls": [call]}}]})
    assert [call.name for call in plan(asked, _facts(), 100, 3.0).read(answer).calls] == ["answer"]


def _bounded(**facts: Any) -> dict[str, Any]:
    """What is asked of a server for a thesis with cites of this turn, after an answer of a tool."""
    schema, bounded = output_schema(ValidatorOutput), bounded_schema(ValidatorOutput, {"cites": "abcd"})
    form = {"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": schema}}
    told = {**_output("1"), "output": '{"cite":"abcd-a","available":true}'}
    items = [_text("user", "a"), _call("1"), told, _call("2"), {**told, "call_id": "2", "output": '{"cite":"efgh-a"}'}]
    made = plan(_request(text=form, input=items), _facts(beside=True, **facts), 100, 3.0, bounded=bounded)
    assert json.dumps(schema, separators=(",", ":")) in made.body["messages"][0]["content"]
    found: dict[str, Any] = made.body["response_format"]["json_schema"]["schema"]
    assert made.bounds is (found != schema)
    return found


def test_a_schema_is_as_strict_as_its_server() -> None:
    """The prompt tells the same one, so that its beginning is read once."""
    assert _bounded() == output_schema(ValidatorOutput)
    thesis = _bounded(keywords=("lengths", "bounds", "items"), choices=40)["properties"]["thesis"]["properties"]
    points = thesis["pointsFor"]
    assert (points["maxItems"], points["items"]["properties"]["source"]) == (3, {"type": "string", "enum": ["abcd-a"]})
    wrong = thesis["invalidation"]["properties"]
    assert (thesis["horizon"]["maximum"], wrong["day"]["maxLength"], wrong["event"].get("maxLength")) == (120, 10, None)
    thesis = _bounded(keywords=("items",))["properties"]["thesis"]["properties"]
    assert (thesis["pointsFor"]["maxItems"], thesis["horizon"].get("maximum")) == (3, None)
    assert thesis["pointsFor"]["items"]["properties"]["source"] == {"type": "string"}
