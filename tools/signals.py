"""signals_get: price figures for rules, for up to 150 symbols in one call."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from chordesk.models.market import SymbolSignals
from chordesk.tools import figures
from chordesk.tools.decimals import rounded
from chordesk.tools.history import histories, note_holes, note_lost
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.sessions import History, lost_sessions
from chordesk.tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload

_LONGEST = 61  # sessions of the figure that looks back furthest, but the high
# Of a list of so many symbols, what most have alike of these is stated once: it is a fifth of the answer.
_MANY = 10
_ALIKE = ("date", "sessions", "highSessions")


class SignalsArguments(Arguments):
    symbols: Symbols


def symbol_signals(history: History, lost: bool = False) -> SymbolSignals:
    """Return the signals of one symbol at its last bar; formulas and their sources are in tools/figures.py.

    A figure of so many sessions is None where one of them is missing; the high says of how many it is. lost: the
    market has no bar of the session before, of any name, so that there is no change of a day.
    """
    bars, spread = history.bars, history.spread
    close, high = spread.close, bars.high[-figures.SESSIONS_A_YEAR :]
    return SymbolSignals(
        symbol=history.symbol,
        date=bars.dates[-1],
        close=round(float(close[-1]), 4),
        sessions=len(bars.close),
        momentum20=rounded(figures.momentum(close, 20)),
        momentum60=rounded(figures.momentum(close, 60)),
        rsi14=rounded(figures.rsi(history.run.close), 2),
        from_high=rounded(figures.from_high(bars.close, high)),
        high_sessions=len(high),
        volatility20=rounded(figures.volatility(close)),
        drawdown60=rounded(figures.drawdown(close)),
        volume_ratio=rounded(figures.volume_ratio(spread.volume), 2),
        gap=None if lost else rounded(figures.gap(spread.open, close)),
        change=None if lost else rounded(figures.momentum(close, 1)),
        sma20=rounded(figures.from_average(close, 20)),
        sma50=rounded(figures.from_average(close, 50)),
    )


# The newest signals of each symbol, computed once a session and kept as long as their market lives.
_KEPT: WeakKeyDictionary[MarketData, dict[str, tuple[dt.date, dict[str, Any]]]] = WeakKeyDictionary()


def _row(market: MarketData, history: History) -> dict[str, Any]:
    rows = _KEPT.setdefault(market, {})
    day, row = rows.get(history.symbol, (None, {}))
    if day != history.bars.dates[-1]:
        row = symbol_signals(history, bool(lost_sessions(market, 2))).model_dump(mode="json", by_alias=True)
        rows[history.symbol] = history.bars.dates[-1], row
    return row


def signal_rows(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[dict[str, Any]]:
    """Return the signals of each symbol that has the market's latest session, as an answer has them."""
    found = list(histories(context, symbols, gaps))
    note_holes(found, gaps, _LONGEST)
    note_lost(context, gaps, _LONGEST)
    return [_row(context.market, history) for history in found]


def signals_get(context: ToolContext, arguments: SignalsArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = signal_rows(context, arguments.symbols, gaps)
    if len(rows) < _MANY:
        return payload(context, gaps, available=bool(rows), signals=rows)
    each = {name: Counter(row[name] for row in rows).most_common(1)[0][0] for name in _ALIKE}
    own = [{name: value for name, value in row.items() if (name, value) not in each.items()} for row in rows]
    return payload(context, gaps, available=True, each=each, signals=own)


SIGNALS_GET = ToolSpec(
    name="signals_get",
    description=(
        "Daily figures of up to 150 symbols at the market's latest session: momentum20, momentum60, rsi14 (Wilder), "
        "fromHigh (from the high of the last highSessions sessions, at most 252), volatility20 (annualised), "
        "drawdown60, volumeRatio (to the 20 sessions before), gap, change, sma20, sma50 (close to its average). "
        "Fractions, 0.05 is 5%; rsi14 is 0 to 100; null is unknown. A symbol without that session is in `missing`. "
        "In a long list `each` is what all rows have that do not have their own."
    ),
    hint=(
        "price figures for rules (momentum, RSI, distance from the high, realised volatility, drawdown, "
        "volume ratio, gap); `symbols`."
    ),
    arguments=SignalsArguments,
    function=signals_get,
)
