"""Kelly stakes of one contract and of several, and heat: hand-computed values, and what must hold for any."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.portfolio_sizing import (
    UnitReturn,
    binary_return,
    contract_heat,
    correlated_heat,
    covariance,
    effective_bets,
    next_bet,
    portfolio_kelly,
    share_heat,
)
from chordesk.tools.position_sizing import KellyBet, full_kelly, kelly_bet

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


def test_a_fee_can_eat_the_edge() -> None:
    assert kelly_bet(0.54, 0.53, None) is not None
    assert kelly_bet(0.54, 0.54, None) is None
    assert kelly_bet(0.999, 1.01, None) is None


def test_certainty_stakes_all_by_full_kelly() -> None:
    assert full_kelly(1.0, 0.4) == 1.0


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


def test_the_return_of_a_contract() -> None:
    """Believed 0.60 at 0.50: mean 0.1 / 0.5 = 0.2, variance 0.24 / 0.25 = 0.96."""
    unit = binary_return(0.60, 0.50)
    assert (unit.mean, unit.variance) == pytest.approx((0.2, 0.96))


def test_two_correlated_bets_by_hand() -> None:
    """S = [[.04, .02], [.02, .04]], inverse(S) = [[100/3, -50/3], [-50/3, 100/3]]; m = (.02, .015)
    gives (.41667, .16667), a quarter of it (.104167, .041667)."""
    cov = np.array([[0.04, 0.02], [0.02, 0.04]])
    found = portfolio_kelly(np.array([0.02, 0.015]), cov)
    assert found == pytest.approx([0.1041667, 0.0416667], abs=1e-7)


def test_covariance_from_variances_and_a_correlation() -> None:
    found = covariance(np.array([0.04, 0.09]), np.array([[1.0, 0.5], [0.5, 1.0]]))
    assert found == pytest.approx(np.array([[0.04, 0.03], [0.03, 0.09]]))


def test_a_short_stake_becomes_none_and_the_rest_is_best_without_it() -> None:
    """The closed form would sell the second: with it at 0 the first is l * m / s^2 = .25 * .02 / .04."""
    cov = np.array([[0.04, 0.03], [0.03, 0.04]])
    assert (np.linalg.inv(cov) @ np.array([0.02, 0.001]))[1] < 0
    assert portfolio_kelly(np.array([0.02, 0.001]), cov) == pytest.approx([0.125, 0.0])


def test_twins_share_one_stake() -> None:
    """One event on two venues: S has no inverse, and together they get what one alone gets, not twice that."""
    unit = binary_return(0.55, 0.50)
    alone = portfolio_kelly(np.array([unit.mean]), np.array([[unit.variance]])).sum()
    twins = portfolio_kelly(np.array([unit.mean] * 2), np.full((2, 2), unit.variance)).sum()
    assert twins == pytest.approx(alone)


def test_limits_each_and_together() -> None:
    means, cov = np.array([0.02, 0.02, 0.02]), np.eye(3) * 0.01
    assert portfolio_kelly(means, cov) == pytest.approx([1 / 3] * 3)
    assert portfolio_kelly(means, cov, most_each=0.1) == pytest.approx([0.1] * 3)
    assert portfolio_kelly(means, cov, most_total=0.3) == pytest.approx([0.1] * 3)


bets = st.integers(1, 6).flatmap(
    lambda n: st.tuples(
        st.lists(st.floats(-0.2, 0.2), min_size=n, max_size=n),
        st.lists(st.lists(st.floats(-1, 1), min_size=n, max_size=n), min_size=n, max_size=n),
    )
)


@given(bets, st.floats(0.05, 1), st.floats(0.01, 0.5), st.floats(0.01, 1))
def test_a_portfolio_lies_within_its_limits_and_no_stake_should_move(
    drawn: tuple[list[float], list[list[float]]], fraction: float, each: float, total: float
) -> None:
    means, roots = np.array(drawn[0]), np.array(drawn[1])
    cov = roots @ roots.T + 0.05 * np.eye(len(means))
    found = portfolio_kelly(means, cov, fraction=fraction, most_each=each, most_total=total)
    assert (found >= 0).all()
    assert (found <= each + 1e-12).all()
    assert found.sum() <= total + 1e-9
    if found.sum() < total - 1e-9:
        slope = fraction * means - cov @ found
        assert (slope[found <= 0] <= 1e-6).all(), "a bet left out has no gain"
        assert (slope[found >= each] >= -1e-6).all(), "a bet at its limit would gain by more"
        assert np.abs(slope[(found > 0) & (found < each)]).max(initial=0) < 1e-6


def test_the_next_bet_by_hand() -> None:
    """m .2, s^2 .96, .3 of covariance with a stake of .1 held: .25 * (.2 - .03) / .96 = .044271."""
    unit = UnitReturn(0.2, 0.96)
    held, shared = np.array([0.1]), np.array([0.3])
    assert next_bet(unit, shared, held) == pytest.approx(0.0442708, abs=1e-7)
    assert next_bet(unit, shared, held, heat_left=0.02) == 0.02
    assert next_bet(unit, shared, held, heat_left=-0.01) == 0
    assert next_bet(unit, np.array([2.5]), held) == 0


@given(st.floats(0.05, 0.95), st.floats(0.05, 0.95), st.floats(0, 0.3))
def test_the_next_bet_never_exceeds_the_heat_or_bets_without_an_edge(belief: float, price: float, left: float) -> None:
    stake = next_bet(binary_return(belief, price), np.zeros(0), np.zeros(0), heat_left=left)
    assert 0 <= stake <= left
    assert stake == 0 or belief > price


@pytest.mark.parametrize(
    ("means", "cov", "why"),
    [([0.1, 0.1], [[1.0]], "shape"), ([math.nan], [[1.0]], "missing"), ([0.1], [[0.0]], "without variance")],
)
def test_a_bet_without_figures_is_refused(means: list[float], cov: list[list[float]], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        portfolio_kelly(np.array(means), np.array(cov))


def test_a_contract_has_a_price_and_a_certain_one_no_next_bet() -> None:
    with pytest.raises(UsageError, match="price 1"):
        binary_return(0.5, 1.0)
    with pytest.raises(UsageError, match="without variance"):
        next_bet(binary_return(1.0, 0.5), np.zeros(0), np.zeros(0))


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
