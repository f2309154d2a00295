"""Kelly stakes of one contract and of several, and heat: hand-computed values, and what must hold for any."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.portfolio.size_bounds import (
    KellyBet,
    contract_heat,
    correlated_heat,
    effective_bets,
    full_kelly,
    kelly_bet,
    share_heat,
)

beliefs = st.floats(0, 1)
prices = st.floats(0.01, 0.99)
fractions = st.floats(0.01, 1)


def test_a_bet_on_yes() -> None:
    """Believed 0.60 at 0.52 with a fee of 0.02: (0.60 - 0.54) / 0.46 = 0.130435, a quarter of it 0.032609."""
    bet = kelly_bet(0.60, 0.54, 0.52)
    assert bet is not None
    assert bet.side == "YES"
    assert (bet.full, bet.stake) == pytest.approx((0.1304348, 0.0326087), abs=1e-7)
    assert bet.edge == pytest.approx(0.06)


def test_a_bet_on_no() -> None:
    """Believed 0.30 in YES, NO at 0.55: (0.70 - 0.55) / 0.45 = 1/3, a half of it 1/6."""
    bet = kelly_bet(0.30, 0.47, 0.55, fraction=0.5)
    assert bet == KellyBet("NO", 0.70, 0.55, pytest.approx(1 / 3), pytest.approx(1 / 6))


@given(beliefs, prices, prices, fractions)
def test_it_never_bets_without_an_edge(belief: float, yes: float, no: float, fraction: float) -> None:
    bet = kelly_bet(belief, yes, no, fraction)
    assert (bet is None) is (belief <= yes and 1 - belief <= no)
    if bet is not None:
        assert bet.edge > 0
        assert 0 < bet.stake <= fraction * (1 + 1e-12)
        assert bet.price == (yes if bet.side == "YES" else no)


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(-0.2, 0.2))
def test_no_other_stake_grows_faster(belief: float, price: float, moved: float) -> None:
    def growth(stake: float) -> float:
        return belief * math.log(1 + stake * (1 - price) / price) + (1 - belief) * math.log(1 - stake)

    best = full_kelly(belief, price)
    other = min(max(best + moved, 0.0), 0.999)
    assert growth(best) >= growth(other) - 1e-12


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.5, math.nan])
def test_a_fraction_is_above_0_and_at_most_1(fraction: float) -> None:
    with pytest.raises(UsageError, match="fraction"):
        kelly_bet(0.6, 0.5, 0.5, fraction)


@pytest.mark.parametrize("belief", [1.4, -0.1, math.nan])
def test_a_belief_is_a_probability(belief: float) -> None:
    with pytest.raises(UsageError, match="not from 0 to 1"):
        full_kelly(belief, 0.5)


def test_a_price_lies_from_0_to_1() -> None:
    with pytest.raises(UsageError, match="price nan"):
        full_kelly(0.5, math.nan)


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


@pytest.mark.parametrize(("price", "equity"), [(0, 1000), (50, 0), (50, -5), (float("nan"), 1000)])
def test_without_price_or_equity_there_is_no_heat(price: float, equity: float) -> None:
    with pytest.raises(UsageError, match="not above 0"):
        share_heat(100, 1, price, equity)
