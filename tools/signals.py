"""signals_get: price figures for rules, for up to 150 symbols in one call."""

from __future__ import annotations

import datetime as dt
from typing import Any
from weakref import WeakKeyDictionary

from models.market import SymbolSignals
from tools import figures
from tools.decimals import rounded
from tools.history import histories
from tools.market.protocol import Bars, MarketData
from tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload


class SignalsArguments(Arguments):
    symbols: Symbols


def symbol_signals(bars: Bars) -> SymbolSignals:
    """Return the signals of one symbol at its last bar; formulas and their sources are in tools/figures.py."""
    close = bars.close
    return SymbolSignals(
        symbol=bars.symbol,
        date=bars.dates[-1],
        close=round(float(close[-1]), 4),
        sessions=len(close),
        momentum20=rounded(figures.momentum(close, 20)),
        momentum60=rounded(figures.momentum(close, 60)),
        rsi14=rounded(figures.rsi(close), 2),
        from_high=rounded(figures.from_high(close, bars.high)),
        volatility20=rounded(figures.volatility(close)),
        drawdown60=rounded(figures.drawdown(close)),
        volume_ratio=rounded(figures.volume_ratio(bars.volume), 2),
        gap=rounded(figures.gap(bars.open, close)),
        change=rounded(figures.momentum(close, 1)),
        sma20=rounded(figures.from_average(close, 20)),
        sma50=rounded(figures.from_average(close, 50)),
    )


# The newest signals of each symbol, computed once a session and kept as long as their market lives.
_KEPT: WeakKeyDictionary[MarketData, dict[str, tuple[dt.date, dict[str, Any]]]] = WeakKeyDictionary()


def _row(market: MarketData, bars: Bars) -> dict[str, Any]:
    rows = _KEPT.setdefault(market, {})
    day, row = rows.get(bars.symbol, (None, {}))
    if day != bars.dates[-1]:
        row = symbol_signals(bars).model_dump(mode="json", by_alias=True)
        rows[bars.symbol] = bars.dates[-1], row
    return row


def signals_get(context: ToolContext, arguments: SignalsArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = [_row(context.market, bars) for bars in histories(context, arguments.symbols, gaps)]
    return payload(context, gaps, available=bool(rows), signals=rows)


SIGNALS_GET = ToolSpec(
    name="signals_get",
    description=(
        "Daily figures of up to 150 symbols: momentum20, momentum60, rsi14 (Wilder), fromHigh (from the 252-session "
        "high), volatility20 (annualised), drawdown60, volumeRatio (to the 20 sessions before), gap, change, sma20, "
        "sma50 (close to its average). Fractions, 0.05 is 5%; rsi14 is 0 to 100; null is unknown."
    ),
    hint=(
        "price figures for rules (momentum, RSI, distance from the high, realised volatility, drawdown, "
        "volume ratio, gap); `symbols`."
    ),
    arguments=SignalsArguments,
    function=signals_get,
)
