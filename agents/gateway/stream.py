"""The answer of a chat completions server from the pieces of its stream: reasoning apart, endless text ended."""

from __future__ import annotations

import io
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import aiohttp
import orjson
import structlog

from chordesk.agents.calls.call_reader import CallPieces, MadeCall, OfferedTools
from chordesk.agents.providers.completions import Apart, count

log = structlog.get_logger(__name__)

EVENT_BYTES = 8 * 1024 * 1024  # of one event of a stream
LARGE_BYTES = 1024 * 1024
DONE = b"[DONE]"
LEAST_BOUND = 20_000  # tokens of a request with pictures, and what a server puts in front by itself

# held: a text that may still turn out to be reasoning or an answer; it is told again then.
Kind = Literal["reasoning", "text", "call", "held"]
# What a server is asked for may come twice under the names of two dialects.
_REASONING = ("reasoning_content", "reasoning")


class Piece(NamedTuple):
    """A piece of an answer; `call` is a piece of a tool call."""

    kind: Kind
    text: str


class TooLarge(ValueError):
    """One event is larger than any answer."""


@dataclass(slots=True)
class ChatAnswer:
    """An answer as far as it came."""

    thinks: bool = False  # the model reasons, so that its text may begin within its reasoning
    tools: OfferedTools | None = None  # that it may call, as far as calls are read by them
    pieces: CallPieces = field(default_factory=CallPieces)
    finish: str | None = None  # why it ended, None where the server did not say so
    usage: Any = None
    model: str | None = None
    error: Mapping[str, Any] | None = None  # that the server told within the stream
    reasoned: bool = False
    _apart: Apart | None = None
    _raw: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self._apart.answer if self._apart is not None else ""

    @property
    def raw(self) -> str:
        """The text with the marks and the reasoning that the model wrote into it."""
        return "".join(self._raw)

    @property
    def reasoning(self) -> str:
        """What came as reasoning, apart from the text."""
        return "".join(self._reasoning)

    @property
    def calls(self) -> list[MadeCall]:
        return self.pieces.calls(self.tools)

    def take(self, chunk: Any) -> list[Piece]:
        if not isinstance(chunk, Mapping):
            return []
        if chunk.get("error"):
            error = chunk["error"]
            self.error = error if isinstance(error, Mapping) else {"message": str(error)}
            return []
        self.usage = chunk.get("usage") or self.usage
        self.model = str(chunk["model"]) if chunk.get("model") else self.model
        choices = chunk.get("choices")
        given = choices if isinstance(choices, list) else ()
        first = next((one for one in given if isinstance(one, Mapping) and not one.get("index")), None)
        if first is None:
            return []
        finish = first.get("finish_reason")
        self.finish = _LENGTHS.get(str(finish).lower(), str(finish)) if finish else self.finish
        delta = first.get("delta") or first.get("message")
        return list(self._pieces(delta)) if isinstance(delta, Mapping) else []

    def end(self) -> list[Piece]:
        return _pieces(self._apart.end()) if self._apart is not None else []

    def _pieces(self, delta: Mapping[str, Any]) -> Iterator[Piece]:
        reasoning = next((delta[name] for name in _REASONING if isinstance(delta.get(name), str)), "")
        content = delta.get("content")
        if isinstance(content, list):  # of parts, as Mistral has them
            reasoning += "".join(_part(part, "thinking") for part in content)
            content = "".join(_part(part, "text") for part in content)
        if reasoning:
            self.reasoned = True
            self._reasoning.append(reasoning)
            yield Piece("reasoning", reasoning)
        content = content or delta.get("refusal")
        if isinstance(content, str) and content:
            if self._apart is None:
                self._apart = Apart(hidden=self.thinks and not self.reasoned)
            self._raw.append(content)
            told = _pieces(self._apart.feed(content))
            yield from told or [Piece("held", content)]  # it counts, whatever it turns out to be
        called = delta.get("tool_calls")
        single = delta.get("function_call")
        given = called if isinstance(called, list) else [called] if called else [{"function": single}] if single else ()
        for call in given:
            if isinstance(call, Mapping):
                inner = call.get("function") or call.get("custom")
                function = inner if isinstance(inner, Mapping) else call
                text = self.pieces.add(call.get("index"), call.get("id"), function.get("name"), _given(function))
                yield Piece("call", text)


def _given(function: Mapping[str, Any]) -> Any:
    return next((function[name] for name in ("arguments", "parameters", "input") if name in function), None)


