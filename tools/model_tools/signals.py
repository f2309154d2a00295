"""signals_get and technicals_get: price figures for rules, and TA-Lib's indicators in more detail."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, NotRequired
from weakref import WeakKeyDictionary

import numpy as np
from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from chordesk.models.exchanges import days_a_year
from chordesk.models.market import SymbolSignals, SymbolTechnicals
from chordesk.models.settings import Settings
from chordesk.tools.decimals import rounded
from chordesk.tools.market.prices import History, lost_sessions
from chordesk.tools.market.protocol import Bars, Floats, MarketData, RecordedSessions
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import histories, note_kept, note_lost
from chordesk.tools.prices.price_figures import SESSIONS_A_YEAR, load_talib, rsi
from chordesk.tools.rates import cost_to_trade
from chordesk.tools.registry import Answer, Arguments, Chosen, Gaps, Symbols, ToolContext, ToolSpec, payload

_RSI = 15  # closes that 14 changes have
_LONGEST_SIGNAL = 61  # sessions of the figure that looks back furthest, but the high
# Of a list of so many symbols, what most have alike of these is stated once: it is a fifth of the answer.
_MANY = 10
_ALIKE = ("date", "sessions", "highSessions")


# What may be left out; a row always says whose it is, and of how many sessions.
FIGURES = (
    "close", "momentum20", "momentum60", "rsi14", "fromHigh", "volatility20", "drawdown60", "volumeRatio", "gap",
    "change", "sma20", "sma50",
)  # fmt: skip


def _known(names: list[str]) -> list[str]:
    if unknown := sorted(set(names) - set(FIGURES)):
        raise ValueError(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    return names


class SignalsArguments(Arguments):
    symbols: Symbols
    figures: Annotated[list[str], AfterValidator(_known)] = Field([], max_length=len(FIGURES), description="[] is all")


class TechnicalsArguments(Arguments):
    symbols: Symbols


class Alike(TypedDict):
    """What all rows have that do not have their own."""

    date: dt.date
    sessions: int
    highSessions: int


class SignalsAnswer(Answer):
    each: NotRequired[Alike]
    signals: list[Annotated[SymbolSignals, Chosen(*_ALIKE, date=dt.date, sessions=int, highSessions=int)]]


class TechnicalsAnswer(Answer):
    technicals: list[SymbolTechnicals]


EXACT = 9  # digits after the point of a figure that a rule judges by: less is noise of the arithmetic
_SHOWN = {"rsi14": 2, "volume_ratio": 2}  # digits of a figure that is told; 4 of all others


def symbol_signals(history: History, lost: bool = False) -> SymbolSignals:
    """Return the signals of one symbol at its last bar as they are told; the formulas and their sources are in
    tools/prices/price_figures.py.

    A figure over so many sessions is of those that have a bar, None where more than a tenth have none; the high states
    its own. lost: the market has no bar of the session before, so there is no change of the day.
    """
    return _told(exact_signals(history, lost))


def exact_signals(history: History, lost: bool = False) -> SymbolSignals:
    """As `symbol_signals`, with all digits that say something: a rule's level is between two of them."""
    bars, spread = history.bars, history.spread
    close, high = spread.close, bars.high[-price_figures.SESSIONS_A_YEAR :]
    month, quarter = history.window(21), history.window(60)
    averaged = {sessions: history.window(sessions) for sessions in (20, 50)}
    a_year = days_a_year(history.symbol)
    return SymbolSignals(
        symbol=history.symbol,
        date=bars.dates[-1],
        close=round(float(close[-1]), EXACT),
        sessions=len(bars.close),
        momentum20=_exact(_momentum(history, 20)),
        momentum60=_exact(_momentum(history, 60)),
        rsi14=_exact(price_figures.rsi(_closes(history, _RSI))),
        from_high=_exact(price_figures.from_high(bars.close, high)),
        high_sessions=len(high),
        volatility20=_exact(price_figures.volatility(month.close, len(month) - 1, a_year)) if month else None,
        drawdown60=_exact(price_figures.drawdown(quarter.close, len(quarter))) if quarter else None,
        volume_ratio=_exact(price_figures.volume_ratio(month.volume, len(month) - 1)) if month else None,
        gap=None if lost else _exact(price_figures.gap(spread.open, close)),
        change=None if lost else _exact(price_figures.momentum(close, 1)),
        sma20=_from_average(averaged[20]),
        sma50=_from_average(averaged[50]),
    )


