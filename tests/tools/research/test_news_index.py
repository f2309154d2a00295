"""news_index: counts of headlines by day and source, and the days that are not covered."""

from __future__ import annotations

import datetime as dt

from chordesk.models.market import Headline
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call
from tests.tools.market.far_market import FarClock, FarMarket

NOW = FarClock().now()


def headline(hours: float, source: str = "wire") -> Headline:
    at = NOW + dt.timedelta(hours=hours)
    return Headline(symbol="A", headline="soars", source=source, published_at=at)


def test_counts_by_day_and_source(call: Call) -> None:
    rows = [headline(1), headline(0), headline(-1, "blog\x00"), headline(-24), headline(-25), headline(-24 * 9)]
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
    market = FarMarket(news={"A": [headline(-1), headline(-26)], "B": [headline(-1), headline(-999)]})
    answer = call(market, "news_index", symbols=["A", "B"], days=7)
    assert [row["since"] for row in answer.payload["index"]] == ["2024-03-14", "2024-03-09"]
    assert answer.payload["missing"] == [
        {"what": "older headlines", "reason": "the source's own list begins within the window, at `since`, of A"}
    ]


def test_a_window_without_news_is_an_answer(call: Call) -> None:
    answer = call(FarMarket(news={"A": [headline(-999)]}), "news_index", symbols=["A", "B"], days=7)
    assert answer.has_data
    assert answer.payload["index"][0]["headlines"] == 0
    assert answer.payload["missing"] == [{"symbol": "B", "what": "headlines", "reason": "the source has none"}]


def test_the_largest_question_has_an_answer(call: Call) -> None:
    rows = [headline(-hour, f"source {hour % 40} with a name of some length") for hour in range(1440)]
    names = [f"SYM{number}" for number in range(150)]
    answer = call(FarMarket(news=dict.fromkeys(names, rows)), "news_index", symbols=names, days=60)
    assert answer.success, answer.payload
    for row in answer.payload["index"]:
        assert sum(row["byDay"].values()) == sum(row["bySource"].values()) == row["headlines"] > 1000
        assert row["byDay"].keys() > {"before"}
        assert row["bySource"].keys() > {"other"}


def test_the_replay_has_no_headlines(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "news_index", symbols=["AAPL", "MMM"])
    assert not answer.has_data
    assert answer.payload["missing"] == [
        {"what": "headlines", "reason": "not available: configure DESK_MARKET=yahoo for headlines"}
    ]
