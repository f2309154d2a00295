"""Manifold's pool against values computed by hand, and what must hold for any pool."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.venues.markets import Pool, Side, after_bet, pool_probability, shares_for

amounts = st.floats(1, 1e5)
pools = st.builds(Pool, amounts, amounts, st.floats(0.05, 0.95))
sides = st.sampled_from(("yes", "no"))


def k_of(pool: Pool) -> float:
    """ln k = p ln y + (1 - p) ln n."""
    return pool.p * math.log(pool.yes) + (1 - pool.p) * math.log(pool.no)


def test_the_probability_of_a_pool() -> None:
    assert pool_probability(Pool(100, 100, 0.5)) == 0.5
    assert pool_probability(Pool(750, 250, 0.5)) == 0.25
    assert pool_probability(Pool(100, 100, 0.7)) == pytest.approx(0.7)


def test_a_bet_of_100_on_an_even_pool_of_100() -> None:
    """y * n = 10,000; 100 paid leaves n = 200, so y = 50: 100 + 100 - 50 = 150 shares, at 200 / 250 = 0.8."""
    pool = Pool(100, 100, 0.5)
    assert shares_for(pool, "yes", 100) == pytest.approx(150)
    assert after_bet(pool, "yes", 100) == Pool(pytest.approx(50), 200, 0.5)
    assert pool_probability(after_bet(pool, "yes", 100)) == pytest.approx(0.8)
    assert pool_probability(after_bet(pool, "no", 100)) == pytest.approx(0.2)


def test_a_bet_on_a_weighted_pool_is_the_formula_of_the_venue() -> None:
    y, n, p, b = 400.0, 150.0, 0.3, 25.0
    k = y**p * n ** (1 - p)
    assert shares_for(Pool(y, n, p), "yes", b) == pytest.approx(y + b - (k * (b + n) ** (p - 1)) ** (1 / p))


def test_a_negative_bet_is_an_error() -> None:
    with pytest.raises(UsageError, match="a bet of -1"):
        shares_for(Pool(100, 100, 0.5), "yes", -1)


@given(pool=pools, side=sides, bet=st.floats(0.01, 1e4))
def test_k_stays_and_the_price_moves_towards_the_bet(pool: Pool, side: Side, bet: float) -> None:
    moved = after_bet(pool, side, bet)
    assert k_of(moved) == pytest.approx(k_of(pool), rel=1e-9, abs=1e-9)
    change = pool_probability(moved) - pool_probability(pool)
    assert change >= -1e-12 if side == "yes" else change <= 1e-12


@given(pool=pools, side=sides, bet=st.floats(0.01, 1e4))
def test_a_share_costs_between_the_price_before_and_after_and_less_than_one(pool: Pool, side: Side, bet: float) -> None:
    def price(one: Pool) -> float:
        return pool_probability(one) if side == "yes" else 1 - pool_probability(one)

    paid = bet / shares_for(pool, side, bet)
    assert price(pool) - 1e-6 <= paid <= price(after_bet(pool, side, bet)) + 1e-6
