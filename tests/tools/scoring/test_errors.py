"""Errors by date: hand-computed, against independent draws, and where dates are one bet."""

from __future__ import annotations

import math
from datetime import date, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.scoring.statistics import dated_mean

START = date(2026, 1, 5)


def days(*numbers: int) -> list[date]:
    return [START + timedelta(days=number) for number in numbers]


def test_two_dates_by_hand() -> None:
    """Values 1, 1 and 3, 5: mean 2.5, sums of deviations -3 and 3, so sqrt(2 / 1 * 18) / 4 = 1.5."""
    found = dated_mean(zip(days(0, 0, 1, 1), [1.0, 1.0, 3.0, 5.0], strict=True))
    assert found is not None
    assert (found.mean, found.n, found.dates) == (2.5, 4, 2)
    assert found.error == pytest.approx(math.sqrt(2 * (9 + 9)) / 4)
    assert found.lower == pytest.approx(2.5 - 12.7062 * 1.5)
    assert found.upper == pytest.approx(2.5 + 12.7062 * 1.5)


def test_one_date_has_a_mean_and_no_error() -> None:
    found = dated_mean(zip(days(0, 0), [1.0, 2.0], strict=True))
    assert found is not None
    assert (found.mean, found.error, found.lower, found.upper) == (1.5, None, None, None)


def test_without_values_there_is_none() -> None:
    assert dated_mean([]) is None


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_one_value_a_date_gives_the_usual_error(values: list[float]) -> None:
    found = dated_mean(zip(days(*range(len(values))), values, strict=True))
    assert found is not None
    assert found.error == pytest.approx(float(np.std(values, ddof=1)) / math.sqrt(len(values)), abs=1e-9)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=10), st.integers(2, 20))
def test_copies_within_a_date_prove_nothing(values: list[float], copies: int) -> None:
    dates = days(*range(len(values)))
    once = dated_mean(zip(dates, values, strict=True))
    often = dated_mean(zip(dates * copies, values * copies, strict=True))
    assert once is not None
    assert often is not None
    assert often.n == copies * once.n
    assert often.error == pytest.approx(once.error, abs=1e-9)


def test_the_interval_holds_zero_for_noise_that_a_date_shares() -> None:
    """60 dates with 20 values that share half of their noise: the interval misses 0 in about 5 % of draws, where errors
    of single values would miss it in most."""
    draws = np.random.default_rng(11)
    missed = naive = 0
    for _ in range(300):
        values = draws.normal(size=(60, 1)) + draws.normal(size=(60, 20))
        found = dated_mean(
            (day, float(value)) for day, row in zip(days(*range(60)), values, strict=True) for value in row
        )
        assert found is not None
        assert found.lower is not None
        assert found.upper is not None
        missed += not found.lower <= 0 <= found.upper
        naive += abs(found.mean) > 1.96 * values.std() / math.sqrt(values.size)
    assert 0.02 <= missed / 300 <= 0.10
    assert naive / 300 > 0.4


@pytest.mark.parametrize("dates", [2, 3, 6])
def test_a_few_lucky_dates_prove_nothing(dates: int) -> None:
    """Of draws without skill, some 5 in 100 lie outside, not the 12 to 30 of 1.96 errors."""
    draws = np.random.default_rng(dates)
    outside = 0
    for _ in range(1000):
        found = dated_mean(zip(days(*range(dates)), draws.normal(size=dates).tolist(), strict=True))
        assert found is not None
        assert found.lower is not None
        assert found.upper is not None
        outside += not found.lower <= 0 <= found.upper
    assert 0.03 <= outside / 1000 <= 0.07
