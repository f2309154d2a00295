"""Return on capital, break-even and probability of profit of a written option."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.pricing import Terms, profit_probability, written_returns
from tests.tools.pricing.test_black_scholes import MSFT, near, volatilities


def test_a_put_that_cash_secures() -> None:
    found = written_returns(MSFT, 3.90, 21)
    assert found is not None
    assert found.roc == pytest.approx(0.011642, abs=1e-6)
    assert found.weekly == pytest.approx(0.003881, abs=1e-6)
    assert found.annual == pytest.approx(0.20235, abs=1e-5)
    assert found.break_even == pytest.approx(331.10)
    assert profit_probability(MSFT, 3.90, 0.35962) == pytest.approx(0.80044, abs=1e-5)


def test_a_covered_call_earns_on_the_price_of_the_share() -> None:
    found = written_returns(Terms("call", 50.0, 55.0, 30 / 365, rate=0.0), 1.0, 30)
    assert found is not None
    assert (found.roc, found.break_even) == (0.02, 56.0)


def test_on_the_last_day_there_is_no_return_a_week() -> None:
    assert written_returns(MSFT, 3.90, 0) is None


def test_a_premium_of_the_whole_strike_has_no_probability() -> None:
    assert profit_probability(MSFT, 335.0, 0.3) is None


@given(near, volatilities, st.floats(0.0, 0.9))
def test_a_larger_premium_is_the_safer_one(one: Terms, volatility: float, share: float) -> None:
    """More premium moves the break-even away from the share's price."""
    less, more = (profit_probability(one, part * share * one.strike, volatility) for part in (0.5, 1.0))
    assert less is not None
    assert more is not None
    assert 0.0 <= less <= more <= 1.0
