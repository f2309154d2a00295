"""The rulebook's chat completions: the same policies through another wire, alone and through the LiteLLM runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import httpx

from chordesk.agents.gateway.probe import ask_server
from chordesk.models.analysis import ValidatorOutput
from chordesk.models.answers import output_schema
from tests.agents.rulebook.test_server import SUBJECT
from tests.agents.rulebook.turns import ask, events, offered

SCHEMA = output_schema(ValidatorOutput)
QUESTION = f"```subject\n{json.dumps(SUBJECT)}\n```"


def tool(name: str, schema: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": dict(schema or {})}}


def body(*later: dict[str, Any], **changes: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Role: quick\nx"}, {"role": "user", "content": QUESTION}, *later]
    tools = [tool("signals_get"), tool("answer", SCHEMA)]
    return {"model": "rulebook", "messages": messages, "tools": tools, **changes}


def called(answer: httpx.Response) -> tuple[str, dict[str, Any]]:
    """The one tool call of a completion."""
    assert answer.status_code == 200, answer.text
    (choice,) = answer.json()["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    return call["function"]["name"], json.loads(call["function"]["arguments"])


def turns(calls: list[dict[str, Any]], outputs: list[Any]) -> list[dict[str, Any]]:
    """Messages of calls and of their answers."""
    found: list[dict[str, Any]] = []
    for number, (call, output) in enumerate(zip(calls, outputs, strict=True)):
        made = {"id": f"c{number}", "type": "function", "function": call}
        found.append({"role": "assistant", "content": None, "tool_calls": [made]})
        found.append({"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(output)})
    return found


def test_both_wires_make_the_same_call_and_give_the_same_answer(http: httpx.Client) -> None:
    assert called(http.post("/chat/completions", json=body())) == ("signals_get", {"symbols": ["AA"]})
    broken = {"success": False, "error": "no prices"}
    history = turns([{"name": "signals_get", "arguments": "{}"}], [broken])
    name, answer = called(http.post("/chat/completions", json=body(*history)))
    assert name == "answer"
    items = [
        ask(SUBJECT),
        {"type": "function_call", "call_id": "c", "name": "signals_get", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": json.dumps(broken)},
    ]
    request = {"model": "m", "instructions": "Role: quick\nx", "input": items, "tools": offered(["signals_get"])}
    message = events(http.post("/responses", json=request))[1][1]["item"]
    assert json.loads(message["content"][0]["text"]) == answer
    ValidatorOutput.model_validate(answer)


def streamed(http: httpx.Client, **changes: Any) -> list[dict[str, Any]]:
    """The chunks of a request for a stream."""
    answer = http.post("/chat/completions", json=body(stream=True, **changes))
    assert answer.headers["content-type"].startswith("text/event-stream")
    *chunks, last = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert last == "[DONE]"
    return [json.loads(one) for one in chunks]


def test_a_request_for_a_stream_gets_the_same_answer_in_chunks(http: httpx.Client) -> None:
    first, last, counted = streamed(http, stream_options={"include_usage": True})
    (call,) = first["choices"][0]["delta"]["tool_calls"]
    made = call["function"]["name"], json.loads(call["function"]["arguments"])
    assert made == called(http.post("/chat/completions", json=body()))
    assert (call["index"], last["choices"][0]["finish_reason"]) == (0, "tool_calls")
    assert counted["choices"] == []
    assert counted["usage"]["total_tokens"] > 0
    text, last = streamed(http, tools=[])
    ValidatorOutput.model_validate_json(text["choices"][0]["delta"]["content"])
    assert last["choices"][0]["finish_reason"] == "stop"


def test_it_passes_the_look_at_a_model_server(http: httpx.Client) -> None:
    facts = asyncio.run(ask_server(str(http.base_url).rstrip("/"), None, "rulebook"))
    assert (facts.schema_way, facts.tool_way, facts.beside, facts.usage) == ("json_schema", "native", True, True)
    refused = http.post("/chat/completions", json={"messages": [{"role": "system", "content": "You are quick"}]})
    assert refused.json()["error"]["code"] == "no_role", "a prompt without a role is none of the desk's"


def test_a_word_on_a_picture_after_an_answer_does_not_spoil_it(http: httpx.Client) -> None:
    history = turns([{"name": "signals_get", "arguments": "{}"}], [{"signals": [], "available": True}])
    history[-1]["content"] += "\n(A picture stood here. It was left out: this model takes none.)"
    _, answer = called(http.post("/chat/completions", json=body(*history)))
    assert "is no JSON" not in answer["summary"]
