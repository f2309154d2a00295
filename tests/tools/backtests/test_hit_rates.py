"""Outcomes of claims from later closes, and their rates."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.tools.backtests import Claim, CloseTable, hit_rates
from chordesk.tools.scoring.statistics import wilson

DAYS = [dt.date(2010, 3, day) for day in (1, 2, 3, 4)]
NAN = float("nan")
# Returns over one session from the first day: +10 %, 0, -10 %; over the next: -50 %, 0, +100 %.
CLOSES = CloseTable(DAYS, ["UP", "FLAT", "DOWN"], np.array([[10, 10, 10], [11, 10, 9], [5.5, 10, 18], [5.5, NAN, 18]]))


@pytest.mark.parametrize(
    ("symbol", "day", "expected"),
    [("UP", 0, 1.0), ("FLAT", 0, 0.0), ("DOWN", 0, 0.0), ("UP", 1, 0.0), ("DOWN", 1, 1.0), ("FLAT", 2, None)],
)
def test_a_name_beats_the_median_or_does_not(symbol: str, day: int, expected: float | None) -> None:
    assert CLOSES.outcome(symbol, DAYS[day], 1) == expected


def test_a_claim_that_the_data_do_not_reach_has_no_outcome() -> None:
    assert CLOSES.outcome("UP", DAYS[3], 1) is None
    assert CLOSES.outcome("UP", DAYS[0], 4) is None
    assert CLOSES.outcome("OTHER", DAYS[0], 1) is None
    assert CLOSES.outcome("UP", dt.date(2011, 1, 3), 1) is None


def test_rates_count_claims_dates_and_what_is_open() -> None:
    claims = [Claim("BUY", "UP", DAYS[0]), Claim("BUY", "DOWN", DAYS[1]), Claim("BUY", "UP", DAYS[1])]
    claims += [Claim("BUY", "UP", DAYS[3]), Claim("PASS", "DOWN", DAYS[0])]
    buy, passed = hit_rates(claims, CLOSES, 1)
    bounds = wilson(2, 3)
    assert bounds is not None
    assert (buy.group, buy.n, buy.dates, buy.hits, buy.open) == ("BUY", 3, 2, 2, 1)
    assert (buy.share, buy.low, buy.high) == (pytest.approx(2 / 3), bounds.low, bounds.high)
    # By date: sums of deviations +1/3 and -1/3, so sqrt(2 * 2/9 / 1) / 3.
    assert buy.error == pytest.approx((2 * 2 / 9) ** 0.5 / 3)
    assert (passed.n, passed.hits, passed.error) == (1, 0, None)


def test_a_group_without_an_outcome_has_no_share() -> None:
    (row,) = hit_rates([Claim("HOLD", "UP", DAYS[3])], CLOSES, 1)
    assert (row.n, row.open, row.share, row.low, row.error) == (0, 1, None, None, None)
