"""The far side of the model wire on one loopback server: OpenAI's chat completions, Anthropic's messages, and OpenAI's
responses, which the library asks for where a model reasons with tools. A request with `stream` gets a stream.

Scripted as `FakeResponses` is, with the same replies where a dialect has them, and with the habits of real servers:
`Paced` has the times of a stream and the ways in which it ends.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import orjson

from tests.fakes import responses
from tests.fakes.chat_stream import Events, chat_events, data, message_events, response_events
from tests.fakes.responses import (
    JSON_HEADERS,
    SSE_HEADERS,
    Call,
    FakeResponses,
    Receive,
    Refusal,
    Seen,
    Send,
    Slow,
    Status,
    Text,
)

MESSAGES, RESPONSES = "/messages", "/responses"
USAGE = {"input_tokens": 100, "output_tokens": 20}
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Calls:
    """Several tool calls in one message, with a text before them."""

    calls: tuple[Call, ...]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Filtered:
    """An answer that the provider's content filter cut off."""


@dataclass(frozen=True, slots=True)
class HalfJson:
    """A body that is cut in the middle, with a length that fits."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A body that ends before its length: the connection is closed."""


@dataclass(frozen=True, slots=True)
class Raw:
    """A body as it is, and no stream."""

    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reasoned:
    """Another reply with the model's reasoning before it. signature: of Anthropic's, which has to come back."""

    reasoning: str
    reply: Any
    signature: str = "c2lnbmVk"


@dataclass(frozen=True, slots=True)
class TooLong:
    """Another reply that ends at the bound of its output."""

    reply: Any


@dataclass(frozen=True, slots=True)
class Paced:
    """Another reply as a stream with these times, in seconds: to its first token, between the signs of life before it
    (0 for none), and between two tokens. end: done; plain, without its last events; dropped, in its middle with the
    connection; open, in silence after its last token; endless, its tokens again and again; failed, with an error
    event."""

    reply: Any
    first: float = 0.0
    heartbeat: float = 0.0
    every: float = 0.0
    end: Literal["done", "plain", "dropped", "open", "endless", "failed"] = "done"
    error: Mapping[str, Any] = field(default_factory=lambda: {"type": "overloaded_error", "message": "Overloaded"})


ChatReply = responses.Reply | Calls | Filtered | HalfJson | Dropped | Raw | Reasoned | TooLong | Paced


def answer(value: Any) -> Call:
    """Return a call of the answer tool with this value."""
    return Call("answer", json.dumps(value))


class FakeChat(FakeResponses):
    """Chat completions and messages on loopback. url: the base of the first; root: of the second. left: answers whose
    reader went away before their end."""

    left = 0

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        reply: Any = self._replies.popleft() if self._replies else self.policy(seen.body)
        if self.latency:
            await asyncio.sleep(self.latency)
        writing = asyncio.ensure_future(send_reply(reply, seen.path, send, stream=bool(seen.body.get("stream"))))
        leaving = asyncio.ensure_future(_gone(receive))
        await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        self.left += not writing.done()
        for task in (writing, leaving):
            task.cancel()
        await asyncio.gather(writing, leaving, return_exceptions=True)


async def send_reply(reply: Any, path: str, send: Send, *, stream: bool = False) -> None:
    """Send a reply in the dialect of the path, after its own delay. stream: the request asked for one."""
    while isinstance(reply, Slow | responses.Silence):
        await asyncio.sleep(reply.seconds)
        reply = reply.reply if isinstance(reply, Slow) else Text('{"ok":true}')
    write, events = _DIALECTS[next(end for end in _DIALECTS if path.endswith(end))]
    if isinstance(reply, Status | Raw) or not stream:
        await _sent(reply.reply if isinstance(reply, Paced) else reply, write, send)
    elif isinstance(reply, HalfJson):
        await _body(send, 200, data(write(Text("half of it")))[:-20] + b"\n\n", headers=SSE_HEADERS)
    else:
        paced = Paced(Text("half of it"), end="dropped") if isinstance(reply, Dropped) else reply
        paced = paced if isinstance(paced, Paced) else Paced(paced)
        await _stream(paced, events(write(paced.reply)), send)


