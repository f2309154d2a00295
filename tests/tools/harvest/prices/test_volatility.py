"""volatility: against its own past and the universe, with the drawdown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chordesk.models.board import implied
from chordesk.tools import figures
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, harvested
from tests.tools.harvest.prices.closes import closing

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
