"""Protocols of markets and of the clock that every tool, limit and cooldown reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from chordesk.models.company import (
    EarningsDate,
    Filing,
    Holder,
    InsiderTrade,
    PriceTargets,
    RatingChange,
    ShortInterest,
    Statement,
)
from chordesk.models.market import Headline, Listing, OptionChain, Quote
from chordesk.models.money import FxRate

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Floats: TypeAlias = "npt.NDArray[np.float64]"  # most commands have no use for the library


@dataclass(slots=True)
class Bars:
    """Bars of one symbol in ascending order; every array is read-only and as long as `dates`. None is later than the
    clock's now.

    adjusted: whether prices before a split or a dividend were brought to the level after it. In a market that knows its
    corporate actions these are the ones up to the clock's session, so that the last bar is as it was traded.
    """

    symbol: str
    dates: Sequence[dt.date]
    adjusted: bool
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats

    def __post_init__(self) -> None:
        for values in (self.open, self.high, self.low, self.close, self.volume):
            values.setflags(write=False)

    def __len__(self) -> int:
        return len(self.dates)

    def last(self, count: int) -> Bars:
        if count >= len(self):
            return self
        rows = slice(len(self) - count, None)
        figures = (self.open, self.high, self.low, self.close, self.volume)
        return Bars(self.symbol, self.dates[rows], self.adjusted, *(values[rows] for values in figures))


class Action(NamedTuple):
    """What a company did to its shares before the open of a day."""

    day: dt.date
    split: float  # shares that one became, 1 without a split
    dividend: float  # cash for each share that was held the evening before
    growth: float  # the factor by which earlier prices are divided to compare with later ones
    # spun, spun_shares: shares of another symbol that came with one of this, where the market has that symbol
    spun: str = ""
    spun_shares: float = 0.0


class Intraday(NamedTuple):
    """Bars of part of a session, dated by their starts in New York."""

    bars: Bars  # those that the source has
    # a row for each bar that the exchange's hours make from the first of them on, not a number where it has none
    spread: Bars
    run: Bars  # the last ones without a hole
    unfinished: bool  # the last bar goes on


class MarketClock(Protocol):
    """Clock of a market. In a replay it stands five minutes before the close of `day`; live it is real time, and `day`
    is None.

    exchange: the code of the exchange that is asked about; None is the clock's own, that of its run.
    """

    @property
    def day(self) -> dt.date | None:
        """Return the day that is replayed."""

    @property
    def exchange(self) -> str: ...

    def now(self) -> dt.datetime: ...

    def is_open(self, exchange: str | None = None) -> bool:
        """Return whether an exchange's regular session is on."""

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        """Return the first regular open after now, or the end of the break that is now."""

    def session(self, exchange: str | None = None) -> dt.date:
        """Return the last session whose daily bar is known now."""


class MarketData(Protocol):
    """Source of prices and texts, never of anything later than the clock's now.

    What a source does not carry raises NotConfigured ("not available: configure X"); what it cannot give right now
    raises MarketUnavailable; an unknown symbol raises MarketError naming it.
    """

    name: str
    clock: MarketClock

    def universe(self, name: str) -> list[Listing]:
        """Return the members of a named universe, by symbol."""

    def listing(self, symbol: str) -> Listing:
        """Return name, sector and industry of one symbol."""

    def sessions(self, count: int) -> Sequence[dt.date]:
        """Return the last sessions of which this market has daily bars, at most so many, in ascending order; the last
        is the clock's session."""

    def bars(self, symbol: str, sessions: int) -> Bars:
        """Return at most the last `sessions` daily bars."""

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now."""

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        """Return headlines, newest first."""

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        """Return one section of a company's overview: fundamentals, earnings, ratings, options."""


@runtime_checkable
class FillSource(Protocol):
    """Market of real time that prices fills, for the paper broker alone."""

    def fill_price(self, symbol: str) -> Quote | None:
        """Return the last quote of today, at which an order placed now is filled; None when there is none. Raises
        MarketError when the symbol does not trade today."""


@runtime_checkable
class FxSource(Protocol):
    """Market that knows what currencies are worth in each other."""

    def rate(self, pair: str, at: dt.datetime | None = None) -> FxRate:
        """Return the last rate of a pair such as GBPUSD that was known at a moment, by default now: how much of the
        second one unit of the first is. Raises MarketError where it has none. A source of real time has that of now
        alone."""


@runtime_checkable
class ActionSource(Protocol):
    """Market that keeps prices as they were traded, and the splits and dividends between them."""

    def traded(self, symbol: str, sessions: int) -> Bars:
        """Return daily bars as they were traded, in shares of today: divided by later splits, and by no dividend."""

    def actions(self, symbol: str, since: dt.date) -> Sequence[Action]:
        """Return what happened to a symbol's shares on days after `since` and up to now, in ascending order. An unknown
        symbol has none."""


