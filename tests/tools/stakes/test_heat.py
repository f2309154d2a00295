"""Heat of shares and contracts, alone and together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.portfolio_sizing import contract_heat, correlated_heat, effective_bets, share_heat


def test_heat_by_hand() -> None:
    """$10,000 at $50 with an ATR of $1.50 in $100,000: 10,000 * 3 / 50 / 100,000 = 0.006."""
    assert share_heat(10_000, 1.5, 50, 100_000) == pytest.approx(0.006)
    assert share_heat(-10_000, 1.5, 50, 100_000) == pytest.approx(0.006)
    assert contract_heat(250, 10_000) == 0.025


def test_two_heats_by_hand() -> None:
    """h = (.03, .04): independent .05, as one .07; with r = .5, sqrt(.0025 + .0012) = .060828; .0049/.0037 bets."""
    heats = np.array([0.03, 0.04])
    half = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert correlated_heat(heats, np.eye(2)) == pytest.approx(0.05)
    assert correlated_heat(heats, np.ones((2, 2))) == pytest.approx(0.07)
    assert correlated_heat(heats, half) == pytest.approx(0.0608276, abs=1e-7)
    assert effective_bets(heats, half) == pytest.approx(1.3243243, abs=1e-7)


def test_nothing_held_has_no_bets() -> None:
    assert correlated_heat(np.zeros(2), np.eye(2)) == 0
    assert effective_bets(np.zeros(2), np.eye(2)) is None


@given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=8), st.floats(0, 1))
def test_bets_count_from_one_to_all(drawn: list[float], r: float) -> None:
    heats = np.array(drawn)
    correlation = r * np.ones((len(heats), len(heats))) + (1 - r) * np.eye(len(heats))
    bets = effective_bets(heats, correlation)
    assert bets is not None
    assert 1 - 1e-9 <= bets <= len(heats) + 1e-9
    assert correlated_heat(heats, correlation) <= heats.sum() * (1 + 1e-9)


@pytest.mark.parametrize(("price", "equity"), [(0, 1000), (50, 0), (50, -5), (float("nan"), 1000)])
def test_without_price_or_equity_there_is_no_heat(price: float, equity: float) -> None:
    with pytest.raises(UsageError, match="not above 0"):
        share_heat(100, 1, price, equity)
