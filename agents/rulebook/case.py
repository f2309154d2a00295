"""One request as the rulebook sees it: who is asked, about what, with which tools, and what these said so far."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any]

MAX_CALLS = 2  # tool calls of one turn
SPLIT = "split adjustment"  # how the price tools call a move that may be a split
SPOKEN = "Rule, not a model:"  # how every text of the rulebook begins


@dataclass(frozen=True, slots=True)
class Call:
    """A tool the policy wants called."""

    tool: str
    arguments: Payload


@dataclass(frozen=True, slots=True)
class Output:
    """What a tool answered to a call of this turn."""

    tool: str
    payload: Payload

    @property
    def failed(self) -> str | None:
        """The error's text when the call failed."""
        if self.payload.get("success") is False or "error" in self.payload:
            return str(self.payload.get("error", "no reason given"))
        return None


@dataclass(frozen=True, slots=True)
class Case:
    """The latest subject of a conversation and the tool outputs that came after it."""

    role: str
    subject: Payload
    tools: frozenset[str]
    outputs: Sequence[Output]

    def next_call(self, planned: Sequence[Call]) -> Call | None:
        """The first planned call that is offered and was not made; None when it is time to answer.

        The calls already made must be the head of the plan: a policy plans the same head each time it is asked.
        """
        offered = [call for call in planned if call.tool in self.tools][:MAX_CALLS]
        return offered[len(self.outputs)] if len(self.outputs) < len(offered) else None

    def payloads(self, tool: str) -> list[Payload]:
        """The answers of a tool that did not fail."""
        return [output.payload for output in self.outputs if output.tool == tool and output.failed is None]

    def rows(self, tool: str, key: str) -> list[Payload]:
        """The data rows of a tool's answers; rows that are no objects are left out."""
        rows: list[Payload] = []
        for payload in self.payloads(tool):
            found = payload.get(key)
            if isinstance(found, list):
                rows.extend(row for row in found if isinstance(row, dict))
        return rows

    def has_data(self, tool: str) -> bool:
        """Whether a tool answered with at least one datum."""
        return any(payload.get("available", True) for payload in self.payloads(tool))

    def signals(self) -> list[Payload]:
        """The price figures, each with the number of split-like moves that nobody adjusted them for."""
        odd = [row.get("symbol") for row in self.rows("signals_get", "missing") if row.get("what") == SPLIT]
        return [{**row, "splitLike": odd.count(row.get("symbol"))} for row in self.rows("signals_get", "signals")]

    def gaps(self, wanted: Sequence[str], symbol: str | None = None) -> list[str]:
        """What is missing, in words: tools that were not offered or failed, and what the tools themselves miss.

        symbol: leave out what is missing of others.
        """
        said = [f"{tool} is not offered" for tool in wanted if tool not in self.tools]
        for output in self.outputs:
            if output.failed is not None:
                said.append(f"{output.tool} failed: {clip(output.failed)}")
        for tool in dict.fromkeys(output.tool for output in self.outputs):
            rows = self.rows(tool, "missing")
            said.extend(_said(row) for row in rows if symbol is None or row.get("symbol") in (None, symbol))
        return list(dict.fromkeys(said))


def _said(row: Payload) -> str:
    of = f"{row['symbol']} " if row.get("symbol") else ""
    return clip(f"{of}{row.get('what', 'data')}: {row.get('reason', 'no reason given')}")


Policy = Callable[[Case], Call | Payload]


def number(row: Mapping[str, Any], field: str) -> float | None:
    """A finite figure of a row, else None: a missing figure is never replaced by another."""
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def symbols_of(subject: Payload) -> list[str]:
    """The symbols of a screener's subject, in their order."""
    found = subject.get("symbols")
    return [symbol for symbol in found if isinstance(symbol, str)] if isinstance(found, list) else []


def clip(text: str, length: int = 160) -> str:
    """The head of a text that came from elsewhere, on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def shown(value: float, unit: str) -> str:
    """A figure for people: percent (of a fraction), times, number, sessions or count."""
    if unit == "percent":
        return f"{value:.1%}"
    if unit == "times":
        return f"{value:.1f}x"
    if unit in ("sessions", "count"):
        return f"{value:.0f}" + (" sessions" if unit == "sessions" else "")
    return f"{value:.1f}"
