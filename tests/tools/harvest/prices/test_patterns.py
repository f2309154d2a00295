"""Patterns over a universe: by hand, and the trap of many instances on few dates."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Sequence

import numpy as np
import pytest

from chordesk.tools.board.price_panel import (
    NO_PATTERN,
    PricePanel,
    beat_median,
    change,
    described_pattern,
    panel_of,
    pattern_codes,
    record_of,
)
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.scoring.statistics import wilson
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board

FIRST = dt.date(2024, 1, 1)


def panel(close: Sequence[Sequence[float]], volume: Sequence[Sequence[float]] | None = None) -> PricePanel:
    closes = np.array(close, dtype=float)
    volumes = np.ones_like(closes) if volume is None else np.array(volume, dtype=float)
    days = tuple(FIRST + dt.timedelta(days=at) for at in range(closes.shape[1]))
    return PricePanel(days, {f"N{row}": row for row in range(len(closes))}, closes, volumes, {})


def test_patterns_by_hand() -> None:
    """21 sessions: the name falls from 100 to 90 and then rises to 95 in five, or the other way round."""
    flat = [100.0] * 21
    rebound = [100.0] * 15 + [90.0, 91.0, 92.0, 93.0, 94.0, 95.0]
    setback = [100.0] * 15 + [110.0, 109.0, 108.0, 107.0, 106.0, 105.0]
    low = [100.0] * 16 + [10.0] * 5
    high = [100.0] * 16 + [900.0] * 5
    holed = [*rebound[:20], math.nan]
    codes = pattern_codes(panel([flat, rebound, setback, rebound, rebound, holed], [flat, flat, flat, low, high, flat]))
    assert (codes[:, :20] == NO_PATTERN).all(), "no 20 sessions before the 21st"
    last = codes[:, 20].tolist()
    assert [last[0], last[5]] == [NO_PATTERN, NO_PATTERN]
    assert described_pattern(last[1]) == {"shortMove": "up", "longMove": "down", "volume": "usual"}
    assert described_pattern(last[2]) == {"shortMove": "down", "longMove": "up", "volume": "usual"}
    assert described_pattern(last[3])["volume"] == "low"
    assert described_pattern(last[4])["volume"] == "high"
    assert len({tuple(described_pattern(code).items()) for code in range(12)}) == 12


def test_a_move_within_two_per_cent_is_no_pattern() -> None:
    just, beyond = ([100.0] * 15 + [90.0] + [93.0] * 4 + [90.0 * (1 + move)] for move in (0.0199, 0.0201))
    assert [code != NO_PATTERN for code in pattern_codes(panel([just, beyond]))[:, -1]] == [False, True]


def test_the_outcome_is_against_the_median_and_half_on_it() -> None:
    close = [[100, 100, 100], [100, 101, 100], [100, 102, 100], [100, math.nan, 100]]
    outcome = beat_median(panel(close).close, 1)
    assert outcome[:3, 0].tolist() == [0.0, 0.5, 1.0]
    assert math.isnan(outcome[3, 0])
    assert np.isnan(outcome[:, 2]).all(), "of the last session nothing is known yet"
    assert np.isnan(beat_median(panel(close).close, 3)).all()


def test_a_record_counts_dates_and_not_instances() -> None:
    """Three instances on one date and one on each of two others: the share by date is (1 + 0 + 0) / 3."""
    outcome = np.array([[1.0, 0.0, 1.0, math.nan], [1.0, 1.0, 0.0, math.nan], [1.0, 0.5, 0.5, math.nan]])
    mask = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 1]], dtype=bool)
    found = record_of(panel(np.ones((3, 4))), mask, outcome, 1)
    assert found is not None
    assert (found.instances, found.dates) == (5, 3)
    assert found.pooled == pytest.approx(3 / 5)
    assert found.share == pytest.approx(1 / 3)
    assert found.base == pytest.approx((1 + 0.5 + 0.5) / 3)
    # differences to the base: 0, -.5, -.5; three blocks: sqrt(sum of squared deviations * 3 / 2) / 3
    deviations = np.array([0.0, -0.5, -0.5]) + 1 / 3
    assert found.error == pytest.approx(math.sqrt((deviations**2).sum() * 3 / 2) / 3)
    reach = 1.959964 * found.error
    assert found.interval(1) == (pytest.approx(1 / 3 - reach), pytest.approx(1 / 3 + reach))
    wider = found.interval(5)
    assert wider is not None
    assert wider[1] == pytest.approx(1 / 3 + 2.575829 * found.error), "1 % for each of five is 5 % for all"
    assert not found.enough


def test_dates_within_a_horizon_are_one_block() -> None:
    """Outcomes of four dates, two sessions ahead: dates 0 and 1 overlap, and so do 2 and 3."""
    outcome = np.array([[1.0, 1.0, 0.0, 0.0, math.nan, math.nan], [0.0, 0.0, 1.0, 1.0, math.nan, math.nan]])
    mask = np.array([[1] * 6, [0] * 6], dtype=bool)
    apart = record_of(panel(np.ones((2, 6))), mask, outcome, 1)
    overlapping = record_of(panel(np.ones((2, 6))), mask, outcome, 2)
    assert apart is not None
    assert overlapping is not None
    assert apart.error == pytest.approx(math.sqrt(4 * 0.25 * 4 / 3) / 4)
    assert overlapping.error == pytest.approx(math.sqrt(2 * 1.0 * 2) / 4)
    one = record_of(panel(np.ones((2, 6))), mask, outcome, 6)
    assert one is not None
    assert one.error is None
    assert one.interval(1) is None


def test_no_instance_has_no_record() -> None:
    outcome = np.full((2, 3), math.nan)
    assert record_of(panel(np.ones((2, 3))), np.ones((2, 3), dtype=bool), outcome, 1) is None


def fell(close: Floats, sessions: int) -> Floats:
    """1 where the close is lower so many sessions later, not a number where that is not known."""
    outcome = np.full(close.shape, np.nan)
    ahead = change(close, sessions)[:, sessions:]
    outcome[:, :-sessions] = np.where(np.isfinite(ahead), ahead < 0, np.nan)
    return outcome


def test_the_trap_of_the_default_data_is_not_fallen_into(data: ReplayData, make_context: MakeContext) -> None:
    """Up in 5 sessions, down in 20, on low volume: of some 1,500 instances 57 % reversed, and the Wilson interval lies
    far above the base rate of 47 %. By date it is 48 %, and nothing is shown."""
    market = ReplayMarket(data, ReplayClock(dt.date(2010, 8, 20)))
    whole = panel_of(board(make_context(market)))
    wanted = {"shortMove": "up", "longMove": "down", "volume": "low"}
    codes = pattern_codes(whole)
    (code,) = (one for one in range(12) if described_pattern(one) == wanted)
    found = record_of(whole, codes == code, fell(whole.close, 5), 5)
    assert found is not None
    assert 1200 < found.instances < 2000
    assert found.pooled > 0.55
    naive = wilson(round(found.pooled * found.instances), found.instances)
    assert naive is not None
    assert naive.low > found.base + 0.03, "instances as if they were independent: an edge that is none"
    low, high = found.interval(1) or (1, 0)
    assert low < found.base < high
    assert found.enough
    assert found.error is not None
    assert found.error > 0.03


def test_only_outcomes_known_by_now_count(data: ReplayData, make_context: MakeContext) -> None:
    """The record of a day is that of the whole data cut at this day's columns."""
    early, late = (
        panel_of(board(make_context(ReplayMarket(data, ReplayClock(day))), "AAPL"))
        for day in (dt.date(2010, 4, 1), dt.date(2010, 8, 20))
    )
    known = len(early.days)
    assert late.days[:known] == early.days
    outcome = beat_median(early.close, 10)
    assert np.isnan(outcome[:, -10:]).all()
    assert np.isfinite(outcome[early.place["AAPL"], -11])
    cut = dataclasses.replace(late, days=late.days[:known], close=late.close[:, :known], volume=late.volume[:, :known])
    row, cut_row = early.place["AAPL"], late.place["AAPL"]
    assert pattern_codes(early)[row].tolist() == pattern_codes(cut)[cut_row].tolist()
