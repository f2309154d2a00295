"""Markets of event venues as the desk reads them: the YES side of questions with two outcomes, fees, pools,
look-ups."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Literal, Protocol

from chordesk.models.errors import UsageError

VenueState = Literal["open", "closed", "resolved"]
Side = Literal["yes", "no"]
Outcome = float | Literal["void"]
# Between a bid of 0.01 and an ask of 0.99 lies no price, though there is a middle.
MOST_SPREAD = 0.2


@dataclass(frozen=True, slots=True)
class FeeTerms:
    """A venue's fee for `contracts` at `price`: rate * contracts * (price * (1 - price)) ** exponent.

    cents: the fee of an order is rounded up to a whole cent.
    """

    rate: float
    exponent: float = 1.0
    cents: bool = False


NO_FEE = FeeTerms(0.0)


@dataclass(frozen=True, slots=True)
class Pool:
    """The pool of an automated market maker: shares of each side, and the weight `p` of YES, 0 to 1."""

    yes: float
    no: float
    p: float


@dataclass(frozen=True, slots=True)
class VenueMarket:
    """A market on a question with two outcomes, as its venue states it at `as_of`."""

    venue: str
    id: str
    question: str
    url: str
    rules: str
    state: VenueState
    outcome: Outcome | None  # of a resolved market alone; void: stakes are given back
    closes_at: dt.datetime | None
    # of YES, with its basis; null where the venue has no price, and once the market is resolved, when a price would be
    # its outcome
    probability: float | None
    basis: str
    # bid, ask: best price of a YES share, 0 to 1
    bid: float | None
    ask: float | None
    volume: float | None
    as_of: dt.datetime
    # bid_size, ask_size: shares at it, where that is known
    bid_size: float | None = None
    ask_size: float | None = None
    fee: FeeTerms | None = None  # null where the venue charges one and does not state it
    play_money: bool = False  # its prices are in a currency that buys nothing
    token: str | None = None  # of YES, on a venue that has its books by token
    pool: Pool | None = None  # where it has a pool in place of a book
    # to which it belongs with others, of which at most one may come true (`EventVenue.exclusive`)
    event: str | None = None


@dataclass(frozen=True, slots=True)
class FoundMarkets:
    """Answer to a search. left_out: markets with other than two outcomes; whole: whether the venue had no more."""

    markets: tuple[VenueMarket, ...]
    left_out: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class BookLevel:
    """Shares that are offered, or wanted, at a price."""

    price: float
    size: float


@dataclass(frozen=True, slots=True)
class EventBook:
    """Offers for YES shares, the best first."""

    bids: tuple[BookLevel, ...]
    asks: tuple[BookLevel, ...]
    as_of: dt.datetime

    def offers(self, side: Side) -> tuple[BookLevel, ...]:
        """Return what a buyer of a side can take, the cheapest first: a bid for YES is an offer of NO at the rest of
        one."""
        if side == "yes":
            return self.asks
        return tuple(BookLevel(round(1 - level.price, 10), level.size) for level in self.bids)


class EventVenue(Protocol):
    """A venue's wire. Each call raises MarketUnavailable if the venue does not answer or breaks its documented format
    (naming the field), and MarketError for a market that it does not have."""

    name: str

    def search(self, term: str, limit: int) -> FoundMarkets:
        """Return open markets on a term, the most likely meant first; all of them for an empty one."""

    def market(self, market_id: str) -> VenueMarket:
        """Return one market. Raises MarketError for one with other than two outcomes."""

    def exclusive(self, event: str) -> bool:
        """Return whether at most one market of an event can resolve to YES."""

    def book(self, market: VenueMarket) -> EventBook | None:
        """Return the offers that are public, None where the venue has a pool."""


def price_between(bid: float | None, ask: float | None) -> tuple[float | None, str]:
    """Return (probability, basis) midway between bid and ask; no probability unless there are both, close enough."""
    if bid is None or ask is None:
        return None, "no bid and no ask" if bid is None and ask is None else f"no {'bid' if bid is None else 'ask'}"
    if ask - bid > MOST_SPREAD:
        return None, f"no price between a bid of {bid:g} and an ask of {ask:g}"
    return round((bid + ask) / 2, 6), "midpoint of bid and ask"


def changed_resolution(market: VenueMarket, stored: Outcome) -> str | None:
    """How a venue contradicts an outcome that it gave before. What was resolved stays so; a person decides."""
    if market.state != "resolved":
        return f"{market.venue} gave {market.id} the outcome {stored} and now has it {market.state}"
    if market.outcome != stored:
        return f"{market.venue} gave {market.id} the outcome {stored} and now gives it {market.outcome}"
    return None


_CENT = Decimal("0.01")


def taker_fee(terms: FeeTerms, price: float, contracts: float) -> float:
    """Return the fee for taking `contracts` at a price from 0 to 1, in the venue's currency. Kalshi: 0.07 * C * P * (1
    - P), rounded up to the cent. Polymarket: C * rate * (p * (1 - p)) ** exponent."""
    if not 0 <= price <= 1:
        raise UsageError(f"price {price:g} is not from 0 to 1", remedy="give the price of a share that pays 1")
    if not contracts >= 0:
        raise UsageError(f"{contracts:g} contracts cannot be bought", remedy="give 0 or more")
    if not terms.cents:
        return contracts * fee_per_share(terms, price)
    # In binary fractions 0.07 * 100 * 0.5 * 0.5 lies above 1.75, and would be rounded up to 1.76.
    exact, one = Decimal(str(price)), Decimal(1)
    spread = (exact * (one - exact)) ** Decimal(str(terms.exponent))
    return float((Decimal(str(terms.rate)) * Decimal(str(contracts)) * spread).quantize(_CENT, ROUND_CEILING))


def fee_per_share(terms: FeeTerms, price: float) -> float:
    """Return the taker's fee of one share before any rounding, which an order of many shares approaches."""
    return float(terms.rate * (price * (1 - price)) ** terms.exponent)


# The automated market maker of Manifold: k = y^p * n^(1-p) stays the same while shares change hands.
#
# y, n: the pool's YES and NO shares; p: its weight of YES. Each unit paid adds a YES and a NO share to the pool, of
# which the buyer takes those of one side until k is restored.


def shares_for(pool: Pool, side: Side, bet: float) -> float:
    """Return the shares that a bet buys: of YES y + b - (k * (b + n)^(p-1))^(1/p), of NO alike with the sides
    exchanged. Without powers that overflow, (k * (b + n)^(p-1))^(1/p) is y * (n / (n + b))^((1-p)/p)."""
    if not bet >= 0:
        raise UsageError(f"a bet of {bet:g} buys nothing", remedy="give 0 or more")
    held, other, weight = (pool.yes, pool.no, pool.p) if side == "yes" else (pool.no, pool.yes, 1 - pool.p)
    return held + bet - float(held * (other / (other + bet)) ** ((1 - weight) / weight))
