"""The replay market: real daily prices of one year, seen from 15:55 New York of one of its sessions.

It has no headlines, fundamentals, earnings or ratings, and raises NotConfigured for them; option chains only where
modelled ones are asked for.
"""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections.abc import Sequence

from chordesk.models.contracts import MODELLED, OptionChain
from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.market import Headline, Listing, Quote
from chordesk.models.settings import Settings
from chordesk.tools.market.bars import STALE_DAYS, DailyBars
from chordesk.tools.market.clock import ReplayClock, exchange_day, exchange_hours
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.replay.columns import ReplayData
from chordesk.tools.market.replay.data import replay_data
from chordesk.tools.market.replay.modelled import ModelledChains

REPLAYS = True
UNIVERSE = "sp500"


def build(settings: Settings, day: dt.date | None) -> ReplayMarket:
    """Return a view of the data set at that day; the data are shared. Raises SettingError when they lack the day
    or modelled options meet a broker that is not paper, NotConfigured when the data are not installed."""
    data = replay_data(settings.home)
    day = day or settings.replay_date
    require_session(day, data.sessions, "the replay's data")
    if asks_for_modelled(settings):
        return ModelledReplay(data, ReplayClock(day), settings.risk_free_rate)
    return ReplayMarket(data, ReplayClock(day))


def asks_for_modelled(settings: Settings) -> bool:
    """Return whether the settings ask for modelled option chains. Raises SettingError when the broker is not paper."""
    if settings.replay_options != MODELLED:
        return False
    if settings.broker != "paper":
        reason = f"DESK_REPLAY_OPTIONS={MODELLED} is for paper alone, and DESK_BROKER={settings.broker}"
        raise SettingError(reason, remedy="set DESK_BROKER=paper, or DESK_REPLAY_OPTIONS=none")
    return True


def require_session(day: dt.date, sessions: Sequence[dt.date], where: str) -> None:
    """Raise SettingError, with the nearest days, when the data have no session of that day. where: the data."""
    at = bisect.bisect_left(sessions, day)
    if at < len(sessions) and sessions[at] == day:
        return
    near = " and ".join(str(session) for session in sessions[max(at - 1, 0) : at + 1])
    if not sessions[0] <= day <= sessions[-1]:
        why = f"is outside {where} ({sessions[0]} to {sessions[-1]})"
    elif exchange_hours().is_session(day):
        why = f"is a session that {where} lack"
    else:
        why = "is no session of the New York Stock Exchange"
    raise SettingError(f"DESK_REPLAY_DATE={day} {why}", remedy=f"the nearest that can be replayed: {near}")


class ReplayMarket:
    """MarketData of a data set, cut at the clock's session; also the paper broker's FillSource.

    A symbol exists from its first bar on; before that it is as unknown as one that is not in the file.
    """

    name = "replay"

    def __init__(self, data: ReplayData, clock: MarketClock) -> None:
        self.clock = clock
        self._data = data
        self._known: dict[str, slice] = {}  # rows by symbol: the clock stands still, and every figure asks for them

    def universe(self, name: str) -> list[Listing]:
        if name != UNIVERSE:
            raise MarketError(f"no universe named {name!r}; the {self.name} market has {UNIVERSE}")
        return [self._listing(symbol) for symbol in self._data.symbols if self._knows(symbol)]

    def listing(self, symbol: str) -> Listing:
        self._require(symbol)
        return self._listing(symbol)

    def sessions(self, count: int) -> Sequence[dt.date]:
        known = self._data.sessions
        end = bisect.bisect_right(known, self.clock.session())
        return known[max(end - count, 0) : end]

    def recorded(self) -> Sequence[dt.date]:
        return self._data.sessions

    def lost(self, sessions: int) -> Sequence[dt.date]:
        first, last = self.sessions(sessions)[0], self.clock.session()
        return [day for day in self._data.lost if first < day < last]

    def bars(self, symbol: str, sessions: int) -> DailyBars:
        self._require(symbol)
        rows = self._rows(symbol)
        rows = slice(max(rows.start, rows.stop - sessions), rows.stop)
        columns = self._data.columns
        dates = list(map(dt.date.fromordinal, columns.day[rows].tolist()))
        figures = (columns.open, columns.high, columns.low, columns.close, columns.volume)
        adjusted = symbol in self._data.adjusted
        return DailyBars(symbol, dates, adjusted, *(values[rows] for values in figures))

    def quote(self, symbol: str) -> Quote:
        """Return the close of the newest bar; `at` is now for today's bar and that session's close for an older one."""
        bars = self.bars(symbol, 1)
        day, today = bars.dates[-1], self.clock.session()
        if (today - day).days > STALE_DAYS:
            raise MarketError(f"{symbol} has not traded since {day}")
        at = self.clock.now() if day == today else exchange_hours().close_of(day)
        return Quote(symbol=symbol, price=float(bars.close[-1]), at=at, source=self.name)

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        raise NotConfigured("not available: configure DESK_MARKET=yahoo for headlines")

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        raise NotConfigured(f"not available: configure DESK_MARKET=yahoo for {section}")

    def unknown(self, symbols: Sequence[str]) -> list[str]:
        return [symbol for symbol in symbols if not self._knows(symbol)]

    def fill_price(self, symbol: str) -> Quote | None:
        """Return the open of the data set's next session, or its close where the data have no opens; None when the
        set ends. Raises MarketError when the symbol does not trade in that session.

        For the paper broker alone: it is later than now. No tool calls it.
        """
        following = next((day for day in self._data.sessions if day > self.clock.session()), None)
        if following is None:
            return None
        self._require(symbol)
        columns, at = self._data.columns, self._data.rows(symbol, following).stop - 1
        if int(columns.day[at]) != following.toordinal() or not columns.volume[at]:
            raise MarketError(f"{symbol} does not trade in the next session, {following}")
        if math.isnan(columns.open[at]):
            price, end = float(columns.close[at]), exchange_hours().close_of(following)
            return Quote(symbol=symbol, price=price, at=end, source=self.name)
        prices = {"price": float(columns.open[at]), "low": float(columns.low[at]), "high": float(columns.high[at])}
        return Quote(symbol=symbol, at=exchange_hours().open_of(following), source=self.name, **prices)

    def _knows(self, symbol: str) -> bool:
        rows = self._rows(symbol)
        return int(rows.start) < int(rows.stop)

    def _rows(self, symbol: str) -> slice:
        if (rows := self._known.get(symbol)) is None:
            rows = self._known[symbol] = self._data.rows(symbol, self.clock.session())
        return rows

    def _require(self, symbol: str) -> None:
        if not self._knows(symbol):
            today = exchange_day(self.clock.now())
            raise MarketError(f"unknown symbol {symbol}: the {self.name} market has no price of it up to {today}")

    def _listing(self, symbol: str) -> Listing:
        return self._data.listings.get(symbol, Listing(symbol=symbol))


class WithModelledChains(ReplayMarket):
    """Market of past prices with modelled option chains, each quote labelled: an OptionSource and a ChainSource.

    _chains: set by the class that is built.
    """

    _chains: ModelledChains

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        self._require(symbol)
        return self._chains.chain(symbol, first, last)

    def option_quote(self, contract: str) -> Quote:
        return self._chains.quote(contract)


class ModelledReplay(WithModelledChains):
    """Replay market with modelled option chains. rate: interest a year, 0.04 is 4 %."""

    def __init__(self, data: ReplayData, clock: MarketClock, rate: float) -> None:
        super().__init__(data, clock)
        self._chains = ModelledChains(self, rate)
