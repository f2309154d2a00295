"""The chat completions wire: parses a request into the same case as a Responses request, and writes its answer, as one
JSON or as a stream.

The answer goes through the tool `answer` where the request has one, as the LiteLLM runtime asks for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from chordesk.agents.rulebook.case import Call, Case, Payload
from chordesk.agents.rulebook.wire import case_of, numbers, read, usage

ANSWER = "answer"


def parse_chat(body: bytes) -> tuple[Payload, Case]:
    """Return the request and the case in it. Raises BadRequest."""
    request, messages = read(body, "messages")
    tools = [tool for tool in _functions(request) if tool.get("name") != ANSWER]
    return request, case_of(None, list(_items(messages)), tools)


def answer_schema(request: Mapping[str, Any]) -> Payload | None:
    """Return the JSON schema of the answer tool, if the request has one."""
    schema = next((tool.get("parameters") for tool in _functions(request) if tool.get("name") == ANSWER), None)
    return schema if isinstance(schema, dict) else None


def completion(request: Mapping[str, Any], request_bytes: int, move: Call | Payload) -> bytes:
    """Return the body of a completion: a tool call, or the answer by the answer tool or as text. A request for a stream
    gets its events."""
    number = next(numbers)
    by_tool = answer_schema(request) is not None
    call = move if isinstance(move, Call) else Call(ANSWER, move) if by_tool else None
    message: Payload = {"role": "assistant", "content": None if call else orjson.dumps(move).decode()}
    if call is not None:
        function = {"name": call.tool, "arguments": orjson.dumps(call.arguments).decode()}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    counted = usage(request_bytes, len(orjson.dumps(message)))
    head = {"id": f"chatcmpl_{number}", "created": 0, "model": request.get("model", "rulebook")}
    spent = {
        "prompt_tokens": counted["input_tokens"],
        "completion_tokens": counted["output_tokens"],
        "total_tokens": counted["total_tokens"],
    }
    finish = "tool_calls" if call else "stop"
    if request.get("stream"):
        options = request.get("stream_options")
        counts = isinstance(options, dict) and options.get("include_usage")
        return _stream({**head, "object": "chat.completion.chunk"}, message, finish, spent if counts else None)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return orjson.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": spent})


def _stream(head: Payload, message: Payload, finish: str, spent: Payload | None) -> bytes:
    delta = {**message, "tool_calls": [{"index": 0, **call} for call in message.get("tool_calls", ())]}
    if not delta["tool_calls"]:
        del delta["tool_calls"]
    chunks: list[Payload] = [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
    ]
    if spent is not None:
        chunks.append({"choices": [], "usage": spent})
    events = (b"data: %b\n\n" % orjson.dumps({**head, **chunk}) for chunk in chunks)
    return b"".join((*events, b"data: [DONE]\n\n"))


def _functions(request: Mapping[str, Any]) -> list[Payload]:
    tools = request.get("tools")
    rows = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return [row for row in rows if isinstance(row, dict)]


def _items(messages: Iterable[Payload]) -> Iterable[Payload]:
    """Yield messages as items of the Responses API. Calls of the answer tool are none: what they gave is repaired."""
    answers: set[Any] = set()
    for message in messages:
        if message.get("role") == "tool":
            called = message.get("tool_call_id")
            if called not in answers:
                yield {"type": "function_call_output", "call_id": called, "output": message.get("content")}
            continue
        yield {"type": "message", "role": message.get("role"), "content": message.get("content")}
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function") if isinstance(call, dict) else None
            if not isinstance(function, dict):
                continue
            if function.get("name") == ANSWER:
                answers.add(call.get("id"))
            else:
                yield {"type": "function_call", "call_id": call.get("id"), "name": function.get("name")}
