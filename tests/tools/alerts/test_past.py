"""An alert tried over past sessions of the replay: what it cannot see is said, and nothing stands in for it."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pytest

from chordesk.models.alerts.tables import AlertsAlert
from chordesk.models.errors import UsageError
from chordesk.tools.alerts.past import tried
from chordesk.tools.market.replay.market import ReplayMarket

FIRST = dt.date(2010, 6, 1)


def alert(condition: str) -> AlertsAlert:
    return AlertsAlert(name="a", subject="IBM", condition=condition, written_on=FIRST, by="ann")


def test_what_followed_is_counted_from_the_close_of_the_firing(market: ReplayMarket) -> None:
    found = tried(alert("move 2%"), ["IBM", "NOPE"], market, FIRST, None)
    assert found.firings
    bars = market.bars("IBM", 300)
    for one in found.firings:
        place = bars.dates.index(one.day)
        assert max(abs(high / bars.close[place - 1] - 1) for high in (bars.high[place], bars.low[place])) >= 0.02
        later = bars.close[place + 1] / bars.close[place] - 1 if place + 1 < len(bars.dates) else None
        assert one.after[0] == pytest.approx(later)
    assert [note.partition(":")[0] for note in found.notes] == ["NOPE"]


def test_a_move_since_the_close_is_a_new_question_in_each_session(market: ReplayMarket) -> None:
    """Each session on which the low was so far below the close before, but the first, which arms."""
    found = tried(alert("move down 2% since close"), ["IBM"], market, dt.date(2010, 5, 3), dt.date(2010, 7, 1))
    bars = market.bars("IBM", 300)
    places = [place for place, day in enumerate(bars.dates) if dt.date(2010, 5, 4) <= day <= dt.date(2010, 7, 1)]
    fell = [bars.dates[at] for at in places if bars.low[at] / bars.close[at - 1] - 1 <= -0.02]
    assert any(after - before == dt.timedelta(days=1) for before, after in pairwise(fell)), "two in a row"
    assert [one.day for one in found.firings] == fell


def test_what_past_sessions_do_not_show_is_refused_or_said(market: ReplayMarket) -> None:
    for condition, first, why in (
        ("headline", FIRST, "headline cannot be tried"),
        ("price above 1", dt.date(2031, 1, 1), "the market's last session"),
        ("price above 1", dt.date(1890, 1, 1), "too many"),
    ):
        with pytest.raises(UsageError, match=f"{why}|is after"):
            tried(alert(condition), ["IBM"], market, first, None)
    with pytest.raises(UsageError, match="no session from 2010-07-03"):
        tried(alert("price above 1"), ["IBM"], market, dt.date(2010, 7, 3), dt.date(2010, 7, 4))
    found = tried(alert("rating"), ["IBM"], market, FIRST, None)
    assert found.firings == []
