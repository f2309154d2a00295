"""Correlations of daily returns, by numpy and by hand; a name without 60 of them has none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from chordesk.tools.board.price_panel import correlations, log_returns, mean_of_pairs, panel_of, universe_correlation
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board
from tests.tools.harvest.prices.closes import closing


def priced(changes: list[float]) -> list[float]:
    prices = [100.0]
    for one in changes:
        prices.append(prices[-1] * math.exp(one))
    return prices


SWING = [0.01 if at % 2 else -0.01 for at in range(60)]
SLOW = [0.01 if at // 2 % 2 else -0.01 for at in range(60)]


def test_returns_need_sixty_sessions_and_a_move(make_context: MakeContext) -> None:
    market = closing({"A": priced(SWING), "SHORT": priced(SWING[:59]), "STILL": [5.0] * 61})
    found = log_returns(make_context(market), ["A", "SHORT", "STILL", "NOPE"])
    assert list(found) == ["A"]
    assert found["A"].tolist() == pytest.approx(SWING)


def test_a_move_like_a_split_makes_returns_unknown_where_it_is_not_adjusted(make_context: MakeContext) -> None:
    halved = [price / (2 if at > 30 else 1) for at, price in enumerate(priced(SWING))]
    assert list(log_returns(make_context(closing({"A": halved}, adjusted=False)), ["A"])) == []
    assert list(log_returns(make_context(closing({"A": halved}, adjusted=True)), ["A"])) == ["A"]


def test_correlations_by_hand() -> None:
    """Two swings of equal size that agree half of the time are uncorrelated; turned round they are opposite."""
    returns = {"A": np.array(SWING), "B": np.array(SLOW), "C": -np.array(SWING)}
    matrix = correlations(returns, ["A", "B", "C", "X", "X"], 0.9)
    assert matrix[0].tolist() == pytest.approx([1, 0, -1, 0.9, 0.9], abs=1e-9)
    assert matrix[3, 4] == 1, "the same name, though its returns are not known"
    assert (matrix == matrix.T).all()
    assert mean_of_pairs(matrix[:3, :3]) == pytest.approx(-1 / 3)
    assert mean_of_pairs(matrix[:1, :1]) is None
    assert correlations({}, ["X", "Y"], 0.5).tolist() == [[1, 0.5], [0.5, 1]]
    assert correlations(returns, ["A"], 0.5).tolist() == [[1.0]]


def test_the_universe_s_mean_is_that_of_all_pairs(data: ReplayData, make_context: MakeContext) -> None:
    panel = panel_of(board(make_context(ReplayMarket(data, ReplayClock(data.sessions[200])))))
    changes = np.diff(np.log(panel.close[:, -61:]), axis=1)
    usable = changes[np.isfinite(changes).all(axis=1) & (changes.std(axis=1) > 0)]
    assert len(usable) > 400
    assert universe_correlation(panel) == pytest.approx(mean_of_pairs(np.corrcoef(usable)), abs=1e-9)
    young = panel_of(board(make_context(ReplayMarket(data, ReplayClock(data.sessions[20])))))
    assert universe_correlation(young) is None
