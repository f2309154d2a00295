"""The chance of falling: its formula, and simulated bankrolls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.stakes.kelly import kelly_bet
from chordesk.tools.stakes.ruin import chance_of_falling_to

PATHS, BETS = 6000, 2500


@pytest.mark.parametrize(("fraction", "chance"), [(1, 0.5), (0.5, 0.125), (0.25, 1 / 128), (2, 1.0), (3, 1.0)])
def test_falling_to_a_half(fraction: float, chance: float) -> None:
    assert chance_of_falling_to(0.5, fraction) == pytest.approx(chance)


@pytest.mark.parametrize("fraction", [1.0, 0.5, 0.25])
def test_simulated_bankrolls_fall_as_often_as_the_bound_and_no_more(fraction: float) -> None:
    """Believed and true 0.55 at 0.50: some 2,500 bets are long enough for nearly all that will ever fall."""
    bet = kelly_bet(0.55, 0.50, None, fraction)
    assert bet is not None
    won = np.random.default_rng(7).random((BETS, PATHS), dtype=np.float32) < 0.55
    steps = np.where(won, np.log1p(bet.stake), np.log1p(-bet.stake))
    fallen = float((np.cumsum(steps, axis=0).min(axis=0) <= np.log(0.5)).mean())
    bound = chance_of_falling_to(0.5, fraction)
    error = (bound * (1 - bound) / PATHS) ** 0.5
    assert fallen <= bound + 3 * error
    assert fallen >= 0.85 * bound - 3 * error


@given(st.floats(0.01, 0.99), st.floats(0.05, 1.9), st.floats(1.01, 1.5))
def test_more_of_kelly_falls_more_often(share: float, fraction: float, more: float) -> None:
    assert chance_of_falling_to(share, fraction) <= chance_of_falling_to(share, fraction * more) <= 1


def test_share_and_fraction_are_checked() -> None:
    with pytest.raises(UsageError, match=r"share 1\.5"):
        chance_of_falling_to(1.5, 0.5)
    with pytest.raises(UsageError, match="fraction 0"):
        chance_of_falling_to(0.5, 0)
