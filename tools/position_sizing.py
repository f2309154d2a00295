"""Sizes of single positions: Kelly stakes on a binary contract, and the chance of ruin. Nothing here knows a market or
an account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chordesk.models.errors import UsageError
from chordesk.tools.scoring.statistics import probability

FRACTION = 0.25


@dataclass(frozen=True, slots=True)
class KellyBet:
    """A side to buy."""

    side: Literal["YES", "NO"]
    probability: float  # that it wins
    price: float  # effective, below 1
    # full, stake: shares of the bankroll to pay, by full Kelly and by the fraction of it
    full: float
    stake: float

    @property
    def edge(self) -> float:
        return self.probability - self.price


def full_kelly(belief: float, price: float) -> float:
    """Return the share of the bankroll that makes it grow fastest, (p - q) / (1 - q); 0 without an edge."""
    probability(belief)
    if not price >= 0:
        raise UsageError(f"price {price:g} is not a price", remedy="give what a contract costs, 0 or more")
    return (belief - price) / (1 - price) if belief > price and price < 1 else 0.0


def kelly_bet(
    belief: float, yes_price: float | None, no_price: float | None, fraction: float = FRACTION
) -> KellyBet | None:
    """Return the bet for a belief in YES at effective prices of both sides; None without an edge on either. A side that
    is not for sale has no price. Where both have an edge, it is the one with the larger stake."""
    checked_fraction(fraction)
    bets: list[KellyBet] = []
    sides: tuple[tuple[Literal["YES", "NO"], float, float | None], ...] = (
        ("YES", belief, yes_price),
        ("NO", 1 - belief, no_price),
    )
    for side, wins, price in sides:
        full = 0.0 if price is None else full_kelly(wins, price)
        if price is not None and full > 0:
            bets.append(KellyBet(side, wins, price, full, fraction * full))
    return max(bets, key=lambda bet: bet.full, default=None)


def checked_fraction(fraction: float) -> float:
    """Return the fraction of full Kelly; raise UsageError unless it is above 0 and at most 1."""
    if not 0 < fraction <= 1:
        raise UsageError(f"fraction {fraction:g} of Kelly is not above 0 and at most 1", remedy="0.25 is usual")
    return fraction
