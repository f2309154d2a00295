"""Figures of Apple's 126 sessions to 2010-05-05, computed once by other code and by hand; and known patterns."""

from __future__ import annotations

import numpy as np
import pytest

from chordesk.tools.charts.study import RECENT, Pattern, Study, patterns, study_of
from chordesk.tools.market.protocol import Bars
from tests.tools.charts.samples import apple, apple_market, bars_of, frame_of
from tests.tools.conftest import Call

SWINGS = "H 208.00, L 197.76, L 188.68, L 191.00, H 215.59, L 204.10, H 215.55, L 190.25, H 204.31, L 195.71, "
SWINGS += "H 227.73, L 220.15, H 272.46"


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(frame_of(apple()), 5, 5)


def test_swings(study: Study) -> None:
    assert ", ".join(f"{one.kind[0].upper()} {one.price:.2f}" for one in study.swings) == SWINGS
    dates = list(study.frame.bars.dates)
    assert all(one.confirmed == dates[dates.index(one.date) + 5] for one in study.swings)


def test_fibonacci(study: Study) -> None:
    fib = study.fib
    assert fib is not None
    assert (fib.direction, fib.high.price, fib.low.price) == ("up", 272.46, 188.68)
    prices = [one.price for one in (*fib.retracements, *fib.extensions)]
    assert prices == pytest.approx(
        [252.68792, 240.45604, 230.57, 220.68396, 206.60892, 295.24816, 324.23604, 408.01604], abs=5e-6
    )
    assert [one.id for one in fib.retracements] == ["F23.6", "F38.2", "F50.0", "F61.8", "F78.6"]
    assert [one.id for one in fib.extensions] == ["E127.2", "E161.8", "E261.8"]


def test_support_and_resistance(study: Study) -> None:
    levels = study.levels
    assert levels is not None
    assert [(one.id, round(one.price, 4), one.touches) for one in levels.support] == [
        ("S1", 227.73, 1), ("S2", 217.0967, 3), ("S3", 205.47, 3), ("S4", 196.735, 2), ("S5", 189.9767, 3),
    ]  # fmt: skip
    assert [(one.id, one.price, one.touches) for one in levels.resistance] == [("R1", 272.46, 1)]
    assert [one.strength for one in levels.support] == ["weak", "strong", "strong", "moderate", "strong"]
    assert str(levels.support[1].last_touch) == "2010-03-22"


def test_the_line_over_the_highs(study: Study) -> None:
    """The line under the lows is eight average true ranges below the close: it says nothing of today."""
    assert study.trendlines is not None
    (line,) = study.trendlines
    assert (line.id, str(line.start.date), str(line.end.date), line.touches) == ("TR", "2009-11-16", "2010-04-26", 2)
    assert (line.slope, line.now) == pytest.approx(((272.46 - 208) / 109, 272.46 + 7 * (272.46 - 208) / 109))
    distance, slope = (line.now - 255.985) / 6.672868, line.slope / 6.672868
    score = 2 * (125 - 9) / 125 / ((1 + distance) * (1 + 10 * slope))
    assert (line.distance, line.score) == pytest.approx((distance, score), rel=1e-6)


def test_a_line_that_closes_went_through_is_broken_and_feeds_nothing() -> None:
    """A zigzag that rises by 0.2 a bar, whose lows lie on one line, then falls below it."""
    phase = np.abs((np.arange(120) % 12) - 6) / 6
    close = 100 + 0.2 * np.arange(120) + 6 * phase
    fallen = np.r_[close, close[-1] - 1.5 * np.arange(1, 9)]
    holds, broke = (
        study_of(frame_of(bars_of(some, some + 0.5, some - 0.5, some, np.ones(len(some))), len(some)), 5, 5)
        for some in (close, fallen)
    )
    assert holds.trendlines is not None
    assert broke.trendlines is not None
    line = {one.id: one for one in holds.trendlines}["TS"]
    assert (line.kind, line.touches, line.broken) == ("support", 10, None)
    assert line.now < holds.close
    lost = {one.id: one for one in broke.trendlines}["BS"]
    assert lost.broken in broke.frame.bars.dates[-8:]
    assert "BS" not in broke.prices()
    assert all("BS" not in one.members for one in broke.confluence)


def test_trend_and_extension(study: Study) -> None:
    assert study.trend is not None
    assert study.extension is not None
    assert (study.atr, study.adx) == pytest.approx((6.672868, 42.009384), abs=5e-7)
    assert study.trend.r2 == pytest.approx(0.962915, abs=5e-7)
    assert (study.trend.direction, study.trend.quality, study.trend.bars) == ("up", "strong", 63)
    assert (study.extension.risk, study.extension.atr) == ("high", pytest.approx((255.985 - 227.73) / 6.672868))


def test_confluence(study: Study) -> None:
    found = [(one.id, one.members, round(one.price, 3)) for one in study.confluence]
    assert found == [("C1", ("S1", "F50.0"), 229.15), ("C2", ("S3", "F78.6"), 206.039)]
    assert study.prices()["C1"] == pytest.approx((227.73 + 230.57) / 2)


def test_the_tool_gives_the_same(call: Call) -> None:
    answer = call(apple_market(), "chart_study_get", symbols=["AAPL"])
    (row,) = answer.payload["studies"]
    assert answer.payload["missing"] == []
    assert (row["bars"], row["from"], row["to"], row["close"]) == (126, "2009-11-03", "2010-05-05", 255.985)
    assert (row["atr14"], row["adx14"]) == (6.6729, 42.0094)
    assert [one["price"] for one in row["support"]] == [227.73, 217.0967, 205.47, 196.735, 189.9767]
    assert row["fib"]["retracements"][1] == {"id": "F38.2", "price": 240.456}
    assert (row["trend"]["r2"], row["extension"]) == (0.962915, {"atr": 4.23, "risk": "high"})


def falling(*last: tuple[float, float, float, float]) -> Bars:
    """A steady fall of small candles from 100, then the given (open, high, low, close)."""
    close = 100 - 0.5 * np.arange(60)
    rows = [(value + 0.4, value + 0.6, value - 0.2, value) for value in close.tolist()]
    return bars_of(*np.array([*rows, *last]).T, np.ones(60 + len(last)))


@pytest.mark.parametrize(
    ("candles", "name", "direction"),
    [
        ([(70.5, 70.6, 69.4, 69.5), (69.3, 72.1, 69.2, 72.0)], "engulfing", "bullish"),
        ([(69.1, 69.15, 66.0, 69.05)], "doji", "undecided"),
        ([(70.0, 73.0, 70.0, 73.0)], "marubozu", "bullish"),
    ],
)
def test_a_pattern_is_found_where_it_ends(
    candles: list[tuple[float, float, float, float]], name: str, direction: str
) -> None:
    bars = falling(*candles)
    assert Pattern(bars.dates[-1], name, direction) in patterns(bars)  # type: ignore[arg-type]
    calm = falling(*candles, *[(72.0, 72.2, 71.8, 72.1)] * RECENT)
    assert bars.dates[-1] not in {one.date for one in patterns(calm)}, "an old pattern is not given"
    assert not [one for one in patterns(calm) if one.name == name == "engulfing"]
