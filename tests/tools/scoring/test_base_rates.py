"""Base rates: the counted cases, their states, and that nothing after the day is read."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from chordesk.tools.market.protocol import Floats
from chordesk.tools.scoring.base_rates import BINS, UNKNOWN, BaseRates, states_of

NAMES, SESSIONS, DAY = 40, 260, 200


@pytest.fixture(scope="module")
def close() -> Floats:
    rng = np.random.default_rng(5)
    steps = rng.normal(0, rng.uniform(0.005, 0.03, NAMES)[:, None], (NAMES, SESSIONS))
    found: Floats = 50 * np.exp(np.cumsum(steps, axis=1))
    found[3, 40:44] = np.nan
    found[4, :150] = np.nan
    return found


def test_states_are_those_of_pandas(close: Floats) -> None:
    frame = pd.DataFrame(close.T)
    trend = frame / frame.rolling(50, min_periods=45).mean() - 1
    high = frame / frame.rolling(60, min_periods=54).max() - 1
    changes = np.log(frame).diff()
    spread = changes.rolling(20, min_periods=18).var(ddof=0)
    found = states_of(close)
    for day in (48, 120, 259):
        for name in range(NAMES):
            row = [at.iloc[day, name] for at in (trend, spread, high)]
            wanted = [
                UNKNOWN if math.isnan(row[0]) else int(row[0] > 0),
                UNKNOWN if math.isnan(row[1]) else int((row[1] > spread.iloc[day].quantile([1 / 3, 2 / 3])).sum()),
                UNKNOWN if math.isnan(row[2]) else int((row[2] >= np.array([-0.2, -0.05])).sum()),
            ]
            assert found[:, name, day].tolist() == wanted, (day, name)


def test_a_rate_counts_like_names_of_past_days_whose_outcome_is_known(close: Floats) -> None:
    found = BaseRates(close, DAY).of(0, 4)  # a case of every day
    assert found is not None
    states = states_of(close[:, : DAY + 1])
    parts = [next(part for part, bins in enumerate(BINS) if text in bins) for text in found.like]
    ahead = [
        close[name, day + 4] / close[name, day] - 1
        for name in range(NAMES)
        for day in range(DAY - 3)
        if (states[:, name, day] != UNKNOWN).all()
        and all(states[part, name, day] == states[part, 0, DAY] for part in parts)
        and math.isfinite(close[name, day + 4])
    ]
    assert found.rose.n == found.beat.n == len(ahead)
    assert found.rose.share == pytest.approx(np.mean([one > 0 for one in ahead]))
    assert found.rose.low is not None
    assert found.rose.high is not None
    assert found.rose.low < found.rose.share < found.rose.high
    assert found.beat.low is not None
    assert found.beat.high is not None
    assert found.beat.low < found.beat.share < found.beat.high
    assert found.move_low <= found.move <= found.move_high


@pytest.mark.parametrize("seed", range(2))
def test_shares_of_names_without_skill_are_one_half_and_average_one_half_over_each_day(seed: int) -> None:
    """With names that begin and end, holes, fat tails and volatilities that differ tenfold: 40 days of each."""
    rng = np.random.default_rng(seed)
    scale = rng.uniform(0.005, 0.05, 60)[:, None]
    moves = scale * rng.standard_t(3, (60, 420)) + rng.normal(0, 0.01, 420)
    close: Floats = 50 * np.exp(np.cumsum(moves, axis=1))
    close[:15, :200] = np.nan
    close[15:25, 300:] = np.nan
    close[25:40, rng.integers(0, 420, 40)] = np.nan
    for day in range(130, 420, 58):
        rates = BaseRates(close, day)
        for horizon in (10, 20):
            shares = [one.beat.share for name in range(60) if (one := rates.of(name, horizon)) is not None]
            if shares:
                assert np.mean(shares) == pytest.approx(0.5, abs=1e-6)
                assert 0.4 < min(shares) <= max(shares) < 0.6, (day, horizon)


def test_a_state_that_tells_names_apart_is_found() -> None:
    """Half of the names drift up and half down, so that those above their mean beat the median far more often."""
    rng = np.random.default_rng(3)
    drift = np.repeat((0.004, -0.004), NAMES // 2)[:, None]
    close: Floats = 50 * np.exp(np.cumsum(drift + rng.normal(0, 0.02, (NAMES, 500)), axis=1))
    rates = BaseRates(close)
    found = [rates.of(name, 10) for name in range(NAMES)]
    above = [one.beat.share for one in found[: NAMES // 2] if one is not None and "above" in one.like[0]]
    below = [one.beat.share for one in found[NAMES // 2 :] if one is not None and "below" in one.like[0]]
    assert len(above) > 10
    assert len(below) > 10
    assert np.mean(above) > 0.62
    assert np.mean(below) < 0.38
    assert np.mean([one.beat.share for one in found if one is not None]) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize(("names", "sessions"), [(3, 90), (40, 75), (20, 100), (1, 400)])
def test_a_market_of_too_few_names_or_days_has_no_rate(names: int, sessions: int) -> None:
    moves = np.random.default_rng(1).normal(0, 0.02, (names, sessions))
    found = BaseRates(50 * np.exp(np.cumsum(moves, axis=1)))
    assert all(found.of(name, 20) is None for name in range(names))


def test_what_comes_after_the_day_changes_nothing(close: Floats) -> None:
    later = close.copy()
    later[:, DAY + 1 :] = 1.0
    known, changed = BaseRates(close, DAY), BaseRates(later, DAY)
    assert [known.of(name, 10) for name in range(NAMES)] == [changed.of(name, 10) for name in range(NAMES)]


def test_without_a_known_outcome_there_is_no_rate(close: Floats) -> None:
    assert BaseRates(close, DAY).of(0, DAY) is None
    assert BaseRates(close, 45).of(0, 5) is None, "no state without the sessions that it is of"
