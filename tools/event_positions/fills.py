"""What a stake buys at a venue now: from its pool, or from the offers of its book with the venue's fee."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from chordesk.tools.venues.fees import fee_per_share, taker_fee
from chordesk.tools.venues.markets import BookLevel, EventBook, FeeTerms, Side, VenueMarket
from chordesk.tools.venues.pool import shares_for

_CENT_SHARES = 100  # shares are bought to two decimals where a venue has parts of one


@dataclass(frozen=True, slots=True)
class EventFill:
    """Shares of a side that a stake buys. price: paid a share without the fee; cost: paid with the fee."""

    side: Side
    shares: float
    price: float
    fee: float

    @property
    def cost(self) -> float:
        return self.shares * self.price + self.fee

    @property
    def effective(self) -> float:
        """What a share costs with its part of the fee."""
        return self.cost / self.shares


def best_price(market: VenueMarket, book: EventBook | None, side: Side) -> float | None:
    """Return the effective price of the first share of a side, with its fee; None where none is for sale or the fee is
    not known."""
    if market.pool is not None:
        price = market.probability
        return None if price is None else price if side == "yes" else 1 - price
    offers = book.offers(side) if book is not None else ()
    if not offers or market.fee is None:
        return None
    return offers[0].price + fee_per_share(market.fee, offers[0].price)


def fill_of(market: VenueMarket, book: EventBook | None, side: Side, stake: float) -> EventFill | None:
    """Return the most shares of a side that a stake buys with its fee; None when it buys none."""
    if stake <= 0:
        return None
    if market.pool is not None:
        shares = shares_for(market.pool, side, stake)
        return EventFill(side, shares, stake / shares, 0.0) if shares > 0 else None
    offers = book.offers(side) if book is not None else ()
    if market.fee is None:
        return None
    return _from_book(offers, market.fee, side, stake)


def _from_book(offers: Sequence[BookLevel], fee: FeeTerms, side: Side, stake: float) -> EventFill | None:
    """Walk the offers from the best on. A venue that rounds fees up sells whole contracts."""
    parts = 1 if fee.cents else _CENT_SHARES
    shares = math.floor(_affordable(offers, fee, stake) * parts + 1e-9) / parts
    while shares > 0:
        found = _bought(offers, fee, side, shares)
        if found.cost <= stake + 1e-9:
            return found
        shares = round(shares - 1 / parts, 2)  # the fee was rounded up beyond the stake
    return None


def _affordable(offers: Sequence[BookLevel], fee: FeeTerms, stake: float) -> float:
    """Return the shares that a stake pays for, before the fee is rounded."""
    shares, left = 0.0, stake
    for level in offers:
        unit = level.price + fee_per_share(fee, level.price)
        size = min(level.size, left / unit) if unit > 0 else level.size
        shares, left = shares + size, left - size * unit
        if left <= 1e-12:
            break
    return shares


def _bought(offers: Sequence[BookLevel], fee: FeeTerms, side: Side, shares: float) -> EventFill:
    left, paid, fees = shares, 0.0, 0.0
    for level in offers:
        size = min(level.size, left)
        if size <= 0:
            break
        paid, fees, left = paid + size * level.price, fees + taker_fee(fee, level.price, size), left - size
    return EventFill(side, shares, paid / shares, fees)
