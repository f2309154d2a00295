"""The answer of a chat completions server from the pieces of its stream: reasoning apart, endless text ended."""

from __future__ import annotations

import io
import re
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import aiohttp
import orjson
import structlog

# Reasoning in a model's text kept apart from its answer, as the text comes in pieces.
#
# Models put their reasoning in front of the answer: between tags, or in channels (harmony, of gpt-oss). A tag that
# comes once the answer has begun is a part of it.

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "◁think▷": "◁/think▷",
}
_CHANNEL, _START, _MESSAGE = "<|channel|>", "<|start|>", "<|message|>"
_ENDS = ("<|end|>", "<|return|>", "<|call|>", _START, _CHANNEL)
_OPENINGS = (*_TAGS, _CHANNEL, _START)
_CLOSINGS = tuple(_TAGS.values())
_LONGEST = max(map(len, _CLOSINGS))
# What is left of the channels where a server drops their tokens.
_BARE = re.compile(r"\s*analysis(.*?)assistant\s?final", re.DOTALL)

SplitPiece = tuple[bool, str]  # whether it is reasoning, and the text


class Apart:
    """The text of one answer. hidden: the answer may begin within its reasoning, whose opening tag was a part of the
    prompt; nothing is taken for an answer until the closing one has come, or the end.

    answer: all of it so far. reasoned: its reasoning came in tags or channels.
    """

    def __init__(self, hidden: bool = False) -> None:
        self.answer = ""
        self.reasoned = False
        self._rest = ""
        self._until: tuple[str, ...] = _CLOSINGS if hidden else ()
        self._guess, self._looked = hidden, 0
        self._channels = self._heading = self._begun = False

    def feed(self, text: str) -> list[SplitPiece]:
        """Return what can be told of a further piece of the text."""
        self._rest += text
        return list(self._told(last=False))

    def end(self) -> list[SplitPiece]:
        """Return what was still held back. A closing tag that stands in the answer after all ends a reasoning that had
        no beginning: what came before it is none of the answer."""
        pieces = list(self._told(last=True))
        if self._guess:  # no tag ever came: it was the answer
            self._guess, self._until = False, ()
            pieces += list(self._told(last=True))
        self.answer = _without(self.answer).strip()
        return pieces

    def _told(self, *, last: bool) -> Iterator[SplitPiece]:
        while self._rest:
            if self._guess:
                if not self._ends_guess():
                    return
            elif self._until:
                yield from self._reasoning(last)
                if self._until:
                    return
            elif self._heading:
                if not self._head():
                    return
            else:
                place, mark = _first(self._rest, _ENDS if self._channels else self._openings())
                text, held = (self._rest[:place], "") if mark else _safe(self._rest, self._possible(), last)
                self._rest = self._rest[place + len(mark) :] if mark else held
                if text:
                    self.answer += text
                    self._begun = self._begun or not text.isspace()
                    yield False, text
                if not mark:
                    return
                self._open(mark)

    def _ends_guess(self) -> bool:
        """Look for the closing tag of a reasoning that may have begun in the prompt."""
        begun = self._rest[:64].lstrip()
        if begun.startswith(("{", *_OPENINGS)):
            self._guess, self._until = False, ()
            return True
        mark = _first(self._rest[self._looked :], _CLOSINGS)[1]
        self._looked = max(0, len(self._rest) - _LONGEST)
        if mark:
            self._guess, self._until = False, (mark,)
        return bool(mark)

    def _reasoning(self, last: bool) -> Iterator[SplitPiece]:
        self.reasoned = True
        place, mark = _first(self._rest, self._until)
        text, held = (self._rest[:place], "") if mark else _safe(self._rest, self._until, last)
        self._rest = self._rest[place + len(mark) :] if mark else held
        if text:
            yield True, text
        if mark:
            self._until = ()
            if self._channels:
                self._open(mark)
            else:
                self._rest = self._rest.lstrip()

    def _open(self, mark: str) -> None:
        if mark in _TAGS:
            self._until = (_TAGS[mark],)
        else:
            self._channels, self._heading = True, mark in (_CHANNEL, _START)

    def _head(self) -> bool:
        """Read the head of a channel, up to its text; it says whose text it is."""
        place = self._rest.find(_MESSAGE)
        if place < 0:
            return False
        head, self._rest = self._rest[:place], self._rest[place + len(_MESSAGE) :]
        channel = head.rpartition(_CHANNEL)[2].strip().partition(" ")[0]
        self._heading, self._until = False, () if channel.startswith("final") else _ENDS
        return True

    def _openings(self) -> tuple[str, ...]:
        """Return the marks that may come now: none once the answer has begun."""
        rest = self._rest.lstrip()
        return () if self._begun else tuple(mark for mark in _OPENINGS if rest.startswith(mark))

    def _possible(self) -> tuple[str, ...]:
        if self._channels:
            return _ENDS
        return () if self._begun or self._rest.lstrip().startswith("{") else _OPENINGS


