"""What TradingAgents asks its vendors, answered from a run's market by the desk's own tools, as plain text.

What the desk does not have is stated as missing, never estimated; nothing is later than the market's now.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from chordesk.models.answers import upper
from chordesk.models.errors import DeskError, MarketError
from chordesk.models.text import fenced
from chordesk.tools.market.clock import clock_day, day_of
from chordesk.tools.market.prices import history_of, lapse
from chordesk.tools.market.protocol import Bars, Floats
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.model_tools.company import CompanyArguments, company_get
from chordesk.tools.model_tools.company_data import InsiderArguments, insider_trades, plain_text
from chordesk.tools.model_tools.news import published
from chordesk.tools.prices.price_figures import load_talib
from chordesk.tools.registry import ToolContext

_PERIOD = 20  # of the volume-weighted average


def _macd(at: int) -> Callable[[Any, Bars], Floats]:
    return lambda lib, bars: lib.MACD(bars.close)[at]


def _band(at: int) -> Callable[[Any, Bars], Floats]:
    return lambda lib, bars: lib.BBANDS(bars.close, timeperiod=20)[at]


def _weighted(_lib: Any, bars: Bars) -> Floats:
    """Return the mean of the closes of 20 sessions, weighted by volume."""
    found = np.full(len(bars.close), np.nan)
    if len(bars.close) >= _PERIOD:
        sums = [np.convolve(values, np.ones(_PERIOD), "valid") for values in (bars.close * bars.volume, bars.volume)]
        with np.errstate(divide="ignore", invalid="ignore"):
            found[_PERIOD - 1 :] = sums[0] / sums[1]
    return found


def _ranges(bars: Bars) -> tuple[Floats, Floats, Floats]:
    return bars.high, bars.low, bars.close


# By TradingAgents' name: what it is, and its series.
INDICATORS: Mapping[str, tuple[str, Callable[[Any, Bars], Floats]]] = {
    "close_50_sma": ("mean of 50 closes", lambda lib, bars: lib.SMA(bars.close, 50)),
    "close_200_sma": ("mean of 200 closes", lambda lib, bars: lib.SMA(bars.close, 200)),
    "close_10_ema": ("exponential mean of closes, 10 sessions", lambda lib, bars: lib.EMA(bars.close, 10)),
    "macd": ("MACD 12, 26", _macd(0)),
    "macds": ("signal line of MACD 12, 26, 9", _macd(1)),
    "macdh": ("histogram of MACD 12, 26, 9", _macd(2)),
    "rsi": ("Wilder's RSI of 14, 0 to 100", lambda lib, bars: lib.RSI(bars.close, 14)),
    "boll": ("middle Bollinger band, 20 closes", _band(1)),
    "boll_ub": ("upper Bollinger band, 20 closes and 2 deviations", _band(0)),
    "boll_lb": ("lower Bollinger band, 20 closes and 2 deviations", _band(2)),
    "atr": ("Wilder's ATR of 14", lambda lib, bars: lib.ATR(*_ranges(bars), 14)),
    "vwma": ("mean of 20 closes weighted by volume", _weighted),
    "mfi": ("money flow index of 14, 0 to 100", lambda lib, bars: lib.MFI(*_ranges(bars), bars.volume, 14)),
}  # fmt: skip


def series(name: str, bars: Bars) -> Floats:
    """Return the values of an indicator, one for each bar; not a number where it is not known."""
    found: Floats = INDICATORS[name][1](load_talib(), bars)
    return found


MISSING = "NO_DATA_AVAILABLE"
ERROR = "ERROR:"
EMPTY = (MISSING, ERROR)  # begin the answers that have nothing
_ADVICE = "Do not estimate it or make it up: report that it is not available."
_SESSIONS = 400  # as the desk's own indicators: the recursive ones have forgotten where they began
_MOST_BARS = 1000
_MOST_HEADLINES = 100
_HEADLINE_CHARS = 300
_NEWS_DAYS, _INDICATOR_DAYS, _SNAPSHOT_ROWS = 7, 30, 30
_SECTIONS = ("fundamentals", "earnings", "ratings", "insiders", "hedgeFunds")
_LARGE = 1e5  # such as a volume: shown without decimals of its own
_FIGURES = ("open", "high", "low", "close", "volume")


class DeskData:
    """The data of one run's market, for the tools of one graph. Threads may share it."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self._answers: Mapping[str, Callable[..., str]] = {
            "get_stock_data": self.prices,
            "get_indicators": self.indicators,
            "get_fundamentals": self.fundamentals,
            "get_news": self.news,
            "get_insider_transactions": self.insiders,
            "get_snapshot": self.snapshot,
        }

    @property
    def today(self) -> dt.date:
        return clock_day(self.context.clock)

    def answer(self, method: str, *given: Any, **named: Any) -> str:
        """Return the answer to a method of TradingAgents' vendors, whatever a model gave it: an error is text too."""
        if (found := self._answers.get(method)) is None:
            return self.missing(method.removeprefix("get_").replace("_", " "), "", "the desk has no source of it")
        try:
            return found(*given, **named)
        except DeskError as error:
            return self.missing(method.removeprefix("get_").replace("_", " "), str(given[:1])[1:-2], str(error))
        except (TypeError, ValueError) as error:
            return f"{ERROR} {method}{given!r:.120}: {error}"

    def missing(self, what: str, symbol: str, why: str) -> str:
        of = f" of {symbol}" if symbol else ""
        return f"{MISSING}: {what}{of} is not available ({self._source}): {why}. {_ADVICE}"

    def prices(self, symbol: str, start_date: str, end_date: str) -> str:
        """Return daily bars from the first to the last date as a table by comma. Raises MarketError, ValueError."""
        name, first, last = _symbol(symbol), _day(start_date), self._until(end_date)
        bars = self._bars(name, max(math.ceil((self.today - first).days * 5 / 7) + 10, 1))
        rows = [place for place, day in enumerate(bars.dates) if first <= day <= last]
        if not rows:
            return self.missing("prices", name, f"no session from {first} to {last}")
        lines = [",".join([str(bars.dates[at]), *(_figure(getattr(bars, one)[at]) for one in _FIGURES)]) for at in rows]
        adjusted = "adjusted for splits and dividends" if bars.adjusted else "not adjusted"
        head = f"# Daily prices of {name} from {first} to {last}, {adjusted}; {self._source}; {len(rows)} sessions"
        return "\n".join([head, "Date,Open,High,Low,Close,Volume", *lines])

    def indicators(
        self, symbol: str, indicator: str, curr_date: str, look_back_days: int | str | None = _INDICATOR_DAYS
    ) -> str:
        """Return the values of one indicator by session, the newest first. Raises MarketError, ValueError."""
        name, wanted = _symbol(symbol), indicator.strip().lower()
        if wanted not in INDICATORS:
            raise ValueError(f"indicator {indicator!r:.40} is not supported; choose from {', '.join(INDICATORS)}")
        last = self._until(curr_date)
        first = last - dt.timedelta(days=_count(look_back_days, _INDICATOR_DAYS))
        bars = self._run(name)
        rows = [
            (day, value) for day, value in zip(bars.dates, series(wanted, bars), strict=True) if first <= day <= last
        ]
        if not any(math.isfinite(value) for _, value in rows):
            return self.missing(wanted, name, f"no value from {first} to {last}: the history is too short or has holes")
        lines = [f"{day}: {_figure(value)}" for day, value in reversed(rows)]
        head = f"## {wanted} of {name} ({INDICATORS[wanted][0]}) from {first} to {last}; {self._source}"
        return "\n".join([head, *lines])

    def snapshot(self, symbol: str, curr_date: str, look_back_days: int | str | None = _SNAPSHOT_ROWS) -> str:
        """The last bar up to a date, all indicators at it, and the closes before it. Raises MarketError, ValueError."""
        name, last = _symbol(symbol), self._until(curr_date)
        bars = self._run(name)
        known = sum(day <= last for day in bars.dates)
        if not known:
            return self.missing("a price", name, f"no session up to {last}")
        at = known - 1
        recent = range(max(known - min(max(_count(look_back_days, _SNAPSHOT_ROWS), 1), _SNAPSHOT_ROWS), 0), known)
        return "\n".join(
            [
                f"## Verified figures of {name} at {bars.dates[at]}; {self._source}",
                *(f"- {one}: {_figure(getattr(bars, one)[at])}" for one in _FIGURES),
                *(f"- {one}: {_figure(series(one, bars)[at])} ({what[0]})" for one, what in INDICATORS.items()),
                "### Closes",
                *(f"- {bars.dates[place]}: {_figure(bars.close[place])}" for place in recent),
                "These are the desk's own figures. Where another text differs, these hold.",
            ]
        )

    def fundamentals(self, ticker: str, curr_date: str | None = None) -> str:
        name = _symbol(ticker)
        arguments = CompanyArguments.model_validate({"symbols": [name], "parts": list(_SECTIONS)})
        found = company_get(self.context, arguments)
        return self._payload("company data", name, found, found["companies"])

    def insiders(self, ticker: str) -> str:
        """Return insiders' trades that were known by now."""
        name = _symbol(ticker)
        found = insider_trades(self.context, InsiderArguments(symbols=[name], limit=30))
        return self._payload("insider trades", name, found, found["insiders"])

    def news(self, ticker: str, start_date: str, end_date: str) -> str:
        """Return the headlines of these days, the newest first. Raises MarketError, ValueError."""
        name, first, last = _symbol(ticker), _day(start_date), self._until(end_date)
        rows = published(self.context, self.context.market.headlines(name, _MOST_HEADLINES))
        found = [row for row in rows if first <= day_of(row.published_at, name) <= last]
        if not found:
            return self.missing("news", name, f"the source has no headline from {first} to {last}")
        lines = [
            f"- {day_of(row.published_at, name)} {fenced(plain_text(row.headline, _HEADLINE_CHARS))}"
            f" ({fenced(plain_text(row.source))})"
            for row in found
        ]
        return "\n".join([f"# Headlines of {name} from {first} to {last}; {self._source}", *lines])

    def has_news(self, symbol: str) -> bool:
        day = self.today
        return not self.answer("get_news", symbol, str(day - dt.timedelta(days=_NEWS_DAYS)), str(day)).startswith(EMPTY)

    def identity(self, ticker: str) -> dict[str, str]:
        """Return name, sector and industry as far as the market has them."""
        try:
            found = self.context.market.listing(_symbol(ticker))
        except (DeskError, ValueError):
            return {}
        fields = {"company_name": found.name, "sector": found.sector, "industry": found.industry}
        # TradingAgents puts them into a sentence of its prompts, where nothing else than a name has a place.
        return {name: fenced(plain_text(value))[1:-1] for name, value in fields.items() if value}

    @property
    def _source(self) -> str:
        return f"the desk's market {self.context.market.name} as of {self.context.clock.now():%Y-%m-%d}"

    def _until(self, text: str) -> dt.date:
        return min(_day(text), self.today)

    def _bars(self, symbol: str, sessions: int) -> Bars:
        return self.context.market.bars(symbol, min(sessions, _MOST_BARS))

    def _run(self, symbol: str) -> Bars:
        bars, days = self.context.market.bars(symbol, _SESSIONS), self.context.market.sessions(_SESSIONS)
        if (why := lapse(bars.dates[-1], days[-1])) is not None:
            raise MarketError(why)
        return history_of(bars, days).run

    def _payload(self, what: str, symbol: str, found: Mapping[str, Any], rows: Sequence[Any]) -> str:
        gaps = [f"{row['what']}: {row['reason']}" for row in found["missing"]]
        if not found["available"]:
            return self.missing(what, symbol, "; ".join(gaps) or "the source has none")
        text = [
            f"# {what.capitalize()} of {symbol}; {self._source}",
            fenced(rows, indented=True),
        ]
        return "\n".join([*text, *(f"Not available: {gap}. {_ADVICE}" for gap in gaps)])


def _symbol(text: str) -> str:
    """Return a symbol in the market's spelling. Raises ValueError."""
    found = upper(text)
    if not isinstance(found, str) or not is_symbol(found):
        raise ValueError(f"{text!r:.40} is no symbol")
    return found


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(str(text).strip()[:10])
    except ValueError:
        raise ValueError(f"{text!r:.40} is no date; write YYYY-MM-DD") from None


def _count(given: int | str | None, default: int) -> int:
    return default if given is None else min(max(int(given), 0), _MOST_BARS)


def _figure(value: float) -> str:
    if not math.isfinite(value):
        return "n/a"
    return f"{value:.10g}" if abs(value) >= _LARGE else f"{value:.4f}"
