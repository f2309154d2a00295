"""Answers of the model wire as server-sent events, in three dialects: made of the body that the same answer has as one
JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import orjson

PIECE = 8  # characters of one event
DONE = b"data: [DONE]\n\n"
_numbers = count(1)


class Events(NamedTuple):
    """The events of one answer: before the first token, its tokens, and its end."""

    head: list[bytes]
    tokens: list[bytes]
    tail: list[bytes]


def data(value: Any, kind: str | None = None) -> bytes:
    name = b"" if kind is None else f"event: {kind}\n".encode()
    return b"%bdata: %b\n\n" % (name, orjson.dumps(value))


def chat_events(body: Mapping[str, Any]) -> Events:
    """Return the chunks of a chat completion."""
    (choice,) = body["choices"]
    message = choice["message"]
    own = {"id": body["id"], "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta: Mapping[str, Any], finish: str | None = None) -> bytes:
        return data({**own, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    deltas: list[Mapping[str, Any]] = []
    for key in ("reasoning_content", "content", "refusal"):
        deltas += [{key: piece} for piece in _pieces(message.get(key) or "")]
    for place, call in enumerate(message.get("tool_calls") or ()):
        named = {"name": call["function"]["name"], "arguments": ""}
        deltas.append({"tool_calls": [{"index": place, "id": call["id"], "type": "function", "function": named}]})
        parts = _pieces(call["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": place, "function": {"arguments": piece}}]} for piece in parts]
    usage = [data({**own, "choices": [], "usage": body["usage"]})] if "usage" in body else []
    head = [chunk({"role": "assistant", "content": None})]
    return Events(head, [chunk(delta) for delta in deltas], [chunk({}, choice["finish_reason"]), *usage, DONE])


def message_events(body: Mapping[str, Any]) -> Events:
    """Return the events of Anthropic's messages."""
    usage = body["usage"]
    start = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    tokens = [one for place, block in enumerate(body["content"]) for one in _block_events(place, block)]
    ending = {"delta": {"stop_reason": body["stop_reason"], "stop_sequence": None}, "usage": usage}
    return Events(
        [_event("message_start", message=start), _event("ping")],
        tokens,
        [_event("message_delta", **ending), _event("message_stop")],
    )


def _block_events(place: int, block: Mapping[str, Any]) -> Iterator[bytes]:
    kind = block["type"]
    empty = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
        "tool_use": {**block, "input": {}},
    }
    yield _event("content_block_start", index=place, content_block=empty.get(kind, block))
    deltas: list[Mapping[str, Any]] = []
    if kind == "text":
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    elif kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        given = block["input"]
        text = given if isinstance(given, str) else orjson.dumps(given).decode()
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
    for delta in deltas:
        yield _event("content_block_delta", index=place, delta=delta)
    yield _event("content_block_stop", index=place)


def response_events(body: Mapping[str, Any]) -> Events:
    """Return the events of the Responses API."""
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    tokens = [one for place, item in enumerate(body["output"]) for one in _item_events(place, item)]
    return Events(
        [_event("response.created", response=begun), _event("response.in_progress", response=begun)],
        tokens,
        [_event(f"response.{body['status']}", response=body)],
    )


def _item_events(place: int, item: Mapping[str, Any]) -> Iterator[bytes]:
    where = {"item_id": item["id"], "output_index": place}
    if item["type"] == "function_call":
        yield _event("response.output_item.added", output_index=place, item={**item, "arguments": ""})
        for piece in _pieces(item["arguments"]):
            yield _event("response.function_call_arguments.delta", delta=piece, **where)
        yield _event("response.function_call_arguments.done", arguments=item["arguments"], **where)
    elif item["type"] == "reasoning":
        yield _event("response.output_item.added", output_index=place, item={**item, "summary": []})
        for piece in _pieces("".join(part["text"] for part in item["summary"])):
            yield _event("response.reasoning_summary_text.delta", delta=piece, summary_index=0, **where)
    else:
        yield _event("response.output_item.added", output_index=place, item={**item, "content": []})
        for part in item["content"]:
            kind = "refusal" if part["type"] == "refusal" else "output_text"
            text = part.get("refusal") or part.get("text") or ""
            for piece in _pieces(text):
                yield _event(f"response.{kind}.delta", delta=piece, content_index=0, **where)
    yield _event("response.output_item.done", output_index=place, item=item)


def _event(kind: str, **fields: Any) -> bytes:
    return data({"type": kind, "sequence_number": next(_numbers), **fields}, kind)


def _pieces(text: str) -> Sequence[str]:
    return [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
