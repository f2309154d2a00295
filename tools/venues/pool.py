"""The automated market maker of Manifold: k = y^p * n^(1-p) stays the same while shares change hands.

y, n: the pool's YES and NO shares; p: its weight of YES. Each unit paid adds a YES and a NO share to the pool, of which
the buyer takes those of one side until k is restored.
"""

from __future__ import annotations

from chordesk.models.errors import UsageError
from chordesk.tools.venues.markets import Pool, Side


def pool_probability(pool: Pool) -> float:
    """Return p * n / ((1 - p) * y + p * n)."""
    weighted = pool.p * pool.no
    return weighted / ((1 - pool.p) * pool.yes + weighted)


def shares_for(pool: Pool, side: Side, bet: float) -> float:
    """Return the shares that a bet buys: of YES y + b - (k * (b + n)^(p-1))^(1/p), of NO alike with the sides
    exchanged."""
    if not bet >= 0:
        raise UsageError(f"a bet of {bet:g} buys nothing", remedy="give 0 or more")
    held, other, weight = _sides(pool, side)
    return held + bet - _restored(held, other, weight, bet)


def after_bet(pool: Pool, side: Side, bet: float) -> Pool:
    """Return the pool once the bet is paid and its shares are taken."""
    held, other, weight = _sides(pool, side)
    left = _restored(held, other, weight, bet)
    return Pool(left, other + bet, pool.p) if side == "yes" else Pool(other + bet, left, pool.p)


def _sides(pool: Pool, side: Side) -> tuple[float, float, float]:
    """Return (shares of the side, of the other side, weight of the side)."""
    if side == "yes":
        return pool.yes, pool.no, pool.p
    return pool.no, pool.yes, 1 - pool.p


def _restored(held: float, other: float, weight: float, bet: float) -> float:
    """Return the shares of the side that the pool is left with: held * (other / (other + bet))^((1-w)/w), which is
    (k * (other + bet)^(w-1))^(1/w) without powers that overflow."""
    return float(held * (other / (other + bet)) ** ((1 - weight) / weight))