def _first(text: str, marks: tuple[str, ...]) -> tuple[int, str]:
    """Return the place of the first of some marks in a text, and that mark; an empty one where there is none."""
    found = [(place, mark) for mark in marks if (place := text.find(mark)) >= 0]
    return min(found, default=(-1, ""))


def _safe(text: str, marks: tuple[str, ...], last: bool) -> tuple[str, str]:
    """Return the text up to what may be the beginning of a mark, and the rest."""
    if not last:
        for size in range(min(len(text), max(map(len, marks), default=0)), 0, -1):
            if any(mark.startswith(text[-size:]) for mark in marks if len(mark) > size):
                return text[:-size], text[-size:]
    return text, ""


def _without(answer: str) -> str:
    if answer.lstrip().startswith("{"):
        return answer
    place = max((answer.rfind(mark) + len(mark) for mark in _CLOSINGS if mark in answer), default=0)
    answer = answer[place:]
    return answer[bare.end() :] if (bare := _BARE.match(answer)) is not None else answer


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
class MadeCall:
    """A tool call of the model. arguments: text, which may be no JSON."""

    id: str
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChatAnswer:
    """An answer as far as it came. thinks: the model reasons, so that its text may begin within its reasoning.

    finish: why it ended, None where the server did not say so. error: that the server told within the stream.
    """

    thinks: bool = False
    calls: list[MadeCall] = field(default_factory=list)
    finish: str | None = None
    usage: Any = None
    model: str | None = None
    error: Mapping[str, Any] | None = None
    reasoned: bool = False
    _apart: Apart | None = None
    _places: dict[Any, MadeCall] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self._apart.answer if self._apart is not None else ""

    def take(self, chunk: Any) -> list[Piece]:
        """Add one event, or a whole answer, and return its pieces of the first choice."""
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
        self.finish = first.get("finish_reason") or self.finish
        delta = first.get("delta") or first.get("message")
        return list(self._pieces(delta)) if isinstance(delta, Mapping) else []

    def end(self) -> list[Piece]:
        """Return what was held back of the text, at the end of the answer."""
        return _pieces(self._apart.end()) if self._apart is not None else []

    def _pieces(self, delta: Mapping[str, Any]) -> Iterator[Piece]:
        reasoning = next((delta[name] for name in _REASONING if isinstance(delta.get(name), str)), "")
        content = delta.get("content")
        if isinstance(content, list):  # of parts, as Mistral has them
            reasoning += "".join(_part(part, "thinking") for part in content)
            content = "".join(_part(part, "text") for part in content)
        if reasoning:
            self.reasoned = True
            yield Piece("reasoning", reasoning)
        content = content or delta.get("refusal")
        if isinstance(content, str) and content:
            if self._apart is None:
                self._apart = Apart(hidden=self.thinks and not self.reasoned)
            told = _pieces(self._apart.feed(content))
            yield from told or [Piece("held", content)]  # it counts, whatever it turns out to be
        called = delta.get("tool_calls")
        single = delta.get("function_call")
        for call in called if isinstance(called, list) else [{"function": single}] if single else ():
            if isinstance(call, Mapping) and isinstance(call.get("function"), Mapping):
                yield self._call(call, call["function"])

    def _call(self, piece: Mapping[str, Any], function: Mapping[str, Any]) -> Piece:
        """Add a piece of a tool call: one with an index or an id of its own begins or continues that call, one with
        neither continues the last, unless it has a name."""
        name, arguments = function.get("name") or "", function.get("arguments")
        text = (
            arguments if isinstance(arguments, str) else "" if arguments is None else orjson.dumps(arguments).decode()
        )
        place = found if type(found := piece.get("index")) is int else None
        id_ = str(piece.get("id") or "")
        made = self._places.get(place) if place is not None else self.calls[-1] if self.calls else None
        # Some servers give every call of an answer the index 0.
        another = made is not None and bool(name) and bool(made.name) and (id_ not in ("", made.id) or bool(text))
        if made is None or (place is None and name) or (another and is_json(made.arguments)):
            made = MadeCall(id_)
            self.calls.append(made)
            self._places[place] = made
        made.id = made.id or id_
        made.name = made.name or str(name)
        made.arguments += text
        return Piece("call", text or str(name))


