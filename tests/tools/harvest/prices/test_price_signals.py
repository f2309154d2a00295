"""temporal: patterns that the symbols show now, with dates, interval and base rate; no edge unless they show one."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pytest

from chordesk.models.board import implied
from chordesk.tools import figures
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


NAMES = [f"N{place:02d}" for place in range(1, 12)]


def swinging(move: float, sessions: int, last: float | None = None) -> list[float]:
    """Closes that rise and fall by turns by so much; the last 20 moves are of another size if `last` is given."""
    moves = [move if last is None or at < sessions - 21 else last for at in range(sessions - 1)]
    prices = [100.0]
    for at, size in enumerate(moves):
        prices.append(prices[-1] * math.exp(size if at % 2 == 0 else -size))
    return prices


def test_volatility_by_hand(make_context: MakeContext) -> None:
    """Moves of +-1 % of log price, 20 of them: their sample deviation is .01 sqrt(20/19), a year's 16.29 %."""
    closes = {name: swinging(0.01 * (place + 1), 81) for place, name in enumerate(NAMES)}
    closes["N01"] = swinging(0.005, 81, last=0.01)
    closes["N11"] = swinging(0.2, 81, last=0.11)
    found = {one.subjects[0]: one for one in harvested("volatility", board(make_context(closing(closes)), *NAMES))}
    one = found["N01"]
    assert one.data["volatility"] == round(0.01 * math.sqrt(20 / 19 * 252), 4) == 0.1629
    assert (one.data["rank"], one.data["of"]) == (11, 11)
    assert (one.data["shareBelow"], one.data["windows"], one.confidence) == (1.0, 60, 1.0)
    assert one.data["drawdown"] == round(math.exp(-0.01) - 1, 4)
    assert one.headline == (
        "N01: realised volatility 16.3% a year over 20 sessions, above 100% of its 60 own windows, rank 11 of 11; "
        "deepest fall -1.0% in 60 sessions"
    )
    assert (one.direction, implied(one)) == ("neutral", None)
    assert (found["N11"].data["shareBelow"], found["N11"].data["rank"]) == (0.0, 1)
    assert found["N11"].data["volatility"] == pytest.approx(figures.volatility(np.array(closes["N11"])), abs=5e-5)


def test_a_short_past_gives_no_percentile(make_context: MakeContext) -> None:
    closes = {name: swinging(0.01 * (place + 1), 81) for place, name in enumerate(NAMES)}
    closes["YOUNG"] = swinging(0.01, 40)
    market = closing(closes)
    assert "YOUNG" in dormant("volatility", board(make_context(market), "YOUNG"))
    found = harvested("volatility", board(make_context(market), "N02", "YOUNG"))
    assert [one.data["missing"] for one in found] == [["YOUNG"]]
