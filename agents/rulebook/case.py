"""One request to the rulebook: the role, its subject, the tools offered, and their answers so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Payload = dict[str, Any]

MAX_CALLS = 4  # tool calls of one turn
SPLIT = "split adjustment"  # the price tools' name for a move that may be a split
PREFIX = "Rule, not a model:"  # of every text of the rulebook


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a policy makes."""

    tool: str
    arguments: Payload


@dataclass(frozen=True, slots=True)
class Output:
    """A tool's answer to a call of this turn."""

    tool: str
    payload: Payload

    @property
    def failed(self) -> str | None:
        """The text of its error; None when the call worked."""
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
        """Return the first planned call whose tool is offered and that was not made; None when it is time to answer.

        The calls already made must be the head of the plan: a policy plans the same head each time.
        """
        offered = [call for call in planned if call.tool in self.tools][:MAX_CALLS]
        return offered[len(self.outputs)] if len(self.outputs) < len(offered) else None

    def payloads(self, tool: str) -> list[Payload]:
        """Return the answers of a tool that did not fail."""
        return [output.payload for output in self.outputs if output.tool == tool and output.failed is None]

    def rows(self, tool: str, key: str) -> list[Payload]:
        """Return the data rows of a tool's answers; rows that are no objects are left out."""
        rows: list[Payload] = []
        for payload in self.payloads(tool):
            found = payload.get(key)
            if isinstance(found, list):
                rows.extend(row for row in found if isinstance(row, dict))
        return rows

    def has_data(self, tool: str) -> bool:
        """Return True when a tool answered with at least one datum."""
        return any(payload.get("available", True) for payload in self.payloads(tool))

    def signals(self) -> list[Payload]:
        """Return the price figures, each with the number of split-like moves that they are not adjusted for."""
        odd = [row.get("symbol") for row in self.rows("signals_get", "missing") if row.get("what") == SPLIT]
        rows = [
            {**(payload.get("each") or {}), **row}
            for payload in self.payloads("signals_get")
            for row in payload.get("signals") or ()
            if isinstance(row, dict)
        ]
        return [{**row, "splitLike": odd.count(row.get("symbol"))} for row in rows]

    def gaps(self, wanted: Sequence[str], symbol: str | None = None) -> list[str]:
        """Return a line for each gap: tools that were not offered or failed, and data that the tools lack.

        symbol: leave out gaps of other symbols.
        """
        found = [f"{tool} is not offered" for tool in wanted if tool not in self.tools]
        for output in self.outputs:
            if output.failed is not None:
                found.append(f"{output.tool} failed: {clip(output.failed)}")
        for tool in dict.fromkeys(output.tool for output in self.outputs):
            rows = self.rows(tool, "missing")
            found.extend(_gap(row) for row in rows if symbol is None or row.get("symbol") in (None, symbol))
        return list(dict.fromkeys(found))


def _gap(row: Payload) -> str:
    of = f"{row['symbol']} " if row.get("symbol") else ""
    return clip(f"{of}{row.get('what', 'data')}: {row.get('reason', 'no reason given')}")


def number(row: Mapping[str, Any], field: str) -> float | None:
    """Return a finite figure of a row, else None: a missing figure is never replaced by another."""
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def symbols_of(subject: Payload) -> list[str]:
    """Return the symbols of a screener's subject, in their order."""
    found = subject.get("symbols")
    return [symbol for symbol in found if isinstance(symbol, str)] if isinstance(found, list) else []


def clip(text: str, length: int = 160) -> str:
    """Return the head of an outside text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[: length - 1] + "…"


def shown(value: float, unit: str) -> str:
    """Return a figure as text. unit: percent (of a fraction), times, number, sessions or count."""
    if unit == "percent":
        return f"{value:.1%}"
    if unit == "times":
        return f"{value:.1f}x"
    if unit in ("sessions", "count"):
        return f"{value:.0f}" + (" sessions" if unit == "sessions" else "")
    return f"{value:.1f}"
