"""The chart of a symbol's sessions, with what happened in them."""

from __future__ import annotations

from collections.abc import Sequence

from chordesk.models.errors import DeskError
from chordesk.tasks.documents.schema.parts import ChartMark, PriceChart
from chordesk.tasks.views.history.candles import Gap, candles
from chordesk.tools.registry import ToolContext

SESSIONS = 245  # a year of the exchange, about


def price_chart(context: ToolContext | str, market: str, symbol: str, marks: Sequence[ChartMark]) -> PriceChart:
    """Return the last year's sessions of a symbol. context: or the reason why the market cannot be had; market: its
    name. Without bars, `missing` has the reason."""
    if isinstance(context, str):
        return _none(symbol, market, marks, context)
    try:
        found = candles(context, symbol, SESSIONS, "day", ())
    except DeskError as error:
        return _none(symbol, market, marks, str(error.args[0]))
    return PriceChart(
        symbol=symbol,
        market=found.market,
        as_of=found.as_of,
        sessions=len(found.bars),
        first=found.bars[0].at if found.bars else None,
        last=found.bars[-1].at if found.bars else None,
        last_close=found.bars[-1].close if found.bars else None,
        adjusted=found.adjusted,
        marks=list(marks),
        missing=found.missing,
        bars=found.bars,
    )


def _none(symbol: str, market: str, marks: Sequence[ChartMark], why: str) -> PriceChart:
    return PriceChart(
        symbol=symbol, market=market, as_of=None, sessions=0, first=None, last=None, last_close=None, adjusted=None,
        marks=list(marks), missing=[Gap(what="prices", reason=why)],
    )  # fmt: skip
