"""The toolset of one turn: a role's tools bound to their context, with a time limit and a record of each call."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import orjson
import structlog
from pydantic import BaseModel, ValidationError

from chordesk.models import home
from chordesk.models.answers import RogueKind
from chordesk.models.database.blobs import keep
from chordesk.models.errors import DeskError
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.prices.price_figures import load_talib
from chordesk.tools.registry import ToolAnswer, ToolContext, ToolImage, ToolSpec, failed

LEFT_OUT = "leftOut"
WHY = "no room in the model's context; ask for less at a time"
TEXT_ROW = 100  # characters of a text that count as a row of it
SHORT_LIST = 8  # such lists of single values stay whole: names of columns, a few risks
TABLE = 12  # a mapping of more objects than this is a table by name
SHOWN_NAMES = 200
CALL_TOKENS = 20  # of a call and its answer, beside their JSON
IMAGE_TOKENS = 1_500  # assumed: a server does not say what a picture takes
_TIMES = ("date", "at", "time", "day", "publishedAt")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DIGITS, _CAPITALS, _SMALL = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz"


def tokens_of(text: str) -> int:
    """Return the tokens of a text, estimated: a digit is one, as are two capitals, ten small letters are three, and
    five other signs, three; spaces go with their words, and two bytes of other scripts are one.

    By the vocabulary of SmolLM2, which is small and splits numbers into digits, the desk's instructions, schemas and
    answers of tools have 0.7 to 1.0 times as many.
    """
    data = text.encode()
    digits, capitals, small = (_count(data, signs) for signs in (_DIGITS, _CAPITALS, _SMALL))
    other_scripts = sum(map(len, re.findall(rb"[\x80-\xff]+", data)))
    others = len(data) - digits - capitals - small - other_scripts - data.count(b" ")
    return int(digits + capitals / 2 + 0.3 * small + 0.6 * others + other_scripts / 2) + 1


def _count(data: bytes, signs: bytes) -> int:
    return len(data) - len(data.translate(None, signs))


def text_of(value: Any) -> str:
    return orjson.dumps(value).decode()


def shorten(
    payload: Mapping[str, Any],
    most: int,
    size: Callable[[str], int] = tokens_of,
    *,
    only: Collection[str] | None = None,
    named: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a payload that is not larger than `most`, as far as leaving out rows can do that, and what was left out.

    The longest lists lose rows first, until none has more than the others: the last rows, or of rows that run on in
    time the oldest. Long texts lose whole words at their end. `leftOut` in the payload says so: by the path of each
    list {rows, of}, and of each text {chars, of}. only: keys of the payload that may lose something. named: with the
    `names` of rows that have a symbol or an id.
    """
    whole = dict(payload)
    if size(text_of(whole)) <= most:
        return whole, {}
    low, high = 0, _rows_in(whole)
    best = _cut(whole, _Cutter(0, named), only)
    while low <= high:
        middle = (low + high) // 2
        found = _cut(whole, _Cutter(middle, named), only)
        if size(text_of(found[0])) <= most:
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def is_empty(left_out: Mapping[str, Any]) -> bool:
    """Return whether nothing was left of some list, or of all texts."""
    gone = ["rows" in one for one in left_out.values() if one.get("rows", one.get("chars")) == one["of"]]
    return any(gone) or 0 < len(gone) == len(left_out)


def lines_of(left_out: Mapping[str, Any]) -> list[str]:
    return [_line(path, one) for path, one in left_out.items() if isinstance(one, Mapping)]


def _line(path: str, one: Mapping[str, Any]) -> str:
    if "rows" not in one:
        return f"{path}: {one['chars']:,} of {one['of']:,} characters"
    names = one.get("names", [])
    more = f" and {one['rows'] - len(names)} more" if names and one["rows"] > len(names) else ""
    return f"{path}: {one['rows']} of {one['of']}" + (f" ({', '.join(names)}{more})" if names else "")


