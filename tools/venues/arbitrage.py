"""Two questions of two venues against each other: what is left of buying opposite sides, at depth and after all costs.

Without a pair that a person confirmed, with play money on a side, or with a cost that is not known, a difference in
price is a divergence and has no edge: wording, deadline, source and cancellation may differ.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from chordesk.tools.venues.fees import fee_per_share, taker_fee
from chordesk.tools.venues.markets import BookLevel, EventBook, FeeTerms, Side, VenueMarket

YEAR = dt.timedelta(days=365)
PairState = Literal["none", "suggested", "confirmed", "rejected"]
# Net edge a share, and shares, at which each half of the confidence is 1/2.
EDGE_SCALE, DEPTH_SCALE = 0.02, 100.0


@dataclass(frozen=True, slots=True)
class Leg:
    """A side that is bought at one venue. offers: what can be taken, the cheapest first."""

    venue: str
    side: Side
    offers: tuple[BookLevel, ...]
    fee: FeeTerms


@dataclass(frozen=True, slots=True)
class Edge:
    """What buying `shares` of both legs yields, whatever happens: net = shares - paid - fees - carry. carry: interest
    on what is paid, until the later closing; per_share: net of a share of both."""

    legs: tuple[Leg, Leg]
    shares: float
    paid: float
    fees: float
    carry: float
    net: float
    per_share: float

    @property
    def prices(self) -> tuple[float, float]:
        """The best prices of the legs."""
        return self.legs[0].offers[0].price, self.legs[1].offers[0].price


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two markets compared. gap: probability of the first less that of the second, null without both; edge: of a
    confirmed pair alone; confidence: of an arbitrage alone; basis: what it rests on, or why there is none."""

    kind: Literal["arbitrage", "divergence"]
    gap: float | None
    edge: Edge | None
    confidence: float | None
    basis: str


def edge_per_share(first: float, second: float, fees: float, rate: float, years: float) -> float:
    """Return 1 - a - b - fees - r * T * (a + b): what one share of each side at prices a and b yields."""
    return 1 - first - second - fees - rate * years * (first + second)


def best_edge(first: Leg, second: Leg, rate: float, years: float) -> Edge | None:
    """Return the edge of as many shares as yield the most, walking both legs' offers from the best on; that of the
    best offers where nothing yields. None when a leg has no offers."""
    best: Edge | None = None
    taken: tuple[list[BookLevel], list[BookLevel]] = ([], [])
    for pair in _matched(first.offers, second.offers):
        a, b = (level.price for level in pair)
        marginal = edge_per_share(a, b, fee_per_share(first.fee, a) + fee_per_share(second.fee, b), rate, years)
        if best is not None and marginal <= 0:
            break
        for levels, level in zip(taken, pair, strict=True):
            _take(levels, level)
        edge = _edge((first, second), taken, rate * years)
        if best is None or edge.net > best.net:
            best = edge
    return best


def confidence_of(edge: Edge) -> float:
    """Return net / (net + 0.02) * shares / (shares + 100), 0 without an edge: it rises with both and stays below 1."""
    if edge.net <= 0:
        return 0.0
    return edge.per_share / (edge.per_share + EDGE_SCALE) * edge.shares / (edge.shares + DEPTH_SCALE)


def compare(
    markets: tuple[VenueMarket, VenueMarket],
    books: tuple[EventBook | None, EventBook | None],
    pair: PairState,
    *,
    inverse: bool,
    rate: float,
    now: dt.datetime,
) -> Comparison:
    """Return how two markets differ. inverse: YES of one is NO of the other. rate: interest a year."""
    gap = _gap(*markets, inverse)
    obstacle = _obstacle(markets, books, pair)
    if obstacle is not None:
        return Comparison("divergence", gap, None, None, obstacle)
    years = max((market.closes_at - now) / YEAR for market in markets if market.closes_at is not None)
    edges = [
        edge
        for sides in _opposite(inverse)
        if (edge := best_edge(*_legs(markets, books, sides), rate, max(years, 0.0))) is not None
    ]
    if not edges:
        return Comparison("divergence", gap, None, None, "a side of each way has no offers")
    edge = max(edges, key=lambda one: one.net)
    if edge.net <= 0:
        return Comparison("divergence", gap, edge, None, f"its costs leave {edge.per_share:+.4f} a share")
    basis = f"net edge {edge.per_share:.4f} a share at a depth of {edge.shares:g} shares"
    return Comparison("arbitrage", gap, edge, round(confidence_of(edge), 4), basis)


def _gap(first: VenueMarket, second: VenueMarket, inverse: bool) -> float | None:
    if first.probability is None or second.probability is None:
        return None
    return round(first.probability - (1 - second.probability if inverse else second.probability), 6)


def _obstacle(markets: Sequence[VenueMarket], books: Sequence[EventBook | None], pair: PairState) -> str | None:
    """Return why a difference in price is none to take, None when nothing is in the way."""
    if pair != "confirmed":
        return "a person rejected the pair" if pair == "rejected" else "no person confirmed the pair"
    for market, book in zip(markets, books, strict=True):
        reasons = {
            "is play money": market.play_money,
            f"is {market.state}": market.state != "open",
            "states no fee": market.fee is None,
            "states no closing": market.closes_at is None,
            "has no public book": book is None,
        }
        for reason, holds in reasons.items():
            if holds:
                return f"{market.venue} {reason}"
    return None


def _opposite(inverse: bool) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
    """Return the ways to hold both outcomes, one at each venue."""
    return (("yes", "yes"), ("no", "no")) if inverse else (("yes", "no"), ("no", "yes"))


def _legs(markets: Sequence[VenueMarket], books: Sequence[EventBook | None], sides: Sequence[Side]) -> tuple[Leg, Leg]:
    first, second = (
        Leg(market.venue, side, book.offers(side) if book else (), market.fee or FeeTerms(0.0))
        for market, book, side in zip(markets, books, sides, strict=True)
    )
    return first, second


def _matched(first: Sequence[BookLevel], second: Sequence[BookLevel]) -> list[tuple[BookLevel, BookLevel]]:
    """Return pairs of equal sizes from the best offers on, until one side has no more."""
    pairs: list[tuple[BookLevel, BookLevel]] = []
    i = j = 0
    left = [first[0].size if first else 0.0, second[0].size if second else 0.0]
    while i < len(first) and j < len(second):
        size = min(left)
        if size > 0:
            pairs.append((BookLevel(first[i].price, size), BookLevel(second[j].price, size)))
        left = [left[0] - size, left[1] - size]
        if left[0] <= 0:
            i += 1
            left[0] = first[i].size if i < len(first) else 0.0
        if left[1] <= 0:
            j += 1
            left[1] = second[j].size if j < len(second) else 0.0
    return pairs


def _take(levels: list[BookLevel], level: BookLevel) -> None:
    """Add to what is taken of a leg; more at one price is one fill, with one fee."""
    if levels and levels[-1].price == level.price:
        levels[-1] = BookLevel(level.price, levels[-1].size + level.size)
    else:
        levels.append(level)


def _edge(legs: tuple[Leg, Leg], taken: Sequence[Sequence[BookLevel]], carry_rate: float) -> Edge:
    paid = sum(level.price * level.size for levels in taken for level in levels)
    fees = sum(
        taker_fee(leg.fee, level.price, level.size) for leg, levels in zip(legs, taken, strict=True) for level in levels
    )
    shares, carry = sum(level.size for level in taken[0]), carry_rate * paid
    net = shares - paid - fees - carry
    return Edge(legs, shares, paid, fees, carry, net, net / shares)
