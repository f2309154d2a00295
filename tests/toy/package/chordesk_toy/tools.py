"""toy_range: the low and the high of the last sessions."""

from typing import Any

from pydantic import Field

from chordesk.plugins import Arguments, Gaps, Symbols, ToolContext, ToolSpec, histories, payload


class RangeArguments(Arguments):
    symbols: Symbols
    sessions: int = Field(20, ge=2, le=252, description="sessions to look back")


def toy_range(context: ToolContext, arguments: RangeArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = [
        {"symbol": one.symbol, "low": float(one.bars.low.min()), "high": float(one.bars.high.max())}
        for one in histories(context, arguments.symbols, gaps, arguments.sessions)
    ]
    return payload(context, gaps, available=bool(rows), ranges=rows)


TOY_RANGE = ToolSpec("toy_range", "Low and high of symbols.", RangeArguments, toy_range)
