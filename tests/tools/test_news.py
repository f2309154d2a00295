from __future__ import annotations

import datetime as dt

from chordesk.models.errors import MarketUnavailable
from chordesk.models.market import Headline
from chordesk.tools.market.replay.market import ReplayMarket
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
        "url": "https://example.org/a",
    }


def test_only_news_of_the_future_is_no_news(call: Call) -> None:
    answer = call(FarMarket(news={"A": [headline(1)]}), "news_list", symbols=["A"])
    assert not answer.has_data
    assert answer.payload["missing"] == [{"symbol": "A", "what": "headlines", "reason": "the source has none"}]


def test_a_source_without_headlines_is_named_once(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "news_list", symbols=["AAPL", "MMM"])
    assert answer.success
    assert not answer.has_data
    assert answer.payload["missing"] == [
        {"what": "headlines", "reason": "not available: configure DESK_MARKET=yahoo for headlines"}
    ]


def test_one_symbol_s_trouble_is_its_own(call: Call) -> None:
    market = FarMarket(news={"A": [headline(-1)]}, trouble={"B": MarketUnavailable("too busy")})
    answer = call(market, "news_list", symbols=["B", "A"])
    assert answer.has_data
    assert answer.payload["missing"] == [{"symbol": "B", "what": "headlines", "reason": "too busy"}]


def test_a_headline_of_any_length_is_cut(call: Call) -> None:
    answer = call(FarMarket(news={"A": [headline(-1, "x" * 5000)]}), "news_list", symbols=["A"])
    assert len(answer.payload["headlines"][0]["headline"]) == 300