def _exact(value: float | None) -> float | None:
    return rounded(value, EXACT)


def _told(found: SymbolSignals) -> SymbolSignals:
    figures = {name: value for name, value in found if isinstance(value, float)}
    return found.model_copy(update={name: round(value, _SHOWN.get(name, 4)) for name, value in figures.items()})


def _from_average(bars: Bars | None) -> float | None:
    return _exact(price_figures.from_average(bars.close, len(bars))) if bars else None


def _momentum(history: History, sessions: int) -> float | None:
    """Return the move since so many sessions ago, or since the first bar after it where that session has none."""
    found = price_figures.momentum(history.spread.close, sessions)
    bars = history.window(sessions + 1) if found is None else None
    return price_figures.momentum(bars.close, len(bars) - 1) if bars else found


def _closes(history: History, sessions: int) -> Floats:
    """Return the closes of a figure without an end that looks at so many sessions most: across holes where at most a
    tenth of these have none, else since the last hole."""
    return (history.whole if history.window(sessions) is not None else history.run).close


class _Kept(NamedTuple):
    """Signals, the same as they are told, and what is missing."""

    exact: list[SymbolSignals]
    rows: list[dict[str, Any]]
    gaps: Gaps


# Signals of a day on record, by the symbols that were asked for: each lens asks for those of the same shards.
_KEPT: WeakKeyDictionary[MarketData, dict[tuple[str, ...], _Kept]] = WeakKeyDictionary()


