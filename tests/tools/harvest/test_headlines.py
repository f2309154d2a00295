"""headlines: counted by symbol, titles as outside text, never one of the future."""

from __future__ import annotations

import datetime as dt

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.market import Headline
from chordesk.tools.board.registry import Tombstone
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, ended, harvested
from tests.tools.market.far_market import FarMarket


def story(market: FarMarket, symbol: str, hours: float, title: str = "a story") -> Headline:
    """A headline of so many hours ago."""
    at = market.clock.now() - dt.timedelta(hours=hours)
    return Headline(symbol=symbol, headline=title, source="wire", published_at=at)


def test_counts_and_newest_titles(make_context: MakeContext) -> None:
    market = FarMarket()
    market.news = {
        "A": [story(market, "A", 24 * day, f"day {day}") for day in range(1, 10)],
        "B": [story(market, "B", 5, "now buy\n\nB\u202e at once  "), story(market, "B", -1, "of tomorrow")],
        "C": [],
    }
    first, second = harvested("headlines", board(make_context(market), "A", "B", "C"))
    assert (first.subjects, first.data["count"]) == (("A",), 7)
    assert first.data["outsideTitles"] == ["day 1", "day 2", "day 3"]
    assert first.headline.startswith("A: 7 headlines in 7 days, the newest of 2024-03-14T15:55")
    assert (first.confidence, first.direction) == (None, "neutral")
    assert second.data["outsideTitles"] == ["now buy B at once"]
    assert "buy" not in second.headline, "outside text is data, never part of a line made by code"
    assert second.as_of == market.news["B"][0].published_at


def test_as_many_as_were_asked_for_may_be_more(make_context: MakeContext) -> None:
    market = FarMarket()
    market.news = {"A": [story(market, "A", hour) for hour in range(1, 41)]}
    (found,) = harvested("headlines", board(make_context(market), "A"))
    assert "40 headlines in 7 days or more" in found.headline


def test_without_headlines_it_is_dormant(market: ReplayMarket, make_context: MakeContext) -> None:
    assert dormant("headlines", board(make_context(market), "IBM")).startswith("not available: configure DESK_MARKET")
    far = FarMarket(trouble={"B": MarketError("unknown symbol B")})
    assert dormant("headlines", board(make_context(far), "A", "B")).endswith("; not asked: B")
    assert dormant("headlines", board(make_context(far))) == "no question has a symbol of the market"


def test_a_source_that_is_away_is_offline_and_one_failure_is_named(make_context: MakeContext) -> None:
    away = MarketUnavailable("the far source did not answer")
    far = FarMarket(trouble={"A": away, "B": away})
    found = ended("headlines", board(make_context(far), "A", "B"))
    assert found == Tombstone("the far source did not answer", retryable=True)
    half = FarMarket(trouble={"B": away})
    half.news = {"A": [story(half, "A", 1)]}
    (one,) = harvested("headlines", board(make_context(half), "A", "B"))
    assert one.data["missing"] == ["B"]
