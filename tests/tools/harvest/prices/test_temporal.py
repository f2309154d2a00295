"""temporal: patterns that the symbols show now, with dates, interval and base rate; no edge unless they show one."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np

from chordesk.models.board import implied
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, harvested
from tests.tools.harvest.prices.closes import closing

ON_2010_08_12 = ["AAPL", "IBM", "XOM", "GE", "JPM", "KO", "F", "AMZN", "GS"]


def wavy(names: int, sessions: int, edge: float) -> dict[str, list[float]]:
    """Names on waves of 40 sessions, each shifted by a session; one that is rising again gains `edge` a session more
    over the ten after it, so that the pattern has an edge if `edge` is large."""
    closes = {}
    for name in range(names):
        prices = [100.0]
        for at in range(1, sessions):
            phase = (at + name) % 40
            slope = -0.006 if phase < 20 else 0.008 if phase < 26 else edge
            prices.append(prices[-1] * math.exp(slope))
        closes[f"N{name:02d}"] = prices
    return closes


def test_an_edge_of_a_made_market_is_found(make_context: MakeContext) -> None:
    """After a fall of 20 sessions and a rise of 5 these names rise for 14 more, against a median that is flat."""
    market = closing(wavy(40, 320, 0.004))
    symbols = [name for name in market.histories if (319 + int(name[1:])) % 40 == 25]
    (found,) = harvested("temporal", board(make_context(market), *symbols))
    assert found.data["shortMove"] == "up"
    assert found.data["longMove"] == "down"
    assert found.data["dates"] > 200
    assert found.direction == "bullish"
    assert found.data["shareFrom"] > found.data["base"]
    assert found.confidence == min(0.3, round(2 * (found.data["shareFrom"] - found.data["base"]), 4))
    assert "an edge above the base rate" in found.headline
    assert (implied(found) or 0) > 0.5


def test_the_default_data_show_none(data: ReplayData, make_context: MakeContext) -> None:
    market = ReplayMarket(data, ReplayClock(dt.date(2010, 8, 12)))
    found = harvested("temporal", board(make_context(market), *ON_2010_08_12))
    assert found
    for one in found:
        assert (one.direction, one.confidence, one.data["reading"]) == ("neutral", 0.0, "no edge shown")
        assert one.data["shareFrom"] < one.data["base"] < one.data["shareTo"]
        assert one.data["patternsLookedAt"] == len(found)
        assert implied(one) is None


def test_below_thirty_dates_is_not_enough(data: ReplayData, make_context: MakeContext) -> None:
    """Twenty sessions make a pattern and ten more an outcome: in October few dates have both."""
    market = ReplayMarket(data, ReplayClock(dt.date(2009, 10, 20)))
    found = harvested("temporal", board(make_context(market), *ON_2010_08_12))
    assert found
    for one in found:
        assert one.data["dates"] < 30
        assert (one.confidence, one.direction, implied(one)) == (None, "neutral", None)
        assert one.headline.endswith("not enough")
        assert "share" not in one.data


def test_without_a_pattern_it_is_dormant(data: ReplayData, make_context: MakeContext) -> None:
    flat = closing({f"N{place:02d}": np.linspace(100, 101, 60).tolist() for place in range(12)})
    reason = dormant("temporal", board(make_context(flat), "N01", "NOPE"))
    assert reason.startswith("no symbol shows a pattern, N01, NOPE: no move beyond 2%")
    young = ReplayMarket(data, ReplayClock(data.sessions[3]))
    assert "no symbol shows a pattern" in dormant("temporal", board(make_context(young), "IBM"))