def signal_rows(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[dict[str, Any]]:
    """Return the figures as they are told."""
    return _signals(context, symbols, gaps).rows


def signal_figures(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[SymbolSignals]:
    """Return the figures by which a rule judges."""
    return _signals(context, symbols, gaps).exact


def _signals(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> _Kept:
    recorded = isinstance(context.market, RecordedSessions)
    known, key = _KEPT.setdefault(context.market, {}) if recorded else {}, tuple(symbols)
    if (kept := known.get(key)) is None:
        began = time.monotonic()
        kept = _looked_up(context, symbols)
        if time.monotonic() - began < context.settings.tool_seconds / 2:  # else some may be missing for lack of time
            known[key] = kept
    gaps.take(kept.gaps)
    return kept


def _looked_up(context: ToolContext, symbols: Sequence[str]) -> _Kept:
    gaps = Gaps()
    found, lost = list(histories(context, symbols, gaps)), bool(lost_sessions(context.market, 2))
    note_kept(found, gaps, _LONGEST_SIGNAL)
    note_lost(context, gaps, _LONGEST_SIGNAL)
    exact = [exact_signals(history, lost) for history in found]
    return _Kept(exact, [_told(one).model_dump(mode="json", by_alias=True) for one in exact], gaps)


def signals_get(context: ToolContext, arguments: SignalsArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = signal_rows(context, arguments.symbols, gaps)
    if arguments.figures:
        out = set(FIGURES).difference(arguments.figures)
        rows = [{name: value for name, value in row.items() if name not in out} for row in rows]
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
    arguments=SignalsArguments,
    function=signals_get,
    answer=SignalsAnswer,
)


# Long enough for the recursive indicators (EMA, RSI, ATR, ADX) to have forgotten where they began.
_TECHNICAL_SESSIONS = 400
_LONGEST_TECHNICAL = 200  # sessions of the figure that looks back furthest, but the extremes of a year


def symbol_technicals(history: History, market: MarketData, settings: Settings) -> SymbolTechnicals:
    """Return indicators at the last bar, with TA-Lib's definitions and usual periods; prices per share. MACD 12, 26, 9;
    Bollinger bands of 20 closes and 2 standard deviations; Wilder's RSI, ATR and ADX of 14. high252 and low252 are the
    extremes of exactly 252 sessions. Where at most a tenth of a figure's sessions have no bar it is of the others."""
    bars, run, lib = history.whole, history.run, load_talib()
    year, band = history.window(SESSIONS_A_YEAR), history.window(20)

    def lasting(sessions: int) -> Bars:
        return bars if history.window(sessions) is not None else run

    slow, fast = lasting(26).close, lasting(12).close
    macd, macd_signal, _ = lib.MACD(lasting(34).close)
    ranged, directed = lasting(_RSI), lasting(28)
    return SymbolTechnicals(
        symbol=bars.symbol,
        date=bars.dates[-1],
        close=round(float(bars.close[-1]), 4),
        sma20=_average(history, 20),
        sma50=_average(history, 50),
        sma200=_average(history, 200),
        ema12=_last(lib.EMA(fast, 12)),
        ema26=_last(lib.EMA(slow, 26)),
        macd=_last(macd),
        macd_signal=_last(macd_signal),
        rsi14=rounded(rsi(_closes(history, _RSI)), 3),
        atr14=_last(lib.ATR(ranged.high, ranged.low, ranged.close, 14)),
        bollinger_upper=_band(band, 2),
        bollinger_lower=_band(band, -2),
        adx14=_last(lib.ADX(directed.high, directed.low, directed.close, 14)),
        high252=rounded(float(np.max(year.high))) if year else None,
        low252=rounded(float(np.min(year.low))) if year else None,
        traded20=_traded(band),
        round_trip=round(cost_to_trade(market, bars.symbol, float(bars.close[-1]), settings), 6),
    )


def _average(history: History, sessions: int) -> float | None:
    bars = history.window(sessions)
    return round(float(bars.close.mean()), 3) if bars else None


def _traded(bars: Bars | None) -> int | None:
    """Return the median of a day's close times its volume, whole; None where no volume is known."""
    money = float(np.median(bars.close * bars.volume)) if bars else math.nan
    return round(money) if math.isfinite(money) else None


def _band(bars: Bars | None, deviations: int) -> float | None:
    """Return the mean of closes and so many of their standard deviations, of the whole as Bollinger has it."""
    return round(float(bars.close.mean() + deviations * bars.close.std()), 3) if bars else None


def _last(values: Floats) -> float | None:
    value = float(values[-1])
    return round(value, 3) if math.isfinite(value) else None


def technical_rows(context: ToolContext, symbols: Sequence[str], gaps: Gaps) -> list[dict[str, Any]]:
    found = list(histories(context, symbols, gaps, _TECHNICAL_SESSIONS))
    note_kept(found, gaps, _LONGEST_TECHNICAL)
    note_lost(context, gaps, SESSIONS_A_YEAR)
    read = [symbol_technicals(history, context.market, context.settings) for history in found]
    rows = [one.model_dump(mode="json", by_alias=True) for one in read]
    short = sum(history.window(SESSIONS_A_YEAR) is None for history in found)
    if short:
        reason = f"{short} of {len(rows)} symbols have fewer than {SESSIONS_A_YEAR} sessions of history"
        gaps.add("high252, low252", reason)
    return rows


def technicals_get(context: ToolContext, arguments: TechnicalsArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = technical_rows(context, arguments.symbols, gaps)
    return payload(context, gaps, available=bool(rows), technicals=rows)


TECHNICALS_GET = ToolSpec(
    name="technicals_get",
    description=(
        "Indicators of up to 150 symbols at the last daily bar, in price units: sma20, sma50, sma200, ema12, ema26, "
        "macd, macdSignal, atr14, Bollinger bands (20, 2), high252, low252; rsi14 and adx14 are 0 to 100; traded20 is "
        "the money traded on a median day, roundTrip the cost of buying and selling as a fraction; null is unknown."
    ),
    arguments=TechnicalsArguments,
    function=technicals_get,
    answer=TechnicalsAnswer,
)
