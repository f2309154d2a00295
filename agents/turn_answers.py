"""Answers of models: the JSON in what a model wrote, the tool calls beside it, and the judgement of the turn."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from chordesk.agents.providers.liveness import RAISE
from chordesk.agents.runtime import TurnResult, WebSearch
from chordesk.models.answers import Completed, Failed, Interrupted, Outcome, Refused
from chordesk.models.events import short
from chordesk.tools.registry import ToolAnswer


class RecordedCall(NamedTuple):
    """One tool call of the model, with its whole answer."""

    arguments: Mapping[str, Any]
    answer: ToolAnswer
    at: dt.datetime


class AnswerError(ValueError):
    """The answer contradicts the tool answers of its turn. The message goes back to the model for one repair."""


# Takes an answer as its schema dumps it, the turn's subject and the turn's tool calls; returns the answer with what
# code adds. Raises AnswerError.
Completion = Callable[[dict[str, Any], Mapping[str, Any], Sequence[RecordedCall]], dict[str, Any]]

# Takes a turn's subject and its tool calls; returns whether there was anything to judge by.
Evidence = Callable[[Mapping[str, Any], Sequence[RecordedCall]], bool]


# The answer in what a model wrote: one JSON object, whatever stands around it.
#
# Models without an enforced schema write their reasoning first, put a fence or a sentence around the JSON, or write it
# twice. Whoever expects plain JSON tries that first, which costs nothing here, and asks this module when it does not
# fit. Only what has one possible meaning is put right; two different answers, or the beginning of one, do not count.

# Returns whether a JSON text fits the schema that was asked for.
Fits = Callable[[str], bool]

KEPT_TEXT_CHARS = 16_000  # of a turn's text; the whole is in the thread's rollout
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
    """The answer in a model's text."""

    text: str  # its JSON, else the text without its reasoning
    done: tuple[str, ...] = ()  # the steps to get it, for the record
    cut: bool = False  # the text is the beginning of a JSON object, with part of its first name at least
    problem: str | None = None  # why it is not an answer, else None


class _Object(NamedTuple):
    start: int
    end: int
    text: str  # as it can be parsed, which `mended` names a difference of
    value: dict[str, Any] | None  # None of one that the text ends in
    mended: str | None = None


def answer_in(text: str, fits: Fits | None = None) -> AnswerText:
    """fits: of several different objects only those that fit count; where one alone does, it is the answer."""
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
    """The whole answer: the beginning with the rest, the rest alone, or the answer again. Where the first text ends
    within a number, the following digits may be its rest or all of it: these are not put together."""
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
    """Yield the JSON objects that lie in no other; last the one that the text ends in. Linear in its length."""
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
    """Where the object ends, and whether it is whole, cut off, or not an object: then the place where that shows."""
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
    if (value := loaded(piece)) is not None:
        return _Object(start, end, piece, value)
    without = _TRAILING_COMMA.sub(lambda found: found[1] or "", piece)
    if (value := loaded(without, strict=False)) is None:
        return None
    mended = "a trailing comma left out" if without != piece else "line ends in its texts escaped"
    return _Object(start, end, json.dumps(value, ensure_ascii=False), value, mended)


def loaded(text: str, *, strict: bool = True) -> dict[str, Any] | None:
    try:
        value = json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _without_reasoning(text: str, objects: list[_Object]) -> str:
    """A tag within an object is part of its texts. Unclosed reasoning runs to the end."""
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
    return _NUMBER_END.search(begun) is not None and '"' not in re.sub(_STRING, "", begun, flags=re.DOTALL)


def _overlap(begun: str, piece: str) -> int:
    for length in range(min(len(begun), len(piece)), _LEAST_OVERLAP - 1, -1):
        if begun.endswith(piece[:length]):
            return length
    return 0


# The judgement of one turn: its outcome by the role's schema, and what the model is asked after an answer that is not
# taken.

_EXCERPT_CHARS = 300
_MOST_FAULTS = 8  # told at once: there is one repair for all of them
# Stands between the fault of an answer and its first characters.
_EXCERPT_MARK = "; the answer began: "
GO_ON = (
    "Your answer was cut off. Go on exactly where it ended, with the rest of the JSON alone. If you can only write a "
    "whole answer, write it again, and shorter."
)


class Judged(NamedTuple):
    """What one turn came to."""

    outcome: Outcome
    done: Sequence[str] = ()  # what was done to read its answer
    begun: str | None = None  # the beginning of an answer that was cut off, which the model may go on with


