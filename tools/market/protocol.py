"""What a market is to the desk, and the clock that every tool, limit and cooldown reads."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from models.market import Headline, Listing, Quote

Floats = npt.NDArray[np.float64]


class Bars(Protocol):
    """Daily bars of one symbol in ascending order, arrays of equal length n; none is later than the clock's now.

    adjusted says whether prices before a split or a dividend were brought to the level after it.
    """

    symbol: str
    dates: Sequence[dt.date]
    open: Floats
    high: Floats
    low: Floats
    close: Floats
    volume: Floats
    adjusted: bool


class MarketClock(Protocol):
    """The one market clock: in replay it stands at 15:55 New York on the replay date, live it is real time."""

    def now(self) -> dt.datetime:
        """The current market time, timezone-aware."""

    def is_open(self) -> bool:
        """Whether the exchange's regular session is on."""

    def next_open(self) -> dt.datetime:
        """The first regular open after now."""

    def session(self) -> dt.date:
        """The last session whose daily bar is known now."""


class MarketData(Protocol):
    """Prices and texts, never anything later than the clock's now.

    What a source does not carry raises NotConfigured ("not available: configure X"); what it cannot give right now
    raises MarketUnavailable; an unknown symbol raises MarketError naming it.
    """

    name: str
    clock: MarketClock

    def universe(self, name: str) -> list[Listing]:
        """The members of a named universe, by symbol."""

    def listing(self, symbol: str) -> Listing:
        """What the source says of one symbol."""

    def bars(self, symbol: str, sessions: int) -> Bars:
        """At most the last `sessions` daily bars."""

    def quote(self, symbol: str) -> Quote:
        """The last price known now."""

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        """The newest headlines first."""

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        """One section of a company's overview: fundamentals, earnings, ratings, options."""


class FillSource(Protocol):
    """What the paper broker alone may see of a market: the price at which an order placed now is filled."""

    def fill_price(self, symbol: str) -> Quote | None:
        """Replay: the next session's open. Live: the last quote. None when the market has no further session."""


@runtime_checkable
class OptionSource(Protocol):
    """A market that prices option contracts."""

    def option_quote(self, contract: str) -> Quote:
        """The last price per share of a contract, named by its OCC symbol. Raises MarketError when there is none."""


@runtime_checkable
class Prefetching(Protocol):
    """A market that fetches many symbols at once more cheaply than one after another."""

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        """Have bars of these symbols at hand, working for at most so long; what failed shows when it is asked for."""


@runtime_checkable
class ClosedSet(Protocol):
    """A market that knows every symbol it carries."""

    def unknown(self, symbols: Sequence[str]) -> list[str]:
        """Those of the symbols that this market does not carry."""