# Why an answer ended at its length, as servers say it.
_LENGTHS = dict.fromkeys(("max_tokens", "max_output_tokens", "model_length", "token_limit", "max_length"), "length")


class Body(NamedTuple):
    """A body by how it begins, whatever its label says. kind: None where it is neither."""

    kind: Literal["events", "json"] | None
    parts: AsyncIterator[bytes]


async def body_of(content: aiohttp.StreamReader, heard: Callable[[], None] = lambda: None) -> Body:
    """Waits for the first characters. heard: called with each part that says nothing yet."""
    source, first = content.iter_any(), b""
    async for part in source:
        first += part
        begun = first.lstrip(b"\xef\xbb\xbf \t\r\n")
        if begun[:1] in (b"{", b"[", b":") or len(begun) >= LONGEST_FIELD:
            break
        heard()
    begun = first.lstrip(b"\xef\xbb\xbf \t\r\n")
    is_json = begun[:1] in (b"{", b"[") and not begun.startswith(DONE)
    kind: Literal["events", "json"] | None = "json" if is_json else "events" if begun.startswith(_FIELDS) else None
    return Body(kind, _again(begun, source))


async def _again(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for part in rest:
        yield part


_FIELDS = (b":", b"data:", b"event:", b"id:", b"retry:", DONE)
LONGEST_FIELD = max(map(len, _FIELDS))


async def events(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes | None]:
    """Yield the data of each event of a stream, and None for whatever else comes, such as a comment or a blank line.

    Lines end with CR, LF or both. An event may have its data in several lines; some servers leave the blank line
    between two events out, or the name of the field. Raises TooLarge, and what reading raises."""
    buffer, lines, half = b"", EventLines(), False
    async for part in parts:
        part = part[1:] if half and part.startswith(b"\n") else part
        buffer = buffer + part if buffer else part
        found = buffer.splitlines(keepends=True)
        buffer = found.pop() if found and not found[-1].endswith((b"\n", b"\r")) else b""
        half = bool(found) and not buffer and found[-1].endswith(b"\r")
        if len(buffer) + lines.size > EVENT_BYTES:
            raise TooLarge(f"one event has more than {EVENT_BYTES:,} bytes")
        for line in found:
            for data in lines.take(line.strip()):
                yield data
        if not found:
            yield None  # a part of an event
    for data in (*lines.take(buffer.strip()), *lines.take(b"")):
        yield data


class EventLines:
    """The lines of events. size: bytes of the event that is not whole yet."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self.size = 0

    def take(self, line: bytes) -> list[bytes | None]:
        """line: without its end."""
        if not line:
            return self._end() or [None]
        if line.startswith(b"data:"):
            return self._add(line[5:].strip())
        if not self._data and (line == DONE or (line[:1] == b"{" and _is_whole(line))):
            return [line]
        return [None]

    def _add(self, data: bytes) -> list[bytes | None]:
        if data == DONE:
            return [*self._end(), data]
        if not self._data and _is_whole(data):
            return [data]
        self._data.append(data)
        self.size += len(data)
        joined = b"\n".join(self._data)
        return self._end() if _is_whole(joined) or _is_whole(b"".join(self._data)) else [None]

    def _end(self) -> list[bytes | None]:
        data, self._data, self.size = self._data, [], 0
        joined = b"\n".join(data)
        return [joined if _is_whole(joined) else b"".join(data)] if data else []


def _is_whole(data: bytes) -> bool:
    if data[:1] + data[-1:] not in (b"{}", b"[]"):
        return False
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def chunks_in(body: bytes) -> list[Any] | None:
    """Return what a whole body says: one JSON, or one a line; None where it is no JSON."""
    try:
        return [orjson.loads(body)]
    except orjson.JSONDecodeError:
        pass
    lines = [line for line in body.splitlines() if line.strip()]
    if len(lines) > 1 and all(map(_is_whole, (line.strip() for line in lines))):
        return [orjson.loads(line) for line in lines]
    return None


def sendable(body: bytes) -> bytes | io.BytesIO:
    """Return a body as it can be sent in parts, so that one with pictures does not hold up everything else."""
    return body if len(body) < LARGE_BYTES else io.BytesIO(body)


async def beginning(
    content: aiohttp.StreamReader | AsyncIterator[bytes], most: int, heard: Callable[[], None] = lambda: None
) -> bytes:
    """Return a body, or so many bytes of one that is longer. heard: called with each part that comes."""
    parts, size = [], 0
    async for part in content.iter_any() if isinstance(content, aiohttp.StreamReader) else content:
        heard()
        parts.append(part)
        if (size := size + len(part)) >= most:
            break
    return b"".join(parts)[:most]


def usage_of(told: Any, sent: int, most_written: int) -> dict[str, Any] | None:
    """None without counts that can be true. sent: characters of the request. most_written: tokens of the answer at
    most."""
    if not isinstance(told, Mapping):
        return None
    read = count(told.get("prompt_tokens"), LEAST_BOUND + sent)
    written = count(told.get("completion_tokens"), most_written)
    if not read or written is None:
        log.warning("usage.not_credible", usage=str(told)[:300])
        return None
    cached = _detail(told, "prompt_tokens_details", "cached_tokens", read)
    reasoned = _detail(told, "completion_tokens_details", "reasoning_tokens", written)
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": reasoned},
        "total_tokens": read + written,
    }


def added(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if one is None or other is None:
        return None
    return {
        name: added(value, other[name]) if isinstance(value, Mapping) else value + other[name]
        for name, value in one.items()
    }


def with_own_ids(calls: list[MadeCall], used: set[str]) -> list[MadeCall]:
    """Return the calls with ids that no other call of the conversation has. used: those that some had before."""
    seen = set(used)
    for call in calls:
        if not call.id or call.id in seen:
            call.id = new_call_id()
        seen.add(call.id)
    return calls


def new_call_id() -> str:
    return uuid.uuid4().hex[:9]


def _pieces(told: list[tuple[bool, str]]) -> list[Piece]:
    return [Piece("reasoning" if reasoning else "text", text) for reasoning, text in told]


def _part(part: Any, name: str) -> str:
    if not isinstance(part, Mapping):
        return ""
    found = part.get(name)
    return "".join(_part(one, "text") for one in found) if isinstance(found, list) else str(found or "")


def _detail(told: Mapping[str, Any], group: str, name: str, most: int) -> int:
    found = told.get(group)
    return (count(found.get(name), most) if isinstance(found, Mapping) else None) or 0


# Answers that do not end: how they are noticed, and the schema that makes one end.
#
# A weak model that is held to a schema can say nothing but what fits, and so says the same item of a list, or the same
# words of a sentence, until its context is full. Where the server keeps to the schema, one with bounds ends the answer.

SHORT_CHARS = 280
CALL_CHARS = 24  # of a text among the arguments of a call
SHORT_ITEMS = 4
REPEATED_CHARS = 600  # at the least; half a page
REPEATED_TIMES = 10
_KEPT_CHARS = 2_000
_LOOK_CHARS = 150  # between two looks: some forty tokens
_MARK = 24


class Repeats:
    """Notices a text that goes on saying the same. found: what it says, None while it does not."""

    def __init__(self) -> None:
        self.found: str | None = None
        self._tail, self._new = "", 0

    def add(self, text: str) -> None:
        self._tail = (self._tail + text)[-_KEPT_CHARS:]
        self._new += len(text)
        if self._new >= _LOOK_CHARS:
            self._new, self.found = 0, repeated(self._tail)


def repeated(text: str) -> str | None:
    """Return what the end of a text says again and again, None where it does not."""
    before = text.rfind(text[-_MARK:], 0, -1)
    period = len(text) - _MARK - before
    size = max(REPEATED_CHARS, REPEATED_TIMES * period)
    if before < 0 or size > len(text):
        return None
    end = text[-size:]
    return end[-period:] if end[period:] == end[:-period] else None


def shortened(schema: Any, chars: int = SHORT_CHARS) -> Any:
    """Return a schema whose every text and list has an end. chars: of a text."""
    if isinstance(schema, list):
        return [shortened(one, chars) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("properties", "$defs"):  # their names are no keywords
            inner[key] = {name: shortened(one, chars) for name, one in value.items()}
        elif key not in ("enum", "const"):
            inner[key] = shortened(value, chars)
    return {**schema, **inner, **_bounds(schema, chars)}


def _bounds(schema: Mapping[str, Any], chars: int) -> dict[str, int]:
    if schema.get("type") == "array":
        return {"maxItems": max(schema.get("minItems", 0), min(schema.get("maxItems", SHORT_ITEMS), SHORT_ITEMS))}
    if schema.get("type") == "string" and not {"enum", "const", "pattern", "format"} & schema.keys():
        return {"maxLength": max(schema.get("minLength", 0), min(schema.get("maxLength", chars), chars))}
    return {}
