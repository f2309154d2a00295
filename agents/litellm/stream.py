"""A model's reply as it comes: put together from the chunks of the library, each of them a life sign of its turn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from chordesk.agents.answer_text import answer_in
from chordesk.agents.litellm.messages import ModelCall
from chordesk.agents.pulse import Pulse
from chordesk.models.tables.columns import new_id

# Where a model writes its reasoning into its text: what it opens with, and what ends it.
_THOUGHTS = {
    "<think": "</think", "<thought": "</thought", "<reasoning": "</reasoning", "<seed:think": "</seed:think",
    "[THINK]": "[/THINK]", "<|START_THINKING|>": "<|END_THINKING|>", "\u25c1think\u25b7": "\u25c1/think\u25b7",
    "<|channel|>analysis": "<|channel|>final",
}  # fmt: skip


@dataclass(slots=True)
class _Call:
    """A tool call on its way. place: of its pieces; id: None where the provider gives none."""

    place: int
    id: str | None
    name: str
    arguments: list[str] = field(default_factory=list)


class Reply:
    """A reply on its way. finish: why it ended, None where it did not end. cut: it ended at the bound of its length.

    thinking: blocks of reasoning with their signatures, which go back to the model that wrote them; reasoning without
    one is counted and left out.
    """

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._calls: list[_Call] = []
        self._thoughts = _Thoughts()
        self.thinking: list[Any] = []
        self.finish: str | None = None

    def take(self, delta: Any) -> None:
        """Take a piece of a stream, or a whole message."""
        blocks = getattr(delta, "thinking_blocks", None) or ()
        self.thinking += [block for block in blocks if block.get("signature") or block.get("data")]
        reasoning = getattr(delta, "reasoning_content", None)
        if reasoning or blocks:
            self._pulse.reasons(reasoning or "")
        if text := getattr(delta, "content", None):
            self._text.append(text)
            (self._pulse.reasons if self._thoughts.go_on(text) else self._pulse.writes)(text)
        for place, call in enumerate(getattr(delta, "tool_calls", None) or ()):
            self._take_call(call, getattr(call, "index", None) or place)

    def refuse(self, piece: str) -> None:
        """Take a piece of a refusal."""
        self._pulse.writes(piece)
        self._refusal.append(piece)

    def _take_call(self, piece: Any, place: int) -> None:
        """Take a piece of a tool call. Some providers give no ids, one place to several calls, or a name each time."""
        name, arguments = piece.function.name or "", piece.function.arguments or ""
        self._pulse.writes(name + arguments)
        last = next((one for one in reversed(self._calls) if one.place == place), None)
        another = last is not None and piece.id and last.id and piece.id != last.id
        again = last is not None and name and not piece.id and last.arguments
        if last is None or another or again:
            last = _Call(place, piece.id, name)
            self._calls.append(last)
        last.id, last.name = last.id or piece.id, last.name or name
        if arguments:
            last.arguments.append(arguments)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def bare_text(self) -> str:
        """The text without the reasoning that a model wrote into it."""
        return answer_in(self.text).text

    @property
    def refusal(self) -> str | None:
        return "".join(self._refusal) or None

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        found: dict[str, ModelCall] = {}
        for call in self._calls:
            id_ = call.id if call.id and call.id not in found else new_id()
            found[id_] = ModelCall(id_, call.name, "".join(call.arguments) or "{}")
        return tuple(found.values())

    @property
    def cut(self) -> bool:
        return self.finish == "length"

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return bool(self._text or self._calls or self._refusal or self.thinking or self._pulse.tokens)

    @property
    def whole(self) -> bool:
        """Whether it is complete by what it says: some providers do not say why a stream ended."""
        return all(map(_is_object, (call.arguments for call in self.calls))) if self._calls else _answers(self.text)


class _Thoughts:
    """Watches for reasoning at the beginning of a text that comes in pieces."""

    def __init__(self) -> None:
        self._end: str | None = None
        self._tail: str | None = ""  # what may be a part of a mark; None once there is no reasoning any more

    def go_on(self, piece: str) -> bool:
        """Return whether this piece is reasoning."""
        if self._tail is None:
            return False
        text = (self._tail + piece).lstrip() if self._end is None else self._tail + piece
        if self._end is None:
            return self._begin(text)
        if self._end in text:
            self._tail = None
        else:
            self._tail = text[-len(self._end) :]
        return True

    def _begin(self, text: str) -> bool:
        self._tail = text
        for begin, end in _THOUGHTS.items():
            if text.startswith(begin):
                self._end = end
                return self.go_on("")
        if not any(begin.startswith(text) for begin in _THOUGHTS):
            self._tail = None
        return False


async def refusals_to(reply: Reply, chunks: Any) -> AsyncIterator[Any]:
    """Yield the chunks of OpenAI's stream as they are; the library drops the pieces of a refusal in them."""
    try:
        async for chunk in chunks:
            for choice in getattr(chunk, "choices", None) or ():
                if piece := getattr(getattr(choice, "delta", None), "refusal", None):
                    reply.refuse(piece)
            yield chunk
    finally:
        close = getattr(chunks, "aclose", None) or getattr(chunks, "close", None)
        if close is not None and (closing := close()) is not None:
            await closing


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        return False


def _answers(text: str) -> bool:
    return answer_in(text).problem is None
