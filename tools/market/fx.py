"""Exchange rates as an account may use them: of the market's own source, else of the ECB, never of later and never of
longer ago than DESK_MAX_FX_AGE. A rate that is not known is said to be so: it is not 1."""

from __future__ import annotations

import bisect
import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Protocol, runtime_checkable

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import currency_of
from chordesk.models.market import Quote, parse_contract
from chordesk.models.money import COINS, FxRate, Money, pair_name
from chordesk.tools.decimals import exact
from chordesk.tools.market.protocol import FxSource, MarketClock

OVER = ("EUR", "USD")  # what a rate is crossed over, at most once
# Digits of an inverse or a crossed rate, so that it is the same number wherever it is worked out anew.
_DIGITS = Context(prec=10)
# The quote of a live source may carry a moment some seconds after the one that was asked about.
_LATE = dt.timedelta(minutes=2)
FX_REMEDY = "add the pair to fx.csv of DESK_DATA, or install the ECB's rates with `pip install chordesk[fx]`"

Stated = Callable[[str, str], FxRate | None]  # the rate of a pair as its source states it


class Priced(Protocol):
    """What a market is asked for here."""

    clock: MarketClock

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now."""


@runtime_checkable
class Converting(Protocol):
    """Source of prices that also knows the rates into one currency, read beforehand or asked for now."""

    money: Money

    def rate(self, currency: str) -> FxRate:
        """Return the rate of a currency into that of `money`. Raises MarketError where it is not known."""


@dataclass(frozen=True, slots=True)
class RateTable:
    """Rates by pair, each with the moments from which on they were known, in ascending order."""

    source: str
    rows: Mapping[tuple[str, str], tuple[Sequence[dt.datetime], Sequence[float]]]

    def stated(self, at: dt.datetime) -> Stated:
        def found(currency: str, base: str) -> FxRate | None:
            moments, rates = self.rows.get((currency, base), ((), ()))
            place = bisect.bisect_right(moments, at) - 1
            return FxRate(currency, base, rates[place], moments[place], self.source) if place >= 0 else None

        return found

    def rate(self, currency: str, base: str, at: dt.datetime) -> FxRate:
        """Raises MarketError where the table has no rate by then."""
        if (found := crossed(self.stated(at), currency, base)) is None:
            raise MarketError(f"{self.source} has no rate of {pair_name(currency, base)} by {at:%Y-%m-%d %H:%M %Z}")
        return found


def crossed(stated: Stated, currency: str, base: str) -> FxRate | None:
    """Return a rate as it is stated, else its inverse, else the newest that crosses over the euro or the dollar."""
    if (found := _either_way(stated, currency, base)) is not None:
        return found
    over = (one for one in OVER if one not in (currency, base))
    return max(filter(None, (_over(stated, currency, one, base) for one in over)), key=lambda one: one.at, default=None)


def _either_way(stated: Stated, currency: str, base: str) -> FxRate | None:
    straight, turned = stated(currency, base), stated(base, currency)
    if turned is None or (straight is not None and straight.at >= turned.at):
        return straight
    return turned._replace(currency=currency, base=base, rate=float(_DIGITS.divide(1, exact(turned.rate))))


def _over(stated: Stated, currency: str, third: str, base: str) -> FxRate | None:
    first, second = _either_way(stated, currency, third), _either_way(stated, third, base)
    if first is None or second is None:
        return None
    # Both are worked out of what is stated, so that they are rounded once.
    up, down = _fraction(stated, currency, third), _fraction(stated, third, base)
    rate = float(_DIGITS.divide(up[0] * down[0], up[1] * down[1]))
    source = first.source if first.source == second.source else f"{first.source}, {second.source}"
    return FxRate(currency, base, rate, min(first.at, second.at), f"{source} over {third}")


def _fraction(stated: Stated, currency: str, base: str) -> tuple[Decimal, Decimal]:
    straight, turned = stated(currency, base), stated(base, currency)
    if straight is not None and (turned is None or straight.at >= turned.at):
        return exact(straight.rate), Decimal(1)
    assert turned is not None
    return Decimal(1), exact(turned.rate)


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


def traded_in(symbol: str) -> str:
    """Return the currency of the prices of a symbol or an option contract, as its form tells."""
    contract = parse_contract(symbol)
    try:
        return currency_of(contract.underlying if contract else symbol)
    except MarketError:
        return Money().base  # of a place without a row nothing is opened
