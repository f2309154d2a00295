"""Fees against values computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.venues.kalshi import FEE as KALSHI
from chordesk.tools.venues.markets import fee_per_share, taker_fee

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
