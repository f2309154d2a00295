"""The answer in what a model wrote: one JSON object, whatever stands around it.

Models without an enforced schema write their reasoning first, put a fence or a sentence around the JSON, or write it
twice. Whoever expects plain JSON tries that first, which costs nothing here, and asks this module when it does not fit.
Only what has one possible meaning is put right; two different answers, or the beginning of one, are no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

# Returns whether a JSON text fits the schema that was asked for.
Fits = Callable[[str], bool]

MOST_OBJECTS = 64  # of a text: beyond them is a model that writes without end
_LEAST_OVERLAP = 8  # characters: fewer are the same by chance
# Around a model's reasoning, as open models are trained to write it: Qwen, DeepSeek and many others; Mistral; Cohere;
# Kimi.
_TAG = re.compile(
    r"<(?P<close>/)?(?:think|thinking|thought|reasoning|seed:think)>|\[(?P<close2>/)?THINK\]"
    r"|<\|(?:START|(?P<close3>END))_THINKING\|>|◁(?P<close4>/)?think▷"
)
# gpt-oss: channels of its reasoning, of what it says beside tool calls, and of the answer; a server that drops special
# tokens leaves their names in the text.
_FINAL = re.compile(r"<\|channel\|>\s*final\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_CHANNEL = "<|channel|>"
_CHANNEL_END = re.compile(r"<\|(?:end|return|start|call|channel)\|>")
_BARE_FINAL = re.compile(r"\s*analysis.*assistant\s?final", re.DOTALL)

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"\s+|{_STRING}|[{{}}\[\],:]|-?\d[\d.eE+-]*|true|false|null", re.DOTALL)
_UNFINISHED = re.compile(r'"(?:[^"\\]|\\.)*\\?\Z|(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|-)\Z', re.DOTALL)
_NUMBER_END = re.compile(r"(?:\d[\d.eE+-]*|-)\Z")
_OPENING = re.compile(r'\{\s*["}]')
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)
_FENCE_OPENING = re.compile(r"\s*```[a-z]*\s*\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class AnswerText:
    """What a text has for an answer.

    text: its JSON; where there is none, the text without its reasoning. done: what was done to get it, for the record.
    cut: the text is the beginning of a JSON object, with a part of its first name at least. problem: why it is no
    answer, None where it is one.
    """

    text: str
    done: tuple[str, ...] = ()
    cut: bool = False
    problem: str | None = None


class _Object(NamedTuple):
    """A JSON object in a text. text: as it can be parsed, which `mended` names a difference of. value: None of one that
    the text ends in."""

    start: int
    end: int
    text: str
    value: dict[str, Any] | None
    mended: str | None = None


def answer_in(text: str, fits: Fits | None = None) -> AnswerText:
    """Return the answer in a text. fits: of several different objects only those that fit count; where one alone does,
    it is the answer."""
    plain = text.lstrip("\ufeff \t\r\n")
    found = list(_objects(plain))
    body = _without_reasoning(plain, found)
    done: tuple[str, ...] = ()
    if body != plain:
        done, found = ("reasoning left out",), list(_objects(body))
    if not found:
        problem = "there is no JSON object in it" if body or not plain else "it is reasoning alone, without an answer"
        return AnswerText(body, done, problem=problem)
    whole = [one for one in found if one.value is not None]
    different = _different(whole)
    if len(different) > 1 and fits is not None:
        different = [one for one in different if fits(one.text)] or different
    if len(different) > 1:
        return AnswerText(body, done, problem=f"it has {len(different)} different answers, and it is to have one")
    if not different:
        return AnswerText(found[-1].text, done, cut=True, problem="it ends before its JSON does")
    answer = different[0]
    if (rest := found[-1]).value is None and not answer.text.startswith(rest.text):
        return AnswerText(body, done, problem="a second answer begins after the first")
    return AnswerText(answer.text, (*done, *_left_out(body, answer, whole)))


def continued(begun: str, rest: str, fits: Fits) -> AnswerText:
    """Return the answer of a text that was cut off, as `answer_in` found it, and of what its model wrote next: the rest
    alone, or the whole answer again.

    Where the first text ends within a number, the digits that follow may be the rest of it or all of it: the two are
    not put together then.
    """
    again = answer_in(rest, fits)
    if again.problem is None and fits(again.text):
        return AnswerText(again.text, (*again.done, "written again after it was cut off"))
    if _within_number(begun):
        return AnswerText(begun, cut=True, problem="it was cut off within a number, and not written again")
    piece = _FENCE_OPENING.sub("", _without_reasoning(rest, []), count=1).strip("\r\n")
    for joined in (begun + piece[_overlap(begun, piece) :], begun + piece):
        found = answer_in(joined, fits)
        if found.problem is None and fits(found.text):
            return AnswerText(found.text, (*found.done, "put together of two pieces"))
    return AnswerText(begun, cut=True, problem="what followed does not complete it")


def _left_out(body: str, answer: _Object, whole: list[_Object]) -> list[str]:
    said = [answer.mended] if answer.mended else []
    if len(whole) > 1:
        said.append("its copy left out" if len(_different(whole)) == 1 else "what does not fit left out")
    around = body[: answer.start] + body[answer.end :]
    if "```" in around:
        said.append("fence taken off")
    elif around.strip() and len(whole) == 1:
        said.append("text around it left out")
    return said


def _different(whole: list[_Object]) -> list[_Object]:
    found: list[_Object] = []
    for one in whole:
        if all(one.value != other.value for other in found):
            found.append(one)
    return found


def _objects(text: str) -> Iterator[_Object]:
    """Yield the JSON objects of a text that lie in no other; last the one that the text ends in, if it does. Linear in
    its length."""
    at = 0
    for _ in range(MOST_OBJECTS):
        at = text.find("{", at)
        if at < 0:
            return
        end, state = _span(text, at)
        if state == "cut":
            yield _Object(at, end, text[at:], None)
            return
        if state == "whole" and (found := _parsed(text, at, end)) is not None:
            yield found
        at = max(end, at + 1)


def _span(text: str, start: int) -> tuple[int, str]:
    """Return where the object that begins at `start` ends, and whether it is whole, cut off by the text's end, or no
    object: then the place where that shows."""
    if not _OPENING.match(text, start):
        return start + 1, "none"
    at, closing = start, list[str]()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return (len(text), "cut") if _UNFINISHED.match(text, at) else (at, "none")
        at, mark = token.end(), token[0]
        if mark in ("{", "["):
            closing.append("}" if mark == "{" else "]")
        elif mark in ("}", "]"):
            if closing.pop() != mark:
                return at, "none"
            if not closing:
                return at, "whole"
    return at, "cut"


def _parsed(text: str, start: int, end: int) -> _Object | None:
    piece = text[start:end]
    if (value := _loaded(piece)) is not None:
        return _Object(start, end, piece, value)
    without = _TRAILING_COMMA.sub(lambda found: found[1] or "", piece)
    if (value := _loaded(without, strict=False)) is None:
        return None
    mended = "a trailing comma left out" if without != piece else "line ends in its texts escaped"
    return _Object(start, end, json.dumps(value, ensure_ascii=False), value, mended)


def _loaded(text: str, *, strict: bool = True) -> dict[str, Any] | None:
    try:
        value = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_reasoning(text: str, objects: list[_Object]) -> str:
    """Return a text without the reasoning in it. A tag within an object is part of one of its texts. Reasoning that
    does not end is all that follows; one that only ends began with the text, or before it."""
    inside = [(one.start, one.end) for one in objects if one.value is not None]
    if _CHANNEL in text and not _within(text.find(_CHANNEL), inside):
        return _final_channel(text)
    if (bare := _BARE_FINAL.match(text)) is not None:
        return text[bare.end() :].lstrip("\r\n")
    kept, last, depth = "", 0, 0
    for tag in _TAG.finditer(text):
        if _within(tag.start(), inside):
            continue
        if any(tag.groupdict().values()):
            kept, depth = (kept, depth - 1) if depth else ("", 0)
        else:
            kept += text[last : tag.start()] if not depth else ""
            depth += 1
        last = tag.end()
    return (kept + ("" if depth else text[last:])).lstrip("\r\n") if last else text


def _within(place: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= place < end for start, end in spans)


def _final_channel(text: str) -> str:
    *_, last = (None, *_FINAL.finditer(text))
    if last is None:
        return ""
    end = _CHANNEL_END.search(text, last.end())
    return text[last.end() : end.start() if end else len(text)].lstrip("\r\n")


def _within_number(begun: str) -> bool:
    """Return whether a text that is the beginning of an object may end within a number."""
    return _NUMBER_END.search(begun) is not None and '"' not in re.sub(_STRING, "", begun, flags=re.DOTALL)


def _overlap(begun: str, piece: str) -> int:
    """Return how many of its first characters a piece repeats of the text before it."""
    for length in range(min(len(begun), len(piece)), _LEAST_OVERLAP - 1, -1):
        if begun.endswith(piece[:length]):
            return length
    return 0
