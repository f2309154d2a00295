"""The price figures of many names on many past sessions at once, each as a screen on that day would have had it.

A name's figures on a day are those of `tools.model_tools.signals.exact_signals`. Where none of the last 252 sessions
lacks a bar they are computed for all days together, which is two hundred times as fast; on all other days one by one.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import days_a_year
from chordesk.tools.lenses.figures import PRICE_FIGURES
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.prices import History, actions_of, lost_sessions, moves_like_splits, vanished
from chordesk.tools.market.protocol import Bars, Floats, MarketData, RecordedSessions
from chordesk.tools.model_tools.signals import EXACT, exact_signals
from chordesk.tools.prices.close_table import CloseTable
from chordesk.tools.prices.price_figures import SESSIONS_A_YEAR

_PERIODS = 14
_OF_YESTERDAY = ("gap", "change")
_COLUMNS = ("open", "high", "low", "close", "volume")


class PastFigures:
    """Figures by day and name. market: by the clock of the last session of its data; days: all sessions of the data up
    to there, in ascending order."""

    def __init__(self, market: MarketData, symbols: Sequence[str], days: Sequence[dt.date]) -> None:
        self.market, self.symbols, self.days = market, tuple(symbols), list(days)
        self.row = {day: at for at, day in enumerate(self.days)}
        self.column = {symbol: at for at, symbol in enumerate(self.symbols)}
        self._bars = {symbol: bars for symbol in self.symbols if (bars := self._read(symbol)) is not None}

    def _read(self, symbol: str) -> Bars | None:
        try:
            return self.market.bars(symbol, (self.days[-1] - self.days[0]).days + 1)
        except MarketError:
            return None

    @cached_property
    def _places(self) -> dict[str, npt.NDArray[np.int64]]:
        """By name the row of each of its bars, -1 for a day that is not a session."""
        return {
            symbol: np.array([self.row.get(dt.date.fromordinal(day.toordinal()), -1) for day in bars.dates])
            for symbol, bars in self._bars.items()
        }

    def closes(self, delisted_pays: float) -> CloseTable:
        table = np.full((len(self.days), len(self.symbols)), np.nan)
        for symbol, bars in self._bars.items():
            places = self._places[symbol]
            table[places[places >= 0], self.column[symbol]] = bars.close[places >= 0]
        pays = {symbol: delisted_pays for symbol in self._bars if vanished(self.market, symbol) is not None}
        return CloseTable(self.days, self.symbols, table, pays)

    def tables(self, names: Collection[str], rows: Sequence[int]) -> dict[str, Floats]:
        """Return days x names of each price figure, nan where it is unknown. rows: of the days that are asked for."""
        wanted = [name for name in PRICE_FIGURES if name in names]
        found = {name: np.full((len(self.days), len(self.symbols)), np.nan) for name in wanted}
        asked = np.zeros(len(self.days), dtype=bool)
        asked[list(rows)] = True
        for symbol in self._bars if wanted else ():
            self._fill(found, symbol, asked)
        if not found.keys().isdisjoint(_OF_YESTERDAY):
            self._without_yesterday(found, rows)
        return found

    def _fill(self, found: dict[str, Floats], symbol: str, asked: npt.NDArray[np.bool_]) -> None:
        bars, places, column = self._bars[symbol], self._places[symbol], self.column[symbol]
        whole = unbroken(places)
        values = figures_of(bars, symbol)
        if "close" in found:
            values["close"] = values["close"] * self._as_traded(bars, symbol)
        for name, table in found.items():
            table[places[whole], column] = values[name][whole]
        for at in np.flatnonzero(~whole & (places >= 0)):
            row = int(places[at])
            if asked[row]:
                one = self._alone(symbol, row, int(at))
                for name, table in found.items():
                    table[row, column] = np.nan if one[name] is None else one[name]

    def _as_traded(self, bars: Bars, symbol: str) -> Floats:
        """Return the factors by which what happened to the shares later has changed each close."""
        factors = np.ones(len(bars))
        for action in actions_of(self.market, symbol, bars.dates[0]):
            factors[: int(np.searchsorted([day.toordinal() for day in bars.dates], action.day.toordinal()))] *= (
                action.growth
            )
        return factors

    def _alone(self, symbol: str, row: int, at: int) -> dict[str, float | None]:
        history = _history(self._bars[symbol], self._places[symbol], self.days, row, at)
        found = exact_signals(history).model_dump(by_alias=True)
        split = not history.bars.adjusted and bool(moves_like_splits(history.bars.close))
        return {**found, "splitLike": float(split)}

    def _without_yesterday(self, found: dict[str, Floats], rows: Sequence[int]) -> None:
        """Where the market has no bar of the session before, there is no move of the day."""
        assert isinstance(self.market, RecordedSessions)
        exchange = self.market.clock.exchange
        for row in rows:
            if lost_sessions(self.market.on(ReplayClock(self.days[row], exchange=exchange)), 2):
                for name in _OF_YESTERDAY:
                    if name in found:
                        found[name][row] = np.nan


def _history(bars: Bars, places: npt.NDArray[np.int64], days: Sequence[dt.date], row: int, at: int) -> History:
    """Return what `history_of` does for the bar at a place, on the session of a row."""
    start = max(0, row - SESSIONS_A_YEAR + 1)
    kept = np.arange(max(0, at - SESSIONS_A_YEAR + 1), at + 1)
    kept = kept[places[kept] >= start]
    own = places[kept]
    values = [getattr(bars, name)[kept] for name in _COLUMNS]
    wide = [np.full(row + 1 - own[0], np.nan) for _ in values]
    for spread, given in zip(wide, values, strict=True):
        spread[own - own[0]] = given
    inside = Bars(bars.symbol, [days[place] for place in own], bars.adjusted, *values)
    broken = np.flatnonzero(np.diff(own) != 1)
    run = len(own) - (int(broken[-1]) + 1 if len(broken) else 0)
    whole = Bars(bars.symbol, days[own[0] : row + 1], bars.adjusted, *wide)
    return History(bars.symbol, inside, whole, inside.last(run))


def unbroken(places: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for which bars none of the last 252 sessions since the name's first bar lacks one. places: of the bars
    among the sessions."""
    at = np.arange(len(places))
    first = np.maximum(at - SESSIONS_A_YEAR + 1, 0)
    return np.asarray((places >= 0) & (places[first] >= 0) & (places - places[first] == at - first), dtype=np.bool_)


