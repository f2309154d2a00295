"""Exchange rates as an account may use them: of the market's own source, else of the ECB, never of later and never of
longer ago than DESK_MAX_FX_AGE. A rate that is not known is said to be so: it is not 1."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import currency_of
from chordesk.models.market import Listing, Quote, parse_contract
from chordesk.models.money import COINS, FxRate, Money, pair_name
from chordesk.tools.market.protocol import FxSource, MarketClock, MarketData

# The quote of a live source may carry a moment some seconds after the one that was asked about.
_LATE = dt.timedelta(minutes=2)
FX_REMEDY = "add the pair to fx.csv of DESK_DATA, or install the ECB's rates with `pip install chordesk[fx]`"


class Priced(Protocol):
    """What a market is asked for here."""

    clock: MarketClock

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now."""


@runtime_checkable
class Converting(Protocol):
    """Source of prices that also knows the rates into one currency, read beforehand or asked for now."""

    @property
    def money(self) -> Money: ...

    def rate(self, currency: str) -> FxRate:
        """Return the rate of a currency into that of `money`. Raises MarketError where it is not known."""

    def newest(self, currency: str) -> FxRate | None:
        """Return the newest rate of a currency, however old; None without any."""


def rate_into(market: Priced, currency: str, money: Money, at: dt.datetime | None = None) -> FxRate:
    """Return what one unit of a currency is worth in the account's, as it was known at a moment, by default now.
    Raises MarketError where no source has it, or only one that is too old."""
    now, pair = market.clock.now(), pair_name(currency, money.base)
    moment, reasons = min(at or now, now), []
    for found in _found(market, currency, money.base, moment):
        if isinstance(found, MarketError):
            reasons.append(str(found))
        elif (age := moment - found.at) > money.max_age:
            most = money.max_age / dt.timedelta(days=1)
            old = f"{age / dt.timedelta(days=1):.1f} days old, more than DESK_MAX_FX_AGE={most:g}"
            reasons.append(f"that of {found.source} is of {found.at:%Y-%m-%d %H:%M %Z}, {old}")
        elif age < -_LATE:
            reasons.append(f"that of {found.source} is of {found.at:%Y-%m-%d %H:%M %Z}, which is later than now")
        else:
            return found
    raise MarketError(f"no rate of {pair} is known: {'; '.join(reasons)}", remedy=FX_REMEDY)


def last_known(market: Priced, currency: str, money: Money, at: dt.datetime | None = None) -> FxRate | None:
    """Return the newest rate by a moment, however old, for what is sold and may not wait; None without any."""
    now = market.clock.now()
    moment = min(at or now, now)
    known = [one for one in _found(market, currency, money.base, moment) if isinstance(one, FxRate)]
    return max((one for one in known if one.at <= moment + _LATE), key=lambda one: one.at, default=None)


def _found(market: Priced, currency: str, base: str, at: dt.datetime) -> Iterator[FxRate | MarketError]:
    """Yield what each source says. Raises SettingError where rates of one's own cannot be read: no other source stands
    in for them."""
    from chordesk.tools.market.ecb import ecb_rates  # most desks know one currency

    own = market if isinstance(market, FxSource) else None
    asks: list[Callable[[], FxRate]] = []
    if own is not None:
        asks.append(lambda: own.rate(pair_name(currency, base), at))
    if currency in COINS:
        asks.append(lambda: _quoted(market, currency, base))
    asks.append(lambda: ecb_rates().rate(currency, base, at))
    for ask in asks:
        try:
            yield ask()
        except MarketError as error:
            yield error


def _quoted(market: Priced, coin: str, base: str) -> FxRate:
    """Return the price of a coin, which is also the rate of what is priced in it."""
    quote = market.quote(f"{coin}-{base}")
    return FxRate(coin, base, quote.price, quote.at, quote.source)


@dataclass(frozen=True, slots=True)
class MarketRates:
    """Rates into an account's currency as a market has them now."""

    market: MarketData
    money: Money = field(default_factory=Money)

    def rate(self, currency: str) -> FxRate:
        return rate_into(self.market, currency, self.money)

    def newest(self, currency: str) -> FxRate | None:
        return last_known(self.market, currency, self.money)


def listed_in(market: MarketData, symbol: str) -> str:
    """Return the currency of the prices of a symbol or an option contract, as its market lists it, else as its form
    tells."""
    contract = parse_contract(symbol)
    try:
        return market.listing(contract.underlying if contract else symbol).currency
    except MarketError:
        return traded_in(symbol)


def kind_of(market: MarketData, symbol: str) -> str:
    """Return the kind of a symbol as its market lists it; a share where that is not known."""
    try:
        return market.listing(symbol).kind
    except MarketError:
        return Listing(symbol=symbol).kind


def traded_in(symbol: str) -> str:
    """Return the currency of the prices of a symbol or an option contract, as its form tells."""
    contract = parse_contract(symbol)
    try:
        return currency_of(contract.underlying if contract else symbol)
    except MarketError:
        return Money().base  # of a place without a row nothing is opened
