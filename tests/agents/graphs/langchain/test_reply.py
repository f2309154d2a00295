"""The schema of a call's answer, and the answers that a model may give in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chordesk.agents.graphs.langchain import ephemeral_turns
from chordesk.agents.graphs.langchain.ephemeral_turns import InvalidReply, ToolSchemaError, reply_format
from chordesk.agents.graphs.langchain.strict_schemas import problems
from tests.fakes import dialects


def tool(name: str, **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


NEWS, BARS = tool("news", symbol={"type": "string"}), tool("bars", days={"type": "integer"})


def calls(*given: tuple[str, Any], content: str = "") -> str:
    made = [{"name": name, "arguments": arguments} for name, arguments in given]
    return json.dumps({"reply": {"mode": "tool_calls", "content": content, "tool_calls": made}})


def test_a_model_with_tools_calls_them_or_answers() -> None:
    form = reply_format([NEWS, BARS])
    assert problems(form.schema) == []
    reply = form.read(calls(("news", {"symbol": "IBM"}), ("bars", {"days": 5}), content="looking"))
    assert reply.content == "looking"
    assert [(one["name"], one["args"]) for one in reply.calls] == [("news", {"symbol": "IBM"}), ("bars", {"days": 5})]
    assert len({one["id"] for one in reply.calls}) == 2
    assert form.read('{"reply":{"mode":"final","content":"done"}}').content == "done"
    assert form.read('{"reply":{"mode":"final","content":"done"}}').calls == ()


def test_a_choice_narrows_what_may_be_answered() -> None:
    any_tool, one = reply_format([NEWS, BARS], "any"), reply_format([NEWS, BARS], "bars")
    assert any_tool.calls_only
    assert "reply" not in any_tool.schema["properties"]
    assert set(one.tools) == {"bars"}
    assert reply_format([NEWS], "none").schema["properties"] == {"answer": {"type": "string"}}
    single = reply_format([NEWS], "any", parallel=False)
    assert single.schema["properties"]["tool_calls"]["maxItems"] == 1


def test_definitions_of_one_name_in_two_tools_do_not_meet() -> None:
    def with_range(name: str, kind: str) -> dict[str, Any]:
        made = tool(name, when={"$ref": "#/$defs/Range"})
        made["function"]["parameters"]["$defs"] = {"Range": {"type": kind}}
        return made

    form = reply_format([with_range("a", "string"), with_range("b", "integer")])
    assert form.schema["$defs"] == {"a__Range": {"type": "string"}, "b__Range": {"type": "integer"}}
    assert problems(form.schema) == []


@pytest.mark.parametrize(
    ("tools", "choice", "reason"),
    [
        ([{"type": "web_search"}], None, r"'web_search'} is no function with a name"),
        ([NEWS, NEWS], None, "two tools have the name 'news'"),
        ([], "any", "tool_choice is 'any' and there are no tools"),
        ([NEWS], "orders", "tool_choice names 'orders'"),
        ([tool("a", x={"const": b"x"})], None, "the schema of the tool a is no JSON schema"),
        ([{"function": {"name": "a", "parameters": "x"}}], None, "the schema of the tool a is no JSON schema"),
        ([{"function": {"name": "a", "parameters": {"type": "object", "properties": [1]}}}], None, "no JSON schema"),
    ],
)
def test_tools_that_cannot_be_sent_are_named(tools: list[dict[str, Any]], choice: str | None, reason: str) -> None:
    with pytest.raises(ToolSchemaError, match=reason):
        reply_format(tools, choice)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I think so.", "no JSON"),
        ("[1]", "no JSON object"),
        ("{}", "no object `reply`"),
        ('{"reply":{"mode":"final"}}', "`content` is to be a string"),
        ('{"reply":{"mode":"tool_calls","content":"","tool_calls":[]}}', "at least one call"),
        (calls(("orders_submit", {})), "no tool 'orders_submit'; there are news"),
        (calls(("news", "IBM")), "a call of news: its arguments are no JSON object"),
        ('{"reply":{"mode":"final","content":"a"}}{"reply":{"mode":"final","content":"b"}}', "no JSON"),
    ],
)
def test_an_answer_that_does_not_fit_names_its_fault(text: str, reason: str) -> None:
    with pytest.raises(InvalidReply, match=reason):
        reply_format([NEWS]).read(text)


def test_a_call_in_another_form_is_that_call() -> None:
    form = reply_format([NEWS, BARS])
    bare = '{"name":"functions.bars","arguments":"{\\"days\\":\\"5\\"}"}'
    for text in (
        calls(("functions.bars", {"days": "5"})),
        calls(("bars", '{"days":5}')),
        f"<tool_call>{bare}</tool_call>",
        bare,
        '{"mode":"tool_calls","content":"","tool_calls":[{"name":"bars","arguments":{"days":5}}]}',
    ):
        assert [(one["name"], one["args"]) for one in form.read(text).calls] == [("bars", {"days": 5})], text
    for text in ('<tool_call>{"name":"sell","arguments":{}}</tool_call>', calls(("sell", {})), calls(("bars", "five"))):
        with pytest.raises(InvalidReply):
            form.read(text)


def test_a_refused_key_of_another_provider_asks_for_no_login_of_the_desk() -> None:
    assert "desk login" in ephemeral_turns.in_arguments(ephemeral_turns.LoginError("no key"), "codex").remedy
    assert "desk login" not in ephemeral_turns.in_arguments(ephemeral_turns.LoginError("no key"), "litellm").remedy


QUOTES = tool(dialects.TOOL, symbols={"type": "array", "items": {"type": "string"}})


@pytest.mark.parametrize(
    "text",
    [
        *(calls((name, {"symbols": ["ACME"]})) for name in dialects.NAMES),
        *(calls((dialects.TOOL, given)) for given in dialects.GIVENS),
        *dialects.TEXTS,
    ],
)
def test_a_call_in_any_dialect_is_that_call(text: str) -> None:
    found = reply_format([QUOTES]).read(text)
    assert [(one["name"], one["args"]) for one in found.calls] == [(dialects.TOOL, {"symbols": ["ACME"]})]


def test_two_objects_as_arguments_are_refused_with_that_reason() -> None:
    given = dialects.GIVEN + dialects.GIVEN.replace("ACME", "IBM")
    with pytest.raises(InvalidReply, match="2 different JSON objects"):
        reply_format([QUOTES]).read(calls((dialects.TOOL, given)))
