"""news_list and news_index: headlines up to now, their counts by day and source, and what is not covered."""

from __future__ import annotations

import datetime as dt

from chordesk.models.market import Headline
from tests.tools.conftest import Call
from tests.tools.market.far_market import FarClock, FarMarket

NOW = FarClock().now()


def headline(minutes: float, text: str = "news") -> Headline:
    at = NOW + dt.timedelta(minutes=minutes)
    return Headline(symbol="A", headline=text, source="wire", published_at=at, url="https://example.org/a")


def test_newest_first_and_none_from_the_future(call: Call) -> None:
    market = FarMarket(
        news={"A": [headline(-60, "old"), headline(0, "now"), headline(1, "later"), headline(-5, "new")]}
    )
    answer = call(market, "news_list", symbols=["A"], limit=2)
    assert answer.has_data
    assert [row["headline"] for row in answer.payload["headlines"]] == ["now", "new"]
    assert answer.payload["headlines"][0] == {
        "symbol": "A",
        "headline": "now",
        "source": "wire",
        "publishedAt": "2024-03-15T15:55:00-04:00",
    }
    (row,) = call(market, "news_list", symbols=["A"], limit=1, urls=True).payload["headlines"]
    assert row["url"] == "https://example.org/a"


def at_hour(hours: float, source: str = "wire") -> Headline:
    at = NOW + dt.timedelta(hours=hours)
    return Headline(symbol="A", headline="soars", source=source, published_at=at)


def test_counts_by_day_and_source(call: Call) -> None:
    rows = [at_hour(1), at_hour(0), at_hour(-1, "blog\x00"), at_hour(-24), at_hour(-25), at_hour(-24 * 9)]
    answer = call(FarMarket(news={"A": rows}), "news_index", symbols=["A"], days=7)
    assert answer.payload["index"] == [
        {
            "symbol": "A",
            "headlines": 4,
            "since": "2024-03-09",
            "newest": NOW.isoformat(),
            "byDay": {"2024-03-15": 2, "2024-03-14": 2},
            "bySource": {"wire": 3, "blog": 1},
        }
    ]
    assert answer.payload["missing"] == []
    assert "soars" not in answer.text()


def test_days_before_the_source_s_own_list_are_not_counted_as_quiet(call: Call) -> None:
    market = FarMarket(news={"A": [at_hour(-1), at_hour(-26)], "B": [at_hour(-1), at_hour(-999)]})
    answer = call(market, "news_index", symbols=["A", "B"], days=7)
    assert [row["since"] for row in answer.payload["index"]] == ["2024-03-14", "2024-03-09"]
    assert answer.payload["missing"] == [{"what": "older headlines", "reason": "the source begins at `since`: A"}]
