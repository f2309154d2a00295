from __future__ import annotations

import pytest

from chordesk.models.errors import MarketUnavailable
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call
from tests.tools.market.far_market import FarMarket, daily


def test_the_replay_has_an_overview_of_a_company(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "symbol_overview", symbols=["AAPL", "WYE", "NOPE"])
    assert answer.has_data
    apple, wyeth = answer.payload["overviews"]
    about = {"name": "Apple Inc.", "sector": "Information Technology", "industry": "Computer Hardware"}
    assert apple == {"symbol": "AAPL", **about, "lastClose": 251.79}
    assert wyeth == {"symbol": "WYE", "name": None, "sector": None, "industry": None, "lastClose": None}
    missing = {(row["symbol"], row["what"]): row["reason"] for row in answer.payload["missing"]}
    assert missing["WYE", "lastClose"] == "WYE has not traded since 2009-10-15"
    assert ("NOPE", "overview") in missing


def test_a_close_of_an_older_session_is_no_last_close(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "symbol_overview", symbols=["WYNN", "IBM"])
    assert [row["lastClose"] is None for row in answer.payload["overviews"]] == [True, False]
    (missing,) = answer.payload["missing"]
    assert (missing["symbol"], missing["what"]) == ("WYNN", "lastClose")
    assert missing["reason"] == "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"


@pytest.mark.parametrize("section", ["fundamentals", "earnings", "ratings", "options"])
def test_a_section_without_a_source_is_no_data(market: ReplayMarket, call: Call, section: str) -> None:
    answer = call(market, "symbol_overview", symbols=["AAPL", "MMM"], sections=[section, section])
    assert answer.success
    assert not answer.has_data
    assert answer.payload["missing"] == [
        {"what": section, "reason": f"not available: configure DESK_MARKET=yahoo for {section}"}
    ]
    assert all(section not in row for row in answer.payload["overviews"])


def test_sections_that_are_there(call: Call) -> None:
    market = FarMarket({"A": daily("A", [1, 2]), "B": daily("B", [3])}, sections={"ratings": {"A": {"analysts": 5.0}}})
    answer = call(market, "symbol_overview", symbols=["A", "B"], sections=["ratings", "earnings"])
    assert answer.has_data
    assert answer.payload["overviews"][0]["ratings"] == {"analysts": 5.0}
    assert "ratings" not in answer.payload["overviews"][1]
    assert answer.payload["missing"] == [
        {"what": "earnings", "reason": "not available: configure FAR for earnings"},
        {"symbol": "B", "what": "ratings", "reason": "no ratings of B"},
    ]


def test_a_source_that_is_down_is_no_data(call: Call) -> None:
    market = FarMarket({"A": daily("A", [1])}, trouble={"A": MarketUnavailable("down")})
    answer = call(market, "symbol_overview", symbols=["A"])
    assert not answer.has_data
    assert answer.payload["missing"] == [{"symbol": "A", "what": "overview", "reason": "down"}]