def judge(result: TurnResult, output: type[BaseModel], begun: str | None = None) -> Judged:
    """An answer counts only when it fits the role's schema. begun: what the turn before had of a cut-off answer."""
    if result.status == "interrupted":
        return Judged(Interrupted())
    if result.failure is not None:
        return Judged(Failed(**storable(result.failure.model_dump())))
    if result.refusal is not None:
        return Judged(Refused(text=storable(result.refusal)))
    try:
        return Judged(_taken(output, result.text))
    except ValidationError as error:
        first = error
    found = answer_in(result.text, fits(output)) if begun is None else continued(begun, result.text, fits(output))
    try:
        if found.problem is None:
            return Judged(_taken(output, found.text), found.done)
    except ValidationError as error:
        first = error
    if begun is not None or result.cut or found.cut:
        return Judged(cut_off(result, begun, found.problem), found.done, found.text if found.cut else None)
    return Judged(_unfit(result, first, found), found.done)


def _taken(output: type[BaseModel], text: str) -> Completed:
    return Completed(value=storable(output.model_validate_json(text).model_dump(mode="json")))


def fits(output: type[BaseModel]) -> Fits:
    def fit(text: str) -> bool:
        try:
            output.model_validate_json(text)
        except ValidationError:
            return False
        return True

    return fit


def _unfit(result: TurnResult, error: ValidationError, found: AnswerText) -> Failed:
    faults = error.errors(include_url=False, include_context=False)
    said = [f"{'.'.join(map(str, one['loc'])) or 'the answer'}: {one['msg']}" for one in faults[:_MOST_FAULTS]]
    problem = f"the answer: {found.problem}" if found.problem else "; ".join(said)
    message = f"{problem}{_EXCERPT_MARK}{storable(result.text)[:_EXCERPT_CHARS]!r}"
    return Failed(kind="invalid_output", retryable=False, message=message)


def cut_off(result: TurnResult, begun: str | None, problem: str | None) -> Failed:
    """Return the failure of an answer that ends too early. Where the runtime does not say that its length was the
    reason, the server may have a limit of its own. begun: what the answer before had of it, None where it is the first
    one; problem: why the two are not a whole answer."""
    written = result.usage.output_tokens
    after = f"{len(result.text):,} characters" + (f", {written:,} tokens" if written else "")
    again = "" if begun is None else f"; asked to go on from {len(begun):,} characters: {problem or 'no fit'}"
    raises = RAISE["output"] if result.cut else f"{RAISE['output']}, or the limit of the server itself"
    message = f"the answer was cut off after {after}{again}; {raises}"
    return Failed(kind="length", retryable=False, message=message)


def next_text(outcome: Outcome, begun: str | None) -> str | None:
    """Return the next message to the model after its answer, or None. An assignment has two turns at most: an answer
    that does not fit gets one repair, a cut-off answer one turn to go on, and neither is followed by the other."""
    if not isinstance(outcome, Failed):
        return None
    if outcome.kind == "length":
        return GO_ON if begun is not None else None
    return repair_text(outcome.message) if outcome.kind == "invalid_output" else None


def repair_text(problem: str) -> str:
    return (
        "Your last answer does not fit the required schema. Answer again with JSON that fits it and nothing else; "
        f"change only what is wrong. The problem: {problem}"
    )


def fault(outcome: Failed) -> str:
    return outcome.message.partition(_EXCERPT_MARK)[0] if outcome.kind == "invalid_output" else outcome.message


def storable(value: Any) -> Any:
    """Return a value without NUL characters, which a model may write and Postgres cannot hold in text."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {key: storable(item) for key, item in value.items()}
    return value


# The record of what a role's model searched and opened. The search is the provider's: the desk sees the queries and the
# pages opened, not what they gave.
_SEARCH_TOOL = "web_search"
_MOST_RESULTS = 20


def recorded(search: WebSearch, hosts: Sequence[str] | None) -> RecordedCall:
    """Return a search as a tool call. It has no data of ours, and has failed where a page is of no allowed host."""
    urls = [url for url in (search.url, *search.results) if url]
    outside = [url for url in urls if hosts and not _hosted(url, hosts)]
    error = "this role may not search the web" if hosts is None else ""
    if outside:
        error = f"not of the hosts of DESK_WEB_SEARCH: {', '.join(short(url) for url in outside[:_MOST_RESULTS])}"
    payload: dict[str, Any] = {
        "action": search.action,
        "url": search.url and short(search.url),
        "results": [short(url) for url in search.results[:_MOST_RESULTS]] or None,
        "note": "the provider's own search: its results are not reported to the desk" if not search.results else None,
        **({"error": error, "success": False} if error else {}),
    }
    arguments = {"queries": [short(query) for query in search.queries]}
    return RecordedCall(arguments, ToolAnswer(_SEARCH_TOOL, not error, payload, False, False, 0.0), search.at)


def _hosted(url: str, hosts: Sequence[str]) -> bool:
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return False
    return any(host == name or host.endswith(f".{name}") for name in hosts)
