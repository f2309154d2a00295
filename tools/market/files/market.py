"""The files market: a user's own data, seen from 15:55 New York of one of their sessions (DESK_REPLAY_DATE).

It has what its folder has. It raises NotConfigured for what no file of the folder gives.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from chordesk.models.company import EarningsDate, Statement
from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.exchanges import HOME
from chordesk.models.market import Headline, Listing, OptionChain, Quote, parse_contract, root_of
from chordesk.models.money import FxRate, parse_pair
from chordesk.models.settings import Settings
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import ReplayClock, clock_day, exchange_day
from chordesk.tools.market.files.chains import ChainTable
from chordesk.tools.market.files.data_folder import FilesData, Further, files_data
from chordesk.tools.market.files.news_and_earnings import latest
from chordesk.tools.market.prices import splits_since
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.rate_tables import RateTable
from chordesk.tools.market.replay.market import (
    UNIVERSE,
    ModelledReplay,
    ReplayMarket,
    asks_for_modelled,
    require_session,
)

NAME = "files"


def build(settings: Settings, day: dt.date | None) -> FilesMarket:
    """Return a view of the settings' folder at that day; the data are shared. Raises SettingError when there is no
    such folder, it has errors, its data lack the day, or modelled options meet a broker that is not paper."""
    data = files_data(settings)
    day = day or settings.replay_date
    sessions = data.sessions_of(settings.exchange)
    if not sessions:
        there = ", ".join(sorted(data.exchanges))
        reason = f"DESK_EXCHANGE={settings.exchange}, and the symbols of DESK_DATA={data.folder.path} are of {there}"
        raise SettingError(reason, remedy=f"set DESK_EXCHANGE to {' or '.join(sorted(data.exchanges))}")
    require_session(day, sessions, f"the data of {data.folder.path}", settings.exchange)
    clock = ReplayClock(day, exchange=settings.exchange)
    if asks_for_modelled(settings):
        return ModelledFiles(data, clock, settings.risk_free_rate)
    table = data.read("chains")
    if table is not None:
        return ChainedFiles(data, clock, table)
    return FilesMarket(data, clock)


class FilesMarket(ReplayMarket):
    """MarketData of a data folder, cut at the clock's session. Its name has the version of the data, so that a run on
    other files is a run on another market."""

    def __init__(self, data: FilesData, clock: MarketClock) -> None:
        super().__init__(data, clock)
        self.name = f"{NAME}-{data.version}"
        self._files = data
        self._members: list[Listing] | None = None  # the clock stands still

    def universe(self, name: str) -> list[Listing]:
        """Return the folder's own universe, by whatever name a market's universe is asked for: the members of
        universe.csv in the market's session, or all symbols, as far as they have bars by now."""
        if name != UNIVERSE:
            raise MarketError(f"no universe named {name!r}; {UNIVERSE} is all of a folder's own symbols here")
        if self._members is None:
            day = self.clock.session()
            self._members = [one for one in super().universe(name) if self._files.is_member(one.symbol, day)]
        return list(self._members)

    def on(self, clock: MarketClock) -> Self:
        other = super().on(clock)
        other._members = None
        return other

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        self._require(symbol)
        found = self._read("headlines", "headlines", "headlines.csv or headlines.jsonl")
        return latest(found.get(symbol, []), self.clock.now(), limit)

    def earnings(self, symbol: str) -> Sequence[EarningsDate]:
        self._require(symbol)
        found: Mapping[str, Sequence[EarningsDate]] = self._read("earnings", "earnings dates", "earnings.csv")
        return found.get(symbol, [])

    def statements(self, symbol: str) -> Sequence[Statement]:
        self._require(symbol)
        found: Mapping[str, Sequence[Statement]] = self._read("statements", "statements", "statements.csv")
        return found.get(symbol, [])

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        rates: RateTable = self._read("fx", "exchange rates", "fx.csv")
        return rates.rate(*parse_pair(pair), min(at or self.clock.now(), self.clock.now()))

    def _read(self, what: Further, noun: str, file: str) -> Any:
        if (found := self._files.read(what)) is None:
            why = f"the data folder has no {noun}; configure DESK_DATA with a file {file}"
            raise NotConfigured(f"not available: {why}")
        return found

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        how = "add chains.csv to it" if section == "options" else "configure DESK_MARKET=yahoo for it"
        raise NotConfigured(f"not available: the data folder has no {section}; {how}")