def figures_of(bars: Bars, symbol: str) -> dict[str, Floats]:
    """Return each price figure at each bar of an unbroken history, nan in a history that is too short."""
    close, count = bars.close, len(bars)
    with np.errstate(all="ignore"):
        high = _rolling_high(bars.high)
        found = {
            "close": close,
            "sessions": np.minimum(np.arange(count) + 1.0, SESSIONS_A_YEAR),
            "momentum20": _momentum(close, 20),
            "momentum60": _momentum(close, 60),
            "rsi14": _rsi(close),
            "fromHigh": close / high - 1,
            "highSessions": np.minimum(np.arange(count) + 1.0, SESSIONS_A_YEAR),
            "volatility20": _volatility(close, days_a_year(symbol)),
            "drawdown60": _drawdown(close, 60),
            "volumeRatio": _volume_ratio(bars.volume, 20),
            "gap": _after(1, count, bars.open[1:] / close[:-1] - 1),
            "change": _momentum(close, 1),
            "sma20": _from_average(close, 20),
            "sma50": _from_average(close, 50),
            "splitLike": np.zeros(count) if bars.adjusted else _split_like(close),
        }
    return {name: np.where(np.isfinite(values), np.round(values, EXACT), np.nan) for name, values in found.items()}


def _after(first: int, count: int, values: Floats) -> Floats:
    """Return values from a bar on, after those that have none."""
    found = np.full(count, np.nan)
    if count > first:
        found[first:] = values
    return found


def _momentum(close: Floats, sessions: int) -> Floats:
    return _after(sessions, len(close), close[sessions:] / close[:-sessions] - 1)


def _rolling_high(high: Floats) -> Floats:
    found = np.maximum.accumulate(high)
    if len(high) > SESSIONS_A_YEAR:
        found[SESSIONS_A_YEAR - 1 :] = sliding_window_view(high, SESSIONS_A_YEAR).max(axis=1)
    return np.asarray(found)


def _volatility(close: Floats, a_year: int, sessions: int = 20) -> Floats:
    returns = np.diff(np.log(close))
    if len(returns) < sessions:
        return np.full(len(close), np.nan)
    spread = sliding_window_view(returns, sessions).std(axis=1, ddof=1) * np.sqrt(a_year)
    return _after(sessions, len(close), spread)


def _drawdown(close: Floats, sessions: int) -> Floats:
    if len(close) < sessions:
        return np.full(len(close), np.nan)
    windows = sliding_window_view(close, sessions)
    deepest = (windows / np.maximum.accumulate(windows, axis=1)).min(axis=1) - 1
    return _after(sessions - 1, len(close), deepest)


def _volume_ratio(volume: Floats, sessions: int) -> Floats:
    if len(volume) <= sessions:
        return np.full(len(volume), np.nan)
    usual = sliding_window_view(volume, sessions).mean(axis=1)[:-1]
    return _after(sessions, len(volume), np.where(usual > 0, volume[sessions:] / usual, np.nan))


def _from_average(close: Floats, sessions: int) -> Floats:
    if len(close) < sessions:
        return np.full(len(close), np.nan)
    average = sliding_window_view(close, sessions).mean(axis=1)
    return _after(sessions - 1, len(close), close[sessions - 1 :] / average - 1)


def _split_like(close: Floats) -> Floats:
    found = np.zeros(len(close))
    for place in moves_like_splits(close):
        found[place : place + SESSIONS_A_YEAR - 1] = 1.0
    return found


def _rsi(close: Floats) -> Floats:
    """Return Wilder's index of each bar's last 252 closes, as TA-Lib has it: gain and loss begin as plain means of the
    first 14 changes and go on as mean + (change - mean) / 14. So after n changes a change i has the weight
    (13/14)^(n-i) / 14, and each of the first 14 that of the 14th."""
    changes, count = np.diff(close), len(close)
    found = np.full(count, np.nan)
    if len(changes) < _PERIODS:
        return found
    gain, loss = (_wilder(np.maximum(part, 0.0), count) for part in (changes, -changes))
    moved = gain + loss
    # A price that never moved has the index 0.
    return np.where(np.isnan(moved), np.nan, np.where(moved > 0, 100 * gain / np.where(moved > 0, moved, 1.0), 0.0))


def _wilder(moves: Floats, count: int) -> Floats:
    kept, window = 1 - 1 / _PERIODS, SESSIONS_A_YEAR - 1
    found = np.full(count, np.nan)
    mean = float(moves[:_PERIODS].mean())
    found[_PERIODS] = mean
    for at in range(_PERIODS, min(len(moves), window)):
        mean += (float(moves[at]) - mean) / _PERIODS
        found[at + 1] = mean
    if len(moves) > window:
        after = np.arange(window - 1, -1, -1.0)
        after[:_PERIODS] = window - _PERIODS
        weights = kept**after / _PERIODS
        found[window:] = np.convolve(moves, weights[::-1], "valid")
    return found
