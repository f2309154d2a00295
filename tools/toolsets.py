"""The tools of each role, and the wrappers around a toolset: Filtered, Timed, Recorded.

No set holds a tool that submits an order, and none may: a model recommends, code acts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog
from pydantic import BaseModel, ValidationError

from models.errors import DeskError
from tools.market.clock import exchange_hours
from tools.news import NEWS_LIST
from tools.orders.preview_tool import ORDERS_PREVIEW
from tools.orders.submit_tool import ORDERS_SUBMIT
from tools.overview import SYMBOL_OVERVIEW
from tools.portfolio import PORTFOLIO_GET
from tools.registry import ToolAnswer, ToolContext, Toolset, ToolSpec, failed
from tools.reports import REPORT_LATEST
from tools.screens import SP500_MOVERS, UNIVERSE_LIST
from tools.signals import SIGNALS_GET
from tools.technicals import TECHNICALS_GET, load_talib

__all__ = [
    "TOOLS",
    "TOOL_SETS",
    "Filtered",
    "Recorded",
    "Registry",
    "Sink",
    "Timed",
    "Toolset",
    "toolset_for",
    "warm",
]

ALL: tuple[ToolSpec, ...] = (
    UNIVERSE_LIST,
    SP500_MOVERS,
    SYMBOL_OVERVIEW,
    TECHNICALS_GET,
    SIGNALS_GET,
    NEWS_LIST,
    PORTFOLIO_GET,
    REPORT_LATEST,
    ORDERS_PREVIEW,
    ORDERS_SUBMIT,
)
TOOLS: Mapping[str, ToolSpec] = {spec.name: spec for spec in ALL}

TOOL_SETS: Mapping[str, tuple[str, ...]] = {
    "screener": (
        "universe_list",
        "sp500_movers",
        "symbol_overview",
        "technicals_get",
        "signals_get",
        "news_list",
    ),
    "quick": ("symbol_overview", "signals_get", "news_list"),
    "fundamentals": ("symbol_overview", "news_list", "report_latest"),
    "risk": ("signals_get", "technicals_get", "symbol_overview"),
    "catalyst": ("news_list", "symbol_overview", "sp500_movers"),
    "trader": ("portfolio_get", "symbol_overview", "news_list", "signals_get", "technicals_get", "orders_preview"),
}

# The app-server cuts a tool's output at about 48 KB, in the middle of a figure if it must.
MAX_OUTPUT_BYTES = 46 * 1024

Sink = Callable[[Mapping[str, Any], ToolAnswer], None]

log = structlog.get_logger(__name__)


class Registry:
    """Every tool, bound to one context. Functions run in a thread; whatever they raise is an answer."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context

    def specs(self) -> Sequence[ToolSpec]:
        return ALL

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        spec = TOOLS.get(name)
        if spec is None:
            return _no_such_tool(name, self.specs())
        began = time.perf_counter()
        try:
            checked = spec.arguments.model_validate(arguments)
        except ValidationError as error:
            return failed(name, _explain(error, spec.arguments), data=spec.data)
        try:
            payload = await asyncio.to_thread(spec.function, self._context, checked)
        except DeskError as error:
            return failed(name, str(error), data=spec.data, seconds=time.perf_counter() - began)
        except Exception as error:
            log.exception("tool.raised", tool=name, run=self._context.run_id)
            text = f"{name} failed unexpectedly: {type(error).__name__}"
            return failed(name, text, data=spec.data, seconds=time.perf_counter() - began)
        return _answer(spec, payload, time.perf_counter() - began)


def _answer(spec: ToolSpec, payload: dict[str, Any], seconds: float) -> ToolAnswer:
    has_data = spec.data and payload.get("available") is True
    answer = ToolAnswer(spec.name, True, payload, spec.data, has_data, seconds)
    size = len(answer.text().encode())
    if size <= MAX_OUTPUT_BYTES:
        return answer
    limit = MAX_OUTPUT_BYTES // 1024
    text = f"the answer is {size / 1024:.0f} KB, more than {limit} KB: ask for fewer symbols, sections or rows"
    return failed(spec.name, text, data=spec.data, seconds=seconds)


class Filtered:
    """Only the allowed tools, in the order in which they are allowed."""

    def __init__(self, tools: Toolset, allowed: Sequence[str]) -> None:
        known = {spec.name: spec for spec in tools.specs()}
        self._tools = tools
        self._specs = tuple(known[name] for name in allowed)

    def specs(self) -> Sequence[ToolSpec]:
        return self._specs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        if all(spec.name != name for spec in self._specs):
            return _no_such_tool(name, self._specs)
        return await self._tools.call(name, arguments)


class Timed:
    """Each call within so many seconds. The thread of a call that is given up runs out by itself."""

    def __init__(self, tools: Toolset, seconds: float) -> None:
        self._tools = tools
        self._seconds = seconds

    def specs(self) -> Sequence[ToolSpec]:
        return self._tools.specs()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        try:
            return await asyncio.wait_for(self._tools.call(name, arguments), self._seconds)
        except TimeoutError:
            text = f"{name} did not answer within {self._seconds:g} s: ask for fewer symbols, or ask again"
            data = any(spec.data for spec in self.specs() if spec.name == name)
            return failed(name, text, data=data, seconds=self._seconds)


class Recorded:
    """Hands every call's arguments and answer to `sink`, in the order of the answers."""

    def __init__(self, tools: Toolset, sink: Sink) -> None:
        self._tools = tools
        self._sink = sink

    def specs(self) -> Sequence[ToolSpec]:
        return self._tools.specs()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        answer = await self._tools.call(name, arguments)
        try:
            self._sink(arguments, answer)
        except Exception:
            # What is not on record may not be used: the model gets an error instead of the answer.
            log.exception("tool.not_recorded", tool=name)
            return failed(name, f"the answer of {name} could not be recorded", data=answer.data, seconds=answer.seconds)
        return answer


def toolset_for(name: str, context: ToolContext, seconds: float, sink: Sink) -> Toolset:
    """The toolset of a role. Raises KeyError when there is no set of that name."""
    return Recorded(Timed(Filtered(Registry(context), TOOL_SETS[name]), seconds), sink)


def warm() -> None:
    """Load at a process's start what the first calls would otherwise wait two seconds for."""
    load_talib()
    exchange_hours()


def _no_such_tool(name: str, specs: Sequence[ToolSpec]) -> ToolAnswer:
    return failed(name, f"no tool named {name}; you have: {', '.join(spec.name for spec in specs)}")


_SHOWN_ERRORS = 5
_SHOWN_CHARS = 80


def _explain(error: ValidationError, arguments: type[BaseModel]) -> str:
    """One clause per wrong argument: its name, the value given, and what is allowed."""
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
        return f"arguments must be an object with: {known}"
    shown = repr(row["input"])
    shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
    return f"argument {where!r} is {shown}: {row['msg'].removeprefix('Value error, ')}"