class ChainedFiles(FilesMarket):
    """Files market with the option chains of its folder: an OptionSource and a ChainSource. Of each underlying it has
    the newest day of quotes up to now; the chain's time states which."""

    def __init__(self, data: FilesData, clock: MarketClock, table: ChainTable) -> None:
        super().__init__(data, clock)
        self._table = table

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        self._require(symbol)
        rows = self._table.of_day(root_of(symbol), self.clock.now())
        if not len(rows):
            today = clock_day(self.clock)
            raise MarketError(f"the data folder has no option quotes of {symbol} up to {today}")
        return self._made(symbol, rows, first, last)

    def past_chains(self, symbol: str, days: tuple[int, int], but: Container[dt.date]) -> Iterator[OptionChain]:
        rows = self._table.of_day(root_of(symbol), self.clock.now())
        while len(rows):
            day = exchange_day(self._quoted(rows), HOME)
            before = dt.datetime.combine(day, dt.time(), NEW_YORK) - dt.timedelta(seconds=1)
            rows = self._table.of_day(root_of(symbol), before)
            if not len(rows) or (day := exchange_day(self._quoted(rows), HOME)) in but:
                continue
            with suppress(MarketError):  # no price of the share on that day
                yield self._made(symbol, rows, *(day + dt.timedelta(days=away) for away in days))

    def _quoted(self, rows: npt.NDArray[np.int64]) -> dt.datetime:
        return self._table.time_of(int(rows[np.argmax(self._table.at[rows])]))

    def _made(self, symbol: str, rows: npt.NDArray[np.int64], first: dt.date, last: dt.date) -> OptionChain:
        quoted = self._quoted(rows)
        found = tuple(
            self._table.quote(row)
            for row in rows.tolist()
            if first <= self._table.contracts[int(self._table.contract[row])].expiry <= last
        )
        return OptionChain(symbol, quoted, self.name, self._spot(symbol, rows, exchange_day(quoted, HOME)), found)

    def option_quote(self, contract: str) -> Quote:
        """Return the price midway between bid and ask, at the time of the quote."""
        named = parse_contract(contract)
        if named is None:
            raise MarketError(f"{contract} is no OCC symbol of an option contract")
        rows = self._table.of_day(named.underlying, self.clock.now())
        mine = [row for row in rows.tolist() if self._table.contracts[int(self._table.contract[row])] == named]
        if not mine:
            raise MarketError(f"unknown contract {contract}: the newest chain of the data folder does not list it")
        at, quote = self._table.time_of(mine[0]), self._table.quote(mine[0])
        if quote.bid is None or quote.ask is None or quote.bid > quote.ask or not quote.ask:
            raise MarketError(f"{contract} has no two-sided quote on {at:%Y-%m-%d}")
        price = (quote.bid + quote.ask) / 2
        offers = {"bid": quote.bid or None, "ask": quote.ask}
        return Quote.model_validate({"symbol": named.symbol, "price": price, "at": at, "source": self.name, **offers})

    def _spot(self, symbol: str, rows: npt.NDArray[np.int64], day: dt.date) -> float:
        """Return the share's price with the quotes: the file's own, else the close of that day as it was traded."""
        stated = self._table.figures["spot"][rows]
        if len(known := stated[np.isfinite(stated) & (stated > 0)]):
            return float(known[-1])
        bars = self.traded(symbol, max((self.clock.session() - day).days, 0) + 1)
        if day not in bars.dates or bars.adjusted:
            why = "its closes are adjusted" if bars.adjusted else "it has no bar of that day"
            raise MarketError(f"the chain of {symbol} of {day} has no price of the share, and {why}")
        return float(bars.close[list(bars.dates).index(day)]) * splits_since(self, symbol, day)


class ModelledFiles(ModelledReplay, FilesMarket):
    """Files market with modelled option chains in place of the folder's own."""
