"""Chat completions as the gateway and the LiteLLM runtime both read them: failures, tools, counts, and the reasoning in
a model's text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from chordesk.agents.providers.liveness import Liveness

# Kinds of failures by the status of an answer; of a status that is not here, `kind_of_status` knows.
_BY_STATUS = {
    400: "bad_request", 401: "unauthorized", 402: "no_credit", 403: "unauthorized", 404: "not_found",
    405: "not_found", 408: "server_error", 413: "context_window", 422: "bad_request", 429: "rate_limited",
    503: "overloaded", 529: "overloaded",
}  # fmt: skip
OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window|overflow)(?!_id)|maximum context|prompt is too long|input is too long"
    r"|too many tokens|n_ctx",
    re.IGNORECASE,
)  # what servers say of a prompt that does not fit


def kind_of_status(status: int) -> str:
    return _BY_STATUS.get(status, "bad_request" if status < 500 else "server_error")


def count(value: Any, most: int) -> int | None:
    return value if type(value) is int and 0 <= value <= most else None


def function_tool(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def same_model(one: str, other: str) -> bool:
    """Return whether two names are of one model: folders, endings and dates of versions may be left out."""
    first, second = (
        name.rpartition("/")[2].lower().removesuffix(".gguf").removesuffix(":latest") for name in (one, other)
    )
    return first.startswith(second) or second.startswith(first)


def is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except (orjson.JSONDecodeError, TypeError):
        return False


def sendable(arguments: Any) -> str:
    """Some servers parse arguments, and refuse what is not a JSON object."""
    return arguments if is_object(arguments) else "{}"


# Reasoning in a model's text kept apart from its answer, as the text comes in pieces.
#
# Models put their reasoning in front of the answer: between tags, or in channels (harmony, of gpt-oss). A tag that
# comes once the answer has begun is a part of it.

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<scratch_pad>": "</scratch_pad>",
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
_MOST_BLOCKS = 8  # of reasoning, one after another
# What is left of the channels where a server drops their tokens.
_BARE = re.compile(r"\s*analysis(.*?)assistant\s?final", re.DOTALL)


def without_reasoning(text: str) -> str:
    """Return a whole text without the tagged reasoning before it, whose opening tag may have been part of the prompt.
    Channels stay: a call may be in one."""
    for _ in range(_MOST_BLOCKS):
        bare = text.lstrip()
        opened = next((mark for mark in _TAGS if bare.startswith(mark)), None)
        if opened is not None:
            _, closed, rest = bare.partition(_TAGS[opened])
        else:
            place, closed = _first(bare, _CLOSINGS)
            rest = bare[place + len(closed) :]
            if closed and any(mark in bare[:place] for mark in (*_TAGS, "{")):
                break
        if not closed:
            break
        text = rest
    return text


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
        self._rest += text
        return list(self._told(last=False))

    def heard(self, text: str, liveness: Liveness) -> None:
        """Report a further piece of the text to a liveness; what is held back counts, whatever it turns out to be."""
        pieces = self.feed(text)
        for reasoning, piece in pieces:
            (liveness.reasons if reasoning else liveness.writes)(piece)
        if not pieces:
            liveness.reasons(text)

    def end(self) -> list[SplitPiece]:
        """The text still held back. A closing tag without a beginning ends reasoning: the text before it is no
        answer."""
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
        rest = self._rest.lstrip()
        return () if self._begun else tuple(mark for mark in _OPENINGS if rest.startswith(mark))

    def _possible(self) -> tuple[str, ...]:
        if self._channels:
            return _ENDS
        return () if self._begun or self._rest.lstrip().startswith("{") else _OPENINGS


def _first(text: str, marks: tuple[str, ...]) -> tuple[int, str]:
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