async def _stream(reply: Paced, events: Events, send: Send) -> None:
    async def more(body: bytes) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": True})

    await send({"type": "http.response.start", "status": 200, "headers": SSE_HEADERS})
    left = reply.first
    while reply.heartbeat and left > reply.heartbeat:
        await asyncio.sleep(reply.heartbeat)
        await more(b": still at work\n\n")
        left -= reply.heartbeat
    await asyncio.sleep(left)
    tokens = events.tokens[: len(events.tokens) // 2] if reply.end in ("dropped", "failed") else events.tokens
    await more(b"".join(events.head))
    while True:
        for token in tokens if reply.every else [b"".join(tokens)]:
            await more(token)
            await asyncio.sleep(reply.every)
        if reply.end != "endless":
            break
    if reply.end == "dropped":
        return  # without the end of the body: the connection is closed
    if reply.end == "open":
        await asyncio.Event().wait()
    if reply.end == "failed":
        await more(data({"type": "error", "error": reply.error}, "error"))
    elif reply.end == "done":
        await more(b"".join(events.tail))
    await send({"type": "http.response.body", "body": b""})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _sent(reply: Any, write: Callable[[Any], Mapping[str, Any]], send: Send) -> None:
    if isinstance(reply, Status):
        extra = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
        await _body(send, reply.code, orjson.dumps(reply.body), extra)
    elif isinstance(reply, Raw):
        await _body(send, 200, orjson.dumps(reply.body))
    elif isinstance(reply, HalfJson | Dropped):
        body = orjson.dumps(write(Text("half of it")))
        half = body[: len(body) // 2]
        await _body(send, 200, half, length=len(body) if isinstance(reply, Dropped) else len(half))
    else:
        await _body(send, 200, orjson.dumps(write(reply)))


async def _body(
    send: Send,
    code: int,
    body: bytes,
    extra: list[tuple[bytes, bytes]] | None = None,
    length: int | None = None,
    headers: list[tuple[bytes, bytes]] = JSON_HEADERS,
) -> None:
    size = (b"content-length", str(len(body) if length is None else length).encode())
    await send({"type": "http.response.start", "status": code, "headers": [*headers, *(extra or []), size]})
    await send({"type": "http.response.body", "body": body})


def _calls(reply: Any) -> tuple[Call, ...]:
    return reply.calls if isinstance(reply, Calls) else (reply,) if isinstance(reply, Call) else ()


def _openai(given: Any) -> Mapping[str, Any]:
    reply, reasoning, too_long = _bare(given)
    message: dict[str, Any] = {"role": "assistant", "content": getattr(reply, "text", None) or None}
    if reasoning is not None:
        message["reasoning_content"] = reasoning.reasoning
    finish = "stop"
    if calls := _calls(reply):
        finish = "tool_calls"
        message["tool_calls"] = [
            {
                "id": f"call_{next(_numbers)}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    elif isinstance(reply, Refusal):
        message |= {"content": None, "refusal": reply.text}
    elif isinstance(reply, Filtered):
        finish, message["content"] = "content_filter", ""
    usage = _usage(reply)
    counted = {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        "prompt_tokens_details": {"cached_tokens": usage.get("cached", 0)},
    } if usage else None  # fmt: skip
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt-5.5",
        "choices": [{"index": 0, "message": message, "finish_reason": "length" if too_long else finish}],
        **({"usage": counted} if counted else {}),
    }


def _anthropic(given: Any) -> Mapping[str, Any]:
    reply, reasoning, too_long = _bare(given)
    content: list[dict[str, Any]] = []
    stop = "end_turn"
    if reasoning is not None:
        content.append({"type": "thinking", "thinking": reasoning.reasoning, "signature": reasoning.signature})
    if text := getattr(reply, "text", None):
        content.append({"type": "text", "text": text})
    for call in _calls(reply):
        stop = "tool_use"
        given = _loaded(call.arguments)
        content.append({"type": "tool_use", "id": f"toolu_{next(_numbers)}", "name": call.name, "input": given})
    if isinstance(reply, Refusal | Filtered):
        stop = "refusal"
    usage = _usage(reply) or {"input_tokens": 0, "output_tokens": 0}
    cached = usage.get("cached", 0)
    return {
        "id": f"msg_{next(_numbers)}",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": content,
        "stop_reason": "max_tokens" if too_long else stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["input_tokens"] - cached,
            "output_tokens": usage["output_tokens"],
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
        },
    }


def _responses(given: Any) -> Mapping[str, Any]:
    reply, reasoning, too_long = _bare(given)
    output: list[dict[str, Any]] = []
    if reasoning is not None:
        summary = [{"type": "summary_text", "text": reasoning.reasoning}]
        output.append({"type": "reasoning", "id": f"rs_{next(_numbers)}", "summary": summary})
    if text := getattr(reply, "text", None):
        kind = (
            {"type": "refusal", "refusal": text}
            if isinstance(reply, Refusal)
            else {"type": "output_text", "text": text}
        )
        message = {"type": "message", "role": "assistant", "status": "completed", "id": f"msg_{next(_numbers)}"}
        output.append({**message, "content": [{"annotations": [], **kind}]})
    for call in _calls(reply):
        ids = {"id": f"fc_{next(_numbers)}", "call_id": f"call_{next(_numbers)}", "status": "completed"}
        output.append({"type": "function_call", **ids, "name": call.name, "arguments": call.arguments})
    usage = _usage(reply) or {"input_tokens": 0, "output_tokens": 0}
    return {
        "id": f"resp_{next(_numbers)}",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if too_long else "completed",
        "model": "gpt-5.5",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if too_long else None,
        "instructions": None,
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "usage": {
            "input_tokens": usage["input_tokens"],
            "input_tokens_details": {"cached_tokens": usage.get("cached", 0)},
            "output_tokens": usage["output_tokens"],
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": usage["input_tokens"] + usage["output_tokens"],
        },
    }


# How an answer is written, by the end of a request's path: as one JSON, and as events.
_DIALECTS: Mapping[str, tuple[Callable[[Any], Mapping[str, Any]], Callable[[Mapping[str, Any]], Events]]] = {
    MESSAGES: (_anthropic, message_events),
    RESPONSES: (_responses, response_events),
    "": (_openai, chat_events),
}


def _bare(reply: Any) -> tuple[Any, Reasoned | None, bool]:
    """Return a reply without what is around it: its reasoning, and whether it ends at the bound of its output."""
    too_long = isinstance(reply, TooLong)
    reply = reply.reply if isinstance(reply, TooLong) else reply
    return (reply.reply, reply, too_long) if isinstance(reply, Reasoned) else (reply, None, too_long)


def _usage(reply: Any) -> Mapping[str, Any]:
    found = getattr(reply, "usage", USAGE)
    return found if found is not None else {}


def _loaded(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


Policy = Callable[[dict[str, Any]], ChatReply]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def outputs(body: Mapping[str, Any]) -> list[str]:
    """Return the texts of the tool answers in a request of either dialect, in their order."""
    found = [_plain(one["output"]) for one in body.get("input", ()) if one.get("type") == "function_call_output"]
    for message in body.get("messages", ()):
        content = message.get("content")
        if message["role"] == "tool":
            found.append(content if isinstance(content, str) else "".join(part.get("text", "") for part in content))
        elif message["role"] == "user" and isinstance(content, list):
            for part in content:
                if part.get("type") == "tool_result":
                    inner = part.get("content")
                    parts = inner if isinstance(inner, list) else [{"text": inner}]
                    found.append("".join(one.get("text") or "" for one in parts))
    return found