@runtime_checkable
class RenameSource(Protocol):
    """Market that knows under which names a company's shares traded."""

    def renamed(self, symbol: str) -> tuple[str, dt.date] | None:
        """Return the name that follows a symbol and its first day, up to now; None while it bears its own. The new
        name has the history of the old one."""

    def former(self, symbol: str) -> Sequence[str]:
        """Return the earlier names of a symbol, up to now."""


@runtime_checkable
class OptionSource(Protocol):
    """Market that prices option contracts."""

    def option_quote(self, contract: str) -> Quote:
        """Return the last price per share of a contract, named by its OCC symbol. Raises MarketError when there is
        none."""


@runtime_checkable
class ChainSource(Protocol):
    """Market that lists option contracts."""

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the contracts on a symbol that expire from `first` to `last`, with their quotes as they are now: none
        of them is checked. Raises MarketError for a symbol without options."""


@runtime_checkable
class PastChainSource(Protocol):
    """Market that has the chains of earlier days too."""

    def past_chains(self, symbol: str, days: tuple[int, int], but: Container[dt.date]) -> Iterator[OptionChain]:
        """Yield the last chain of each day before that of `chain`, the newest first, as it was known then, without the
        days of `but`. days: the fewest and the most to expiry."""


class OptionMarket(OptionSource, ChainSource, Protocol):
    """Source that lists and prices option contracts."""


class Shares(Protocol):
    """What a source of option chains asks of the market that has the shares."""

    clock: MarketClock

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now."""

    def dividend_yield(self, symbol: str) -> float | None:
        """Return the dividends of a year as a fraction of the price; None where they are not known."""


@runtime_checkable
class IntradaySource(Protocol):
    """Market that has bars of part of a session."""

    def intraday(self, symbol: str, interval: Literal["hour", "15min"], sessions: int) -> Intraday:
        """Return the bars of the last so many sessions that have begun. One that had not ended when it was fetched is
        flagged, and only a market of real time gives it. Raises MarketError for an unknown symbol."""


@runtime_checkable
class Prefetching(Protocol):
    """Market that fetches many symbols at once more cheaply than one after another."""

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        """Fetch and cache bars of these symbols within `seconds`; a failure shows when its symbol is requested."""


@runtime_checkable
class Incomplete(Protocol):
    """Market without any bar of some sessions that the exchange had: figures across them span more days than they
    count."""

    def lost(self, sessions: int) -> Sequence[dt.date]:
        """Return such days between the first of the market's last so many sessions and the clock's, in ascending
        order."""


@runtime_checkable
class RecordedSessions(Protocol):
    """Market whose sessions are all on record."""

    def recorded(self) -> Sequence[dt.date]:
        """Return every session of the data, those after the clock's too, in ascending order: for choosing days. No tool
        calls it."""

    def on(self, clock: MarketClock) -> MarketData:
        """Return the same data by another clock: for the books, which go from session to session. No tool calls it."""


@runtime_checkable
class ClosedSet(Protocol):
    """Market that knows every symbol it carries."""

    def unknown(self, symbols: Sequence[str]) -> list[str]:
        """Return those of the symbols that this market does not carry."""


# Optional knowledge of companies. Each returns [] for a symbol of which the source has none, and raises MarketError for
# an unknown symbol, NotConfigured where it does not carry such rows on the clock's day. Rows come in any order, and may
# be later than now: the tools show those alone that were known by then.


@runtime_checkable
class EarningsSource(Protocol):
    """Market that knows when companies report."""

    def earnings(self, symbol: str) -> Sequence[EarningsDate]:
        """Return past and expected reports, one row a date."""


@runtime_checkable
class StatementSource(Protocol):
    """Market that has companies' statements, with the day on which each figure was filed."""

    def statements(self, symbol: str) -> Sequence[Statement]:
        """Return one row a figure and filing."""


@runtime_checkable
class ShortInterestSource(Protocol):
    """Market that knows how much of a company is sold short."""

    def short_interest(self, symbol: str) -> Sequence[ShortInterest]:
        """Return one row a settlement."""


@runtime_checkable
class RatingsSource(Protocol):
    """Market that knows analysts' ratings."""

    def rating_changes(self, symbol: str) -> Sequence[RatingChange]:
        """Return one row a change."""

    def price_targets(self, symbol: str) -> Sequence[PriceTargets]:
        """Return what analysts expected, one row a time."""


@runtime_checkable
class InsiderSource(Protocol):
    """Market that knows the trades of a company's insiders."""

    def insider_trades(self, symbol: str) -> Sequence[InsiderTrade]:
        """Return one row a reported trade."""


@runtime_checkable
class HolderSource(Protocol):
    """Market that knows a company's institutional holders."""

    def holders(self, symbol: str) -> Sequence[Holder]:
        """Return one row a holder and report."""


@runtime_checkable
class FilingsSource(Protocol):
    """Market that has a company's filings with the SEC."""

    def filings(self, symbol: str) -> Sequence[Filing]:
        """Return one row a filing."""
