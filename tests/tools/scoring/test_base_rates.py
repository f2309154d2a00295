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
    alike = [
        (close[name, day + 4] / close[name, day] - 1, np.nanmedian(close[:, day + 4] / close[:, day] - 1))
        for name in range(NAMES)
        for day in range(DAY - 3)
        if (states[:, name, day] != UNKNOWN).all()
        and all(states[part, name, day] == states[part, 0, DAY] for part in parts)
        and math.isfinite(close[name, day + 4])
    ]
    assert found.rose.n == found.beat.n == len(alike)
    assert found.rose.share == pytest.approx(np.mean([ahead > 0 for ahead, _ in alike]))
    assert found.beat.share == pytest.approx(np.mean([(1 + np.sign(ahead - median)) / 2 for ahead, median in alike]))
    assert found.rose.low is not None
    assert found.rose.high is not None
    assert found.rose.low < found.rose.share < found.rose.high


def test_what_comes_after_the_day_changes_nothing(close: Floats) -> None:
    later = close.copy()
    later[:, DAY + 1 :] = 1.0
    assert [BaseRates(close, DAY).of(name, 10) for name in range(NAMES)] == [
        BaseRates(later, DAY).of(name, 10) for name in range(NAMES)
    ]


def test_without_a_known_outcome_there_is_no_rate(close: Floats) -> None:
    assert BaseRates(close, DAY).of(0, DAY) is None
    assert BaseRates(close, 45).of(0, 5) is None, "no state without the sessions that it is of"