def _cut(
    payload: Mapping[str, Any], cutter: _Cutter, only: Collection[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    cut = {key: cutter.cut(value, key) if only is None or key in only else value for key, value in payload.items()}
    if not cutter.left:
        return cut, {}
    return {**cut, LEFT_OUT: {"why": WHY, **cutter.left}}, cutter.left


@dataclass(slots=True)
class _Cutter:
    """Cuts every list, table and text to so many rows. left: the number left out, by path."""

    rows: int
    named: bool
    left: dict[str, dict[str, Any]] = field(default_factory=dict)

    def cut(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            rows = self._list(value, path) if _is_long(value) and len(value) > self.rows else value
            return [one if isinstance(one, list) else self.cut(one, path) for one in rows]
        if isinstance(value, dict):
            kept = self._table(value, path) if _is_table(value) and len(value) > self.rows else value
            return {key: self.cut(one, path if _is_table(value) else f"{path}.{key}") for key, one in kept.items()}
        return value

    def _list(self, value: list[Any], path: str) -> list[Any]:
        first = len(value) - self.rows if _runs_on(value) else 0
        kept = value[first : first + self.rows]
        gone = value[: len(value) - self.rows] if first else value[self.rows :]
        self._note(path, "rows", len(gone), len(value), [name for one in gone if (name := _name(one))])
        return kept

    def _table(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        names = list(value)
        self._note(path, "rows", len(names) - self.rows, len(names), names[self.rows :])
        return {name: value[name] for name in names[: self.rows]}

    def _text(self, text: str, path: str) -> str:
        most = self.rows * TEXT_ROW
        if len(text) <= max(most, TEXT_ROW):
            return text
        end = most
        while end > 0 and not (text[end].isspace() and not (text[end - 1].isdigit() and text[end + 1 :][:1].isdigit())):
            end -= 1
        self._note(path, "chars", len(text) - end, len(text), [])
        return f"{text[:end].rstrip()} …" if end else "…"

    def _note(self, path: str, unit: str, count: int, of: int, names: list[str]) -> None:
        before = self.left.setdefault(path, {unit: 0, "of": 0})
        before[unit] = before.get(unit, 0) + count
        before["of"] += of
        if self.named and names and len(before.get("names", [])) < SHOWN_NAMES:
            before["names"] = [*before.get("names", []), *names][:SHOWN_NAMES]


def _rows_in(value: Any) -> int:
    """Return the most rows of any list, table or text in a value."""
    if isinstance(value, str):
        return -(-len(value) // TEXT_ROW)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(inner), *map(_rows_in, inner)]) if inner else 0


def _is_long(value: list[Any]) -> bool:
    return len(value) > SHORT_LIST or any(isinstance(one, dict | list) for one in value)


def _is_table(value: dict[str, Any]) -> bool:
    return len(value) > TABLE and all(isinstance(one, dict | list) for one in value.values())


def _runs_on(rows: list[Any]) -> bool:
    """Return whether rows have times, the oldest first."""
    first, last = _time(rows[0]), _time(rows[-1])
    return first is not None and last is not None and first < last


def _time(row: Any) -> str | None:
    values = [row.get(name) for name in _TIMES] if isinstance(row, dict) else row[:1] if isinstance(row, list) else []
    return next((one for one in values if isinstance(one, str) and _DATE.match(one)), None)


def _name(row: Any) -> str | None:
    name = row.get("symbol") or row.get("id") if isinstance(row, dict) else row
    return name if isinstance(name, str) and len(name) <= 40 else None


class Room:
    """Tokens that are left in a model's context for calls of tools in one turn, which may be at once in many threads.

    A call gets half of what is left at the most, so that there is room for further ones.
    """

    def __init__(self, tokens: int) -> None:
        self.left = max(tokens, 0)
        self._lock = threading.Lock()

    def reserve(self) -> int:
        """Return the tokens of a call that begins; they are taken until `settle`."""
        with self._lock:
            share = self.left // 2
            self.left -= share
            return share

    def settle(self, share: int, used: int) -> None:
        """Give back what a call did not use."""
        with self._lock:
            self.left = max(self.left + share - used, 0)


# The app-server cuts a tool's output at about 48 KB, in the middle of a figure if it must.
MAX_OUTPUT_BYTES = 46 * 1024
MAX_IMAGE_BYTES = 1024 * 1024
TOOL_THREADS = 32
KEPT_CHARS = 2_000  # of arguments that are none
CITE = "cite"  # of an answer: its id in the turn

Sink = Callable[[Mapping[str, Any], ToolAnswer], None]

log = structlog.get_logger(__name__)


GIVEN_SECONDS = 60.0  # for which an answer of a moment ago is the market's


@dataclass(frozen=True, slots=True)
class Given:
    """The answer that a call had. at: time of the monotonic clock."""

    arguments: Mapping[str, Any]
    answer: ToolAnswer
    at: float = field(default_factory=time.monotonic)


class TurnTools:
    """Tools bound to one context. Functions run in a thread, and an exception becomes an answer.

    seconds: of each call, None without a limit; the thread of a call that timed out ends by itself. sink: gets
    arguments and answer of each call, in the order of the answers. room: what the model's context has left for answers,
    None where its size is not known. tag: begins the ids by which an answer of this turn can be cited, in letters since
    an id is no figure; None gives none. given: answers of the same context, each of which is the answer of the first
    call like its own; not where room counts, since it may be too long there.
    """

    def __init__(
        self,
        specs: Sequence[ToolSpec],
        context: ToolContext,
        seconds: float | None = None,
        sink: Sink | None = None,
        room: Room | None = None,
        tag: str | None = None,
        given: Sequence[Given] = (),
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._context, self._seconds, self._sink, self._room = context, seconds, sink, room
        self._tag, self._cited = tag, 0
        self._given = list(given) if room is None else []

    def specs(self) -> Sequence[ToolSpec]:
        return tuple(self._specs.values())

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        given = arguments if isinstance(arguments, Mapping) else {"text": str(arguments)[:KEPT_CHARS]}
        if name not in self._specs:
            why = f"no tool named {name}; you have: {', '.join(self._specs)}"
            answer = failed(name, why, rogue=RogueKind.UNKNOWN)
        elif given is not arguments:
            answer = failed(name, _no_object(self._specs[name].arguments), rogue=RogueKind.MALFORMED)
        elif (withheld := self._withheld(name)) is not None:
            answer = failed(name, withheld, data=self._specs[name].data)
        else:
            answer = self._citable(self._had(name, given) or await self._in_time(name, given))
        if self._sink is not None:
            try:
                self._sink(given, answer)
            except Exception:
                # An answer that is not recorded may not be used: the model gets an error in its place.
                log.exception("tool.not_recorded", tool=name)
                text = f"the answer of {name} could not be recorded"
                return failed(name, text, data=answer.data, seconds=answer.seconds)
        return answer

    def _withheld(self, name: str) -> str | None:
        return None if self._context.disguise is None else self._context.disguise.withheld(name)

    def _had(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer | None:
        for place, one in enumerate(self._given):
            if one.answer.tool == name and one.arguments == arguments and one.answer.success:
                return self._given.pop(place).answer if time.monotonic() - one.at <= GIVEN_SECONDS else None
        return None

    def _citable(self, answer: ToolAnswer) -> ToolAnswer:
        if self._tag is None or not answer.success:
            return answer
        self._cited += 1
        return replace(answer, payload={CITE: f"{self._tag}-{in_letters(self._cited)}", **answer.payload})

    async def _in_time(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        # An error as an answer would be believed, and the turn was paid for.
        while home.why_away(self._context.settings.home) is not None:  # noqa: ASYNC110
            await asyncio.sleep(home.LOOK_SECONDS)
        if (opens := self._specs[name].opens) is not None:
            with suppress(Exception, SystemExit):  # the call meets it too, and says so
                await asyncio.get_running_loop().run_in_executor(_threads(), opens, self._context, arguments)
        try:
            return await asyncio.wait_for(self._fitted(name, arguments), self._seconds)
        except TimeoutError:
            text = f"{name} did not answer within {self._seconds:g} s: ask for fewer symbols, or ask again"
            return failed(name, text, data=self._specs[name].data, seconds=self._seconds or 0.0)

    async def _fitted(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        if self._room is None:
            return await self._called(name, arguments, None)
        share, used = self._room.reserve(), 0
        try:
            answer = await self._called(name, arguments, share)
            used = _taken(arguments, answer)
            return answer
        finally:
            self._room.settle(share, used)

    async def _called(self, name: str, arguments: Mapping[str, Any], most: int | None) -> ToolAnswer:
        """most: tokens of the answer."""
        spec, began = self._specs[name], time.perf_counter()
        try:
            checked = spec.arguments.model_validate(arguments)
        except ValidationError as error:
            return failed(name, _explain(error, spec.arguments), data=spec.data)
        except Exception as error:  # of a check of the tool's own
            return self._raised(spec, error, began)
        try:
            return await asyncio.get_running_loop().run_in_executor(
                _threads(), copy_context().run, _answer, spec, self._context, checked, began, most
            )
        except DeskError as error:
            return failed(name, str(error), data=spec.data, seconds=time.perf_counter() - began)
        except (Exception, SystemExit) as error:  # a tool that exits would end the loop of all turns
            return self._raised(spec, error, began)

    def _raised(self, spec: ToolSpec, error: BaseException, began: float) -> ToolAnswer:
        log.error("tool.raised", tool=spec.name, run=self._context.run_id, exc_info=error)
        text = f"{spec.name} failed unexpectedly: {type(error).__name__}"
        return failed(spec.name, text, data=spec.data, seconds=time.perf_counter() - began)


def in_letters(number: int) -> str:
    """Return a positive number as columns of a table are named: a, b, ..., z, aa, ab."""
    text = ""
    while number:
        number, place = divmod(number - 1, 26)
        text = chr(ord("a") + place) + text
    return text


def _answer(
    spec: ToolSpec, context: ToolContext, arguments: BaseModel, began: float, most: int | None = None
) -> ToolAnswer:
    """Call the function; of a run's turn, a picture is stored before the model gets it."""
    result = spec.function(context, arguments)
    payload, image = result if isinstance(result, tuple) else (result, None)
    answer = _checked(spec, payload, image, time.perf_counter() - began, most)
    if answer.image is not None and context.run_id is not None:
        try:
            keep(context.settings.home, answer.image.data, answer.image.mime_type)
        except OSError as error:
            text = f"the picture of {spec.name} could not be stored: {error.strerror or type(error).__name__}"
            return failed(spec.name, text, data=spec.data, seconds=time.perf_counter() - began)
    return answer


def _checked(
    spec: ToolSpec, payload: dict[str, Any], image: ToolImage | None, seconds: float, most: int | None
) -> ToolAnswer:
    """Return the answer, shortened where it has to fit a context; a failure where it is too large all the same."""
    has_data = spec.data and payload.get("available") is True
    if most is not None:
        most = max(most - CALL_TOKENS - _image_tokens(image), 0)
        short, left_out = shorten(payload, most)
        if is_empty(left_out) or tokens_of(text_of(short)) > most:
            tokens = tokens_of(text_of(payload))
            what = f"the answer is about {tokens:,} tokens, and the model's context has room for {most:,}"
            return failed(spec.name, f"{what}: ask for less, or answer now", data=spec.data, seconds=seconds)
        payload = short
    answer = ToolAnswer(spec.name, True, payload, spec.data, has_data, seconds, image)
    sizes = (
        ("answer", len(answer.text().encode()), MAX_OUTPUT_BYTES, "fewer symbols, sections or rows"),
        ("image", len(image.data) if image is not None else 0, MAX_IMAGE_BYTES, "a smaller image or fewer symbols"),
    )
    for name, size, limit, remedy in sizes:
        if size > limit:
            text = f"the {name} is {size / 1024:.1f} KB, more than {limit // 1024} KB: ask for {remedy}"
            return failed(spec.name, text, data=spec.data, seconds=seconds)
    return answer


def _taken(arguments: Mapping[str, Any], answer: ToolAnswer) -> int:
    texts = tokens_of(text_of(dict(arguments))) + tokens_of(answer.text())
    return CALL_TOKENS + texts + _image_tokens(answer.image)


def _image_tokens(image: ToolImage | None) -> int:
    return IMAGE_TOKENS if image is not None else 0


@cache
def _threads() -> ThreadPoolExecutor:
    """Not the loop's own threads: a slow market would hold up all else there."""
    return ThreadPoolExecutor(TOOL_THREADS, "tools", initializer=home.be_patient)


def warm(exchange: str) -> None:
    """Load TA-Lib and an exchange's calendar at a process's start; the first calls would wait two seconds for them."""
    load_talib()
    exchange_hours(exchange)


_SHOWN_ERRORS = 5
_SHOWN_CHARS = 80


def _explain(error: ValidationError, arguments: type[BaseModel]) -> str:
    """Return one clause for each wrong argument: its name, its value and the allowed ones."""
    wrong = error.errors(include_url=False, include_context=False)
    clauses = [_clause(dict(row), arguments) for row in wrong[:_SHOWN_ERRORS]]
    if len(wrong) > _SHOWN_ERRORS:
        clauses.append(f"and {len(wrong) - _SHOWN_ERRORS} more")
    return "; ".join(clauses)


def _clause(row: dict[str, Any], arguments: type[BaseModel]) -> str:
    where = ".".join(str(part) for part in row["loc"])
    known = ", ".join(arguments.model_fields) or "none"
    if row["type"] == "extra_forbidden":
        return f"unknown argument {where!r}; known: {known}"
    if row["type"] == "missing":
        return f"argument {where!r} is needed"
    if not where:
        return _no_object(arguments)
    shown = repr(row["input"])
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
    return f"argument {where!r} is {shown}: {row['msg'].removeprefix('Value error, ')}"


def _no_object(arguments: type[BaseModel]) -> str:
    return f"arguments must be an object with: {', '.join(arguments.model_fields) or 'none'}"
