"""What the universe came to, against values by hand."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.backtests import CloseTable, buy_and_hold, drawdown, equal_weight

DAYS = [dt.date(2010, 3, day) for day in (1, 2, 3)]
NAN = float("nan")


def closes(*rows: list[float]) -> CloseTable:
    return CloseTable(DAYS[: len(rows)], [f"S{number}" for number in range(len(rows[0]))], np.array(rows))


def test_a_purchase_at_equal_weight_is_held() -> None:
    found = closes([10, 100], [20, 100], [40, 50])
    assert buy_and_hold(found, 1000) == [1000, 1500, 2250]  # half of it doubles twice, half of it halves once


def test_equal_weight_is_restored_at_each_close() -> None:
    found = closes([10, 100], [20, 100], [40, 50])
    assert equal_weight(found, 1000) == [1000, 1500, 1875]  # +100 % and 0, then +100 % and -50 %


def test_a_name_without_a_first_close_is_not_bought_and_one_that_stops_stays_at_its_last() -> None:
    found = closes([10, NAN, 10], [20, 5, 30], [20, 50, NAN])
    assert buy_and_hold(found, 100) == [100, 250, 250]
    assert equal_weight(found, 100) == pytest.approx([100, 250, 250 * (1 + 9 / 3)])


def test_a_universe_without_a_price_comes_to_nothing() -> None:
    assert buy_and_hold(closes([NAN], [NAN]), 100) == [100, 100]
    assert equal_weight(closes([NAN], [NAN]), 100) == [100, 100]


def test_the_drawdown_is_the_deepest_fall_from_an_earlier_high() -> None:
    assert drawdown([100, 120, 90, 130, 104]) == pytest.approx(0.25)
    assert drawdown([100, None, 80]) == pytest.approx(0.2)
    assert drawdown([1, 2, 3]) == 0


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_a_drawdown_is_a_share(values: list[float]) -> None:
    assert 0 <= drawdown(values) < 1
    assert drawdown(sorted(values)) == 0
