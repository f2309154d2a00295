""""""

from __future__ import annotations

import dataclasses
import datetime as dt
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.venues.kalshi import FEE as KALSHI
from chordesk.tools.venues.markets import (
    Outcome,
    Pool,
    Side,
    VenueMarket,
    VenueState,
    after_bet,
    changed_resolution,
    fee_per_share,
    pool_probability,
    price_between,
    shares_for,
    taker_fee,
)

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MARKET = VenueMarket(
    "kalshi", "KX-1", "Will it?", "https://kalshi.com", "", "resolved", 1.0, NOW, None, "resolved", None, None, 1.0, NOW
)


@pytest.mark.parametrize(
    ("bid", "ask", "price"),
    [(0.40, 0.44, 0.42), (0.4, 0.6, 0.5), (0.4, 0.61, None), (None, 0.4, None), (0.4, None, None), (None, None, None)],
)
def test_a_price_is_midway_only_between_two_close_sides(
    bid: float | None, ask: float | None, price: float | None
) -> None:
    assert price_between(bid, ask)[0] == price


@pytest.mark.parametrize(
    ("state", "outcome", "text"),
    [
        ("resolved", 1.0, None),
        ("resolved", 0.0, "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0"),
        ("resolved", "void", "kalshi gave KX-1 the outcome 1.0 and now gives it void"),
        ("open", None, "kalshi gave KX-1 the outcome 1.0 and now has it open"),
    ],
)
def test_a_resolution_that_changes_is_seen(state: VenueState, outcome: Outcome | None, text: str | None) -> None:
    assert changed_resolution(dataclasses.replace(MARKET, state=state, outcome=outcome), 1.0) == text


prices = st.integers(1, 99).map(lambda cents: cents / 100)


@pytest.mark.parametrize(
    ("price", "contracts", "fee"),
    [
        (0.50, 100, 1.75),  # 0.07 * 100 * 0.25 = 1.75, exactly
        (0.50, 1, 0.02),  # 0.0175
        (0.01, 100, 0.07),  # 0.0693
        (0.35, 40, 0.64),  # 0.07 * 40 * 0.2275 = 0.637
        (0.99, 1, 0.01),  # 0.000693
        (0.50, 0, 0.0),
    ],
)
def test_a_takers_fee_at_kalshi_is_rounded_up_to_the_cent(price: float, contracts: float, fee: float) -> None:
    assert taker_fee(KALSHI, price, contracts) == fee


@pytest.mark.parametrize(("price", "contracts"), [(1.4, 1), (-0.1, 1), (0.5, -1), (float("nan"), 1)])
def test_a_fee_of_no_price_or_number_is_an_error(price: float, contracts: float) -> None:
    with pytest.raises(UsageError):
        taker_fee(KALSHI, price, contracts)


@given(price=prices, contracts=st.integers(0, 10_000))
def test_rounding_costs_less_than_a_cent(price: float, contracts: int) -> None:
    exact = fee_per_share(KALSHI, price) * contracts
    assert -1e-9 <= taker_fee(KALSHI, price, contracts) - exact < 0.01


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
