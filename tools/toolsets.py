"""The toolset of one turn: a role's tools bound to their context, with a time limit and a record of each call."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from functools import cache
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError

from chordesk.models.database.artifacts import keep
from chordesk.models.errors import DeskError
from chordesk.models.rogue_calls import RogueKind
from chordesk.tools.figures import load_talib
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.registry import ToolAnswer, ToolContext, ToolImage, ToolSpec, failed
from chordesk.tools.shortening import CALL_TOKENS, IMAGE_TOKENS, Room, is_empty, shorten, text_of, tokens_of

# The app-server cuts a tool's output at about 48 KB, in the middle of a figure if it must.
MAX_OUTPUT_BYTES = 46 * 1024
MAX_IMAGE_BYTES = 1024 * 1024
TOOL_THREADS = 32
KEPT_CHARS = 2_000  # of arguments that are none
CITE = "cite"  # of an answer: its id in the turn

Sink = Callable[[Mapping[str, Any], ToolAnswer], None]

log = structlog.get_logger(__name__)


class TurnTools:
    """Tools bound to one context. Functions run in a thread, and an exception becomes an answer.

    seconds: of each call, None without a limit; the thread of a call that timed out ends by itself. sink: gets
    arguments and answer of each call, in the order of the answers. room: what the model's context has left for answers,
    None where its size is not known. tag: begins the ids by which an answer of this turn can be cited, in letters since
    an id is no figure; None gives none.
    """

    def __init__(
        self,
        specs: Sequence[ToolSpec],
        context: ToolContext,
        seconds: float | None = None,
        sink: Sink | None = None,
        room: Room | None = None,
        tag: str | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._context, self._seconds, self._sink, self._room = context, seconds, sink, room
        self._tag, self._cited = tag, 0

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
            answer = self._citable(await self._in_time(name, given))
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

    def _citable(self, answer: ToolAnswer) -> ToolAnswer:
        if self._tag is None or not answer.success:
            return answer
        self._cited += 1
        return replace(answer, payload={CITE: f"{self._tag}-{in_letters(self._cited)}", **answer.payload})

    async def _in_time(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
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
        try:
            return await asyncio.get_running_loop().run_in_executor(
                _threads(), copy_context().run, _answer, spec, self._context, checked, began, most
            )
        except DeskError as error:
            return failed(name, str(error), data=spec.data, seconds=time.perf_counter() - began)
        except Exception as error:
            log.exception("tool.raised", tool=name, run=self._context.run_id)
            text = f"{name} failed unexpectedly: {type(error).__name__}"
            return failed(name, text, data=spec.data, seconds=time.perf_counter() - began)


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
    return ThreadPoolExecutor(TOOL_THREADS, "tools")


def warm() -> None:
    """Load TA-Lib and the exchange's calendar at a process's start; the first calls would wait two seconds for them."""
    load_talib()
    exchange_hours()


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
