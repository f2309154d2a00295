"""range_get: low, high and last close of each symbol over so many sessions."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from typing_extensions import TypedDict

from chordesk.plugins import Answer, Arguments, Gaps, Symbols, ToolContext, ToolSpec, histories, payload


class RangeArguments(Arguments):
    symbols: Symbols
    sessions: int = Field(20, ge=2, le=252, description="sessions to look back")


class RangeRow(TypedDict):
    symbol: str
    sessions: int
    low: float
    high: float
    close: float


class RangeAnswer(Answer):
    ranges: list[RangeRow]


def range_get(context: ToolContext, arguments: RangeArguments) -> dict[str, Any]:
    """Return each symbol's range in account currency; a symbol without bars is listed as missing."""
    gaps = Gaps()
    rows = [
        {
            "symbol": history.symbol,
            "sessions": len(history.bars.close),
            "low": float(history.bars.low.min()),
            "high": float(history.bars.high.max()),
            "close": float(history.bars.close[-1]),
        }
        for history in histories(context, arguments.symbols, gaps, arguments.sessions)
    ]
    return payload(context, gaps, available=bool(rows), ranges=rows)


RANGE_GET = ToolSpec(
    name="range_get",
    description="Low, high and last close of up to 150 symbols over the last sessions, in USD.",
    arguments=RangeArguments,
    function=range_get,
    answer=RangeAnswer,
)
