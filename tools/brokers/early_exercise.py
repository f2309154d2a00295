"""Early exercise of American puts on paper: where waiting is worth no more than exercising now."""

from __future__ import annotations

import math
from collections.abc import Collection
from decimal import Decimal

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.models.market import OptionContract, parse_contract
from chordesk.tools.books import Books
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.option_pricing import DAYS_A_YEAR, SESSIONS_A_YEAR, Terms, continuation
from chordesk.tools.market.prices import lapse
from chordesk.tools.market.protocol import MarketData

_SESSIONS = 60  # of the volatility that a wait is valued with
_LEAST_RETURNS = 20


def exercised_now(
    books: Books, market: MarketData, rate: float, but: Collection[str]
) -> list[tuple[OptionContract, Decimal, Decimal]]:
    """Return (contract, held, close of the share) of the puts that are exercised today: with the interest on the strike
    worth more than what the share may still fall or recover. A put written is assigned then, for its owner does so.

    The volatility is that of the share's last 60 daily returns; without 20 of them, or a close of today, a contract
    waits. Dividends to come are not known, so calls, which are exercised early for a dividend alone, wait for their
    expiry. but: contracts that are not looked at.
    """
    found = []
    for symbol, (held, _) in sorted(books.held.items()):
        contract = parse_contract(symbol)
        if contract is None or contract.kind != "put" or symbol in but:
            continue
        if (close := _worth_it(contract, market, rate)) is not None:
            found.append((contract, held, close))
    return found


def _worth_it(contract: OptionContract, market: MarketData, rate: float) -> Decimal | None:
    """Return the share's close where the exercise is worth at least the wait."""
    today = clock_day(market.clock)
    days = (contract.expiry - today).days
    if days <= 0:
        return None
    try:
        bars = market.bars(contract.underlying, _SESSIONS + 1)
    except MarketError:
        return None
    returns = np.diff(np.log(bars.close))
    if len(returns) < _LEAST_RETURNS or lapse(bars.dates[-1], market.clock.session()) is not None:
        return None
    volatility, close = float(returns.std(ddof=1)) * math.sqrt(SESSIONS_A_YEAR), float(bars.close[-1])
    terms = Terms("put", close, float(contract.strike), days / DAYS_A_YEAR, rate)
    if terms.intrinsic <= 0 or continuation(terms, volatility) > terms.intrinsic:
        return None
    return exact(close)