async def events(content: aiohttp.StreamReader) -> AsyncIterator[bytes | None]:
    """Yield the data of each event of a stream, and None for whatever else comes, such as a comment or a blank line.

    Raises TooLarge, and what reading raises.
    """
    buffer = b""
    async for part in content.iter_any():
        buffer = buffer + part if buffer else part
        lines = buffer.splitlines(keepends=True)
        buffer = lines.pop() if lines and not lines[-1].endswith((b"\n", b"\r")) else b""
        if len(buffer) > EVENT_BYTES:
            raise TooLarge(f"one event has more than {EVENT_BYTES:,} bytes")
        for line in lines:
            if (told := line.strip()).startswith(b"data:"):
                yield told[5:].strip()
            else:
                yield None
        if not lines:
            yield None  # a part of an event
    if (told := buffer.strip()).startswith(b"data:"):
        yield told[5:].strip()


def sendable(body: bytes) -> bytes | io.BytesIO:
    """Return a body as it can be sent in parts, so that one with pictures does not hold up everything else."""
    return body if len(body) < LARGE_BYTES else io.BytesIO(body)


async def beginning(content: aiohttp.StreamReader, most: int, heard: Callable[[], None] = lambda: None) -> bytes:
    """Return a body, or so many bytes of one that is longer. heard: called with each part that comes."""
    parts, size = [], 0
    async for part in content.iter_any():
        heard()
        parts.append(part)
        if (size := size + len(part)) >= most:
            break
    return b"".join(parts)[:most]


def usage_of(told: Any, sent: int, most_written: int) -> dict[str, Any] | None:
    """Return the tokens of a call as the Responses API has them; None where the server told none that can be true.
    sent: characters of the request, none of which is more than a few tokens. most_written: tokens that the answer
    might have."""
    if not isinstance(told, Mapping):
        return None
    read = _count(told.get("prompt_tokens"), LEAST_BOUND + sent)
    written = _count(told.get("completion_tokens"), most_written)
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
    """Return the tokens of two calls; None where those of one are not known."""
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


def is_json(arguments: str) -> bool:
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def new_call_id() -> str:
    """Return an id in the form that the narrowest template takes: nine letters or digits."""
    return uuid.uuid4().hex[:9]


def _pieces(told: list[tuple[bool, str]]) -> list[Piece]:
    return [Piece("reasoning" if reasoning else "text", text) for reasoning, text in told]


def _part(part: Any, name: str) -> str:
    if not isinstance(part, Mapping):
        return ""
    found = part.get(name)
    return "".join(_part(one, "text") for one in found) if isinstance(found, list) else str(found or "")


def _count(value: Any, most: int) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def _detail(told: Mapping[str, Any], group: str, name: str, most: int) -> int:
    found = told.get(group)
    return (_count(found.get(name), most) if isinstance(found, Mapping) else None) or 0


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
