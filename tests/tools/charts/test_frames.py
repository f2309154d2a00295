"""The bars of a chart: weeks, holes, and moves that may be splits."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import numpy as np
import pytest

from chordesk.tools.charts.frames import frames, weekly
from chordesk.tools.market.protocol import Bars
from chordesk.tools.registry import Gaps
from tests.tools.charts.samples import apple, apple_market, first
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarClock, FarMarket, daily


def test_a_week_is_made_of_its_sessions() -> None:
    bars = apple()
    weeks = weekly(bars, bars.dates)
    assert weeks.dates[-1] == dt.date(2010, 5, 5)
    assert len({day.isocalendar()[:2] for day in weeks.dates}) == len(weeks.dates)
    at = weeks.dates.index(dt.date(2010, 4, 1))  # Good Friday closed the exchange
    inside = [place for place, day in enumerate(bars.dates) if dt.date(2010, 3, 29) <= day <= dt.date(2010, 4, 2)]
    assert len(inside) == 4
    assert weeks.open[at] == bars.open[inside[0]]
    assert weeks.high[at] == bars.high[inside].max()
    assert weeks.low[at] == bars.low[inside].min()
    assert weeks.close[at] == bars.close[inside[-1]]
    assert weeks.volume[at] == bars.volume[inside].sum()


def test_a_part_of_the_first_week_is_no_bar() -> None:
    bars = apple()
    monday = next(at for at, day in enumerate(bars.dates) if day.weekday() == 0 and at > 0)
    whole = weekly(bars.last(len(bars) - monday), bars.dates)
    cut = weekly(bars.last(len(bars) - monday - 1), bars.dates)
    assert cut.dates == whole.dates[1:]
    assert weekly(bars.last(1), bars.dates).dates == []
    assert weekly(bars, bars.dates).dates[0] > bars.dates[0], "what came before the first session is not known"


def test_earlier_weeks_do_not_change_while_one_goes_on() -> None:
    bars = apple()
    for count in range(300, 306):
        before = first(bars, count)
        now, then = weekly(bars, bars.dates), weekly(before, before.dates)
        whole = len(then) - 1
        assert now.dates[:whole] == then.dates[:whole]
        assert (now.close[:whole] == then.close[:whole]).all()


def test_a_week_that_goes_on_is_flagged(make_context: MakeContext) -> None:
    """2010-05-05 was a Wednesday; by Friday's close the week was over."""
    (wednesday,) = frames(make_context(apple_market()), ["AAPL"], Gaps(), 100, "week")
    assert (wednesday.incomplete, len(wednesday.bars.dates)) == (True, 20)
    friday = next(at for at, day in reversed(list(enumerate(apple().dates))) if day.weekday() == 4)
    bars = first(apple(), friday + 1)
    market = FarMarket({"AAPL": bars}, clock=FarClock(bars.dates[-1]))
    (over,) = frames(make_context(market), ["AAPL"], Gaps(), 20, "day")
    assert not over.incomplete


@pytest.mark.parametrize(
    ("lost", "bars", "what", "reason"),
    [
        ([100], 59, "missing sessions", "of the last 60: 1 of X; figures are of the others"),
        (range(90, 97), 23, "sessions", "no bar of some of the last 60, and no figure across them, of X"),
    ],
)
def test_figures_go_across_few_missing_sessions_and_begin_after_more_than_a_tenth(
    make_context: MakeContext, lost: Sequence[int], bars: int, what: str, reason: str
) -> None:
    whole = daily("X", np.linspace(50, 60, 120))
    kept = [at for at in range(120) if at not in lost]
    columns = (values[kept] for values in (whole.open, whole.high, whole.low, whole.close, whole.volume))
    market = FarMarket({"X": Bars("X", [whole.dates[at] for at in kept], True, *columns)})
    gaps = Gaps()
    (frame,) = frames(make_context(market), ["X"], gaps, 60, "day")
    assert (len(frame.bars.dates), len(frame.shown.dates)) == (bars, 60)
    assert int(np.isnan(frame.shown.close).sum()) == len(lost)
    assert [frame.shown.dates[at] for at in frame.places] == list(frame.bars.dates)
    assert {gap["what"]: gap["reason"] for gap in gaps.rows()}[what] == reason


def test_only_what_comes_after_a_move_like_a_split_compares(make_context: MakeContext) -> None:
    close = np.r_[np.linspace(100, 120, 150), np.linspace(60, 70, 50)]
    for adjusted, count in ((False, 50), (True, 126)):
        gaps = Gaps()
        market = FarMarket({"X": daily("X", close, adjusted=adjusted)})
        (frame,) = frames(make_context(market), ["X"], gaps, 126, "day")
        assert len(frame.bars.dates) == count
        whats = {gap["what"]: gap["reason"] for gap in gaps.rows()}
        assert ("split adjustment" in whats) is not adjusted
        if not adjusted:
            assert whats["bars before that move"].startswith("left out: only the 50 sessions from ")
            assert frame.bars.dates == frame.shown.dates == frame.long.dates
