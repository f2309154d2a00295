"""What holds for every chart: it does not depend on the unit of price, nor on what comes later."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import talib
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.tools.charts import study as overlays
from chordesk.tools.charts.lines import FAR, swings
from chordesk.tools.charts.study import OVERLAYS, Study, patterns, study_of
from chordesk.tools.model_tools.charts import SECTIONS, study_row
from tests.examples import examples
from tests.tools.charts.samples import apple, bars_of, changed, first, frame_of, walk

MANY = settings(max_examples=examples(50), deadline=None)
seeds = st.integers(0, 2**32 - 1)


def studied(seed: int, factor: float = 1.0, shift: float = 0.0) -> Study:
    return study_of(frame_of(changed(walk(seed), factor, shift)), 5, 5)


def places(study: Study) -> tuple[object, ...]:
    """Everything of a study that is no price."""
    assert study.levels is not None
    assert study.fib is not None
    lines = [(one.id, one.start.at, one.end.at, one.touches) for one in study.trendlines or ()]
    sides = [[(one.id, one.touches) for one in some] for some in study.levels]
    found = [(one.id, one.at, one.kind, one.confirmed) for one in study.swings]
    return found, (study.fib.direction, study.fib.high.at, study.fib.low.at), lines, sides


@MANY
@given(seed=seeds, factor=st.sampled_from([0.0625, 8.0]))
def test_twice_the_price_is_twice_each_level(seed: int, factor: float) -> None:
    one, other = studied(seed), studied(seed, factor)
    assert places(one) == places(other)
    assert one.prices().keys() == other.prices().keys()
    for id, price in one.prices().items():
        assert other.prices()[id] == pytest.approx(price * factor, rel=1e-12), id
    assert (one.adx, one.trend and one.trend.r2) == pytest.approx((other.adx, other.trend and other.trend.r2))
    assert other.atr == pytest.approx((one.atr or 0) * factor)
    assert one.patterns == other.patterns
    assert [part.members for part in one.confluence] == [part.members for part in other.confluence]


@MANY
@given(seed=seeds, lookback=st.integers(2, 6), count=st.integers(1, 260))
def test_later_bars_change_no_swing_that_is_confirmed(seed: int, lookback: int, count: int) -> None:
    whole = walk(seed)
    before = first(whole, count)
    known = tuple(one for one in swings(whole, lookback) if one.confirmed <= before.dates[-1])
    assert swings(before, lookback) == known


@MANY
@given(seed=seeds, day=st.integers(200, 250))
def test_later_bars_change_no_figure_of_a_day(seed: int, day: int) -> None:
    """The figures of day t, from bars up to t, are what a longer series has at t."""
    whole = walk(seed)
    before = first(whole, day)
    then = study_of(frame_of(before), 5, 5)
    prices = (whole.high, whole.low, whole.close)
    assert then.atr == pytest.approx(talib.ATR(*prices, 14)[day - 1])
    assert then.adx == pytest.approx(talib.ADX(*prices, 14)[day - 1])
    later = patterns(first(whole, day + 5))
    assert set(later) >= {one for one in then.patterns or () if one.date > before.dates[-6]}
    drawn = overlays.series(frame_of(whole, len(whole)), OVERLAYS)
    for name, values in overlays.series(frame_of(before, 66), OVERLAYS).items():
        assert drawn[name][day - 66 : day] == pytest.approx(values, nan_ok=True), name
    assert study_of(frame_of(apple()), 5, 5).prices() != study_of(frame_of(first(apple(), 400)), 5, 5).prices()


@MANY
@given(
    close=st.lists(st.floats(0.01, 1e5, allow_nan=False), min_size=1, max_size=70),
    lookback=st.integers(2, 6),
    wide=st.floats(0, 0.5),
)
def test_any_bars_have_a_study_that_is_json(close: list[float], lookback: int, wide: float) -> None:
    closes = np.array(close)
    opened = np.r_[closes[:1], closes[:-1]]
    high, low = np.maximum(opened, closes) * (1 + wide), np.minimum(opened, closes) * (1 - wide)
    study = study_of(frame_of(bars_of(opened, high, low, closes, np.ones(len(closes)))), lookback, 5)
    json.dumps(study_row(study, list(SECTIONS)), allow_nan=False)
    assert all(math.isfinite(price) and price > 0 for price in study.prices().values())
    if study.levels is not None:
        prices = [one.price for one in reversed(study.levels.support)], [one.price for one in study.levels.resistance]
        assert all(some == sorted(some) for some in prices)
        assert all(price <= study.close for price in prices[0])
        assert all(price > study.close for price in prices[1])
    for line in study.trendlines or ():
        assert line.distance <= FAR
        assert line.broken is not None or (line.kind == "support") == (line.now <= study.close)
    assert all(what and reason for what, reason in study.lacks())
