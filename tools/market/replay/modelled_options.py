"""Modelled option chains of a replay: contracts and quotes by a formula, because past chains cannot be had freely.

The volatility at the money is 1.1 times the Yang-Zhang volatility of 20 sessions, an assumption (one day of real quotes
gave 1.22). Around it goes a smile that was fitted on 3,452 real quotes with a residual of .06. The spread is 6 %, at
least $.05. Volume and open interest are not modelled: they are unknown. Expiries are monthly, strikes as exchanges
space them. Everything of it is labelled, and nothing is later than the market's now.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal, NamedTuple

import numpy as np

from chordesk.models.contracts import (
    MODELLED,
    ChainRow,
    OptionChain,
    OptionContract,
    contract_of,
    parse_contract,
    root_of,
)
from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.prices import lapse
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.pricing import DAYS_A_YEAR, Terms, greeks, price, yang_zhang

SESSIONS = 20
_OVER_REALISED = 1.1
_SMILE, _SMILE_CURVE, _SMILE_ENDS = -0.075, 0.034, 4.0
_SPREAD_SHARE, _LEAST_SPREAD = 0.06, 0.05
_LISTED_DAYS = 370
_WIDTH, _LEAST_WIDTH = 2.5, 0.15  # of a chain's strikes: standard deviations, and log distance from the spot
# Strikes below the first figure are multiples of the second.
_STEPS = ((5, Decimal("0.5")), (50, Decimal(1)), (100, Decimal("2.5")), (200, Decimal(5)), (10**6, Decimal(10)))


class Surface(NamedTuple):
    """What the chain of one symbol is made of: its price now and its volatility at the money."""

    spot: float
    at_the_money: float

    def volatility(self, strike: float, years: float) -> float:
        """Return the volatility of a strike: a parabola in its distance in standard deviations, level beyond 4."""
        away = math.log(strike / self.spot) / (self.at_the_money * math.sqrt(years))
        away = min(max(away, -_SMILE_ENDS), _SMILE_ENDS)
        return self.at_the_money * (1 + _SMILE * away + _SMILE_CURVE * away * away)


class ModelledChains:
    """Chains of a market whose clock stands still. rate: a year, continuously compounded; dividends are left out."""

    def __init__(self, market: MarketData, rate: float) -> None:
        self._market = market
        self._rate = rate
        self._surfaces: dict[str, Surface] = {}

    def chain(self, symbol: str, first: dt.date, last: dt.date) -> OptionChain:
        """Return the modelled contracts that expire from `first` to `last`, possibly none. Raises MarketError if the
        symbol's volatility is unknown."""
        surface = self._surface(symbol)
        rows = tuple(
            self._row(contract, surface)
            for expiry in monthly_expiries(self._today(), last)
            if expiry >= first
            for contract in self._listed(symbol, expiry, surface)
        )
        return OptionChain(symbol, self._market.clock.now(), MODELLED, surface.spot, rows)

    def quote(self, name: str) -> Quote:
        """Return the modelled price midway between bid and ask. Raises MarketError for a name that no chain lists."""
        contract = parse_contract(name)
        if contract is None:
            raise MarketError(f"{name} is no OCC symbol of an option contract")
        self._require_listed(contract)
        row = self._row(contract, self._surface(contract.underlying))
        bid, ask = row.bid or 0.0, row.ask or 0.0
        return Quote(
            symbol=contract.symbol,
            price=(bid + ask) / 2,
            at=self._market.clock.now(),
            source=MODELLED,
            bid=bid or None,
            ask=ask,
        )

    def _today(self) -> dt.date:
        return exchange_day(self._market.clock.now())

    def _surface(self, symbol: str) -> Surface:
        if symbol not in self._surfaces:
            self._surfaces[symbol] = self._measured(symbol)
        return self._surfaces[symbol]

    def _measured(self, symbol: str) -> Surface:
        if root_of(symbol) != symbol or not symbol.isalpha():
            raise MarketError(f"no chain of {symbol} is modelled: its contracts would bear another name")
        bars, days = self._market.bars(symbol, SESSIONS + 1), self._market.sessions(SESSIONS + 1)
        if (why := lapse(bars.dates[-1], days[-1])) is not None:
            raise MarketError(f"no chain of {symbol} can be modelled: {why}")
        if len(days) <= SESSIONS or list(bars.dates) != list(days):
            known = len(set(bars.dates) & set(days))
            reason = f"it has bars of {known} of the last {SESSIONS + 1} sessions"
            raise MarketError(f"no chain of {symbol} can be modelled: {reason}")
        if np.isnan(bars.high).any():
            raise MarketError(f"no chain of {symbol} can be modelled: its bars have closes alone")
        realised = yang_zhang(bars.open, bars.high, bars.low, bars.close, SESSIONS)
        if not realised:
            raise MarketError(f"no chain of {symbol} can be modelled: its price did not move in {SESSIONS} sessions")
        return Surface(float(bars.close[-1]), _OVER_REALISED * realised)

    def _listed(self, symbol: str, expiry: dt.date, surface: Surface) -> Iterator[OptionContract]:
        deviation = surface.at_the_money * math.sqrt(self._years(expiry))
        width = max(_WIDTH * deviation, _LEAST_WIDTH)
        kinds: tuple[Literal["call", "put"], ...] = ("put", "call")
        for strike in _strikes(surface.spot * math.exp(-width), surface.spot * math.exp(width)):
            for kind in kinds:
                yield contract_of(symbol, expiry, kind, strike)

    def _require_listed(self, contract: OptionContract) -> None:
        today = self._today()
        if contract.expiry < today:
            raise MarketError(f"{contract.symbol} expired on {contract.expiry}")
        if contract.expiry not in monthly_expiries(today, today + dt.timedelta(days=_LISTED_DAYS)):
            raise MarketError(f"unknown contract {contract.symbol}: modelled chains have monthly expiries alone")
        step = next(step for below, step in _STEPS if contract.strike < below or below == _STEPS[-1][0])
        if contract.strike % step:
            raise MarketError(f"unknown contract {contract.symbol}: strikes near {contract.strike} are {step} apart")

    def _row(self, contract: OptionContract, surface: Surface) -> ChainRow:
        years, strike = self._years(contract.expiry), float(contract.strike)
        terms = Terms(contract.kind, surface.spot, strike, years, self._rate)
        volatility = surface.volatility(strike, years) if years else None
        # American, so never below what an exercise gives.
        worth = max(price(terms, volatility or 0.0), terms.intrinsic)
        half = max(_LEAST_SPREAD, _SPREAD_SHARE * worth) / 2
        bid = max(round(worth - half, 2), 0.0)
        ask = max(round(worth + half, 2), round(bid + _LEAST_SPREAD, 2))
        found = greeks(terms, volatility) if volatility else None
        return ChainRow(contract, bid, ask, iv=volatility, greeks=found)

    def _years(self, expiry: dt.date) -> float:
        return (expiry - self._today()).days / DAYS_A_YEAR


def monthly_expiries(today: dt.date, last: dt.date) -> list[dt.date]:
    """Third Fridays up to 12 months ahead; where it is not a session, the one before it."""
    hours, found = exchange_hours(), []
    month = today.replace(day=1)
    while month <= min(last, today + dt.timedelta(days=_LISTED_DAYS)):
        day = month + dt.timedelta(days=(4 - month.weekday()) % 7 + 14)
        while not hours.is_session(day) and day <= hours.sessions[-1]:
            day -= dt.timedelta(days=1)
        if today <= day <= last:
            found.append(day)
        month = (month + dt.timedelta(days=31)).replace(day=1)
    return found


def _strikes(low: float, high: float) -> Iterator[Decimal]:
    start = 0
    for below, step in _STEPS:
        first = math.ceil(Decimal(max(low, start)) / step)
        strike = max(first, 1) * step
        while strike < below and strike <= high:
            yield strike
            strike += step
        start = below
