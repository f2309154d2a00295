"""momentum and reversal: ranks in the universe by hand, missing figures, and what a move like a split does."""

from __future__ import annotations

import numpy as np
import pytest

from chordesk.models.board import implied
from chordesk.tools.board.price_panel import standing
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, harvested
from tests.tools.harvest.prices.closes import closing, rising
from tests.tools.market.far_market import FarMarket, daily

NAMES = [f"N{place:02d}" for place in range(1, 12)]  # eleven: the sixth is the middle


def test_momentum_by_hand(make_context: MakeContext) -> None:
    """Eleven names rise by .1 % of 100 a session, .2 % and so on, over 61 sessions."""
    market = closing(rising(NAMES, 61))
    best, worst, middle = harvested("momentum", board(make_context(market), "N06", "N11", "N01"))
    assert best.subjects == ("N01",), "equally far from the middle, so by name"
    assert worst.subjects == ("N11",)
    data = worst.data
    assert data["momentum60"] == pytest.approx((100 + 1.1 * 60) / 100 - 1)
    assert data["momentum20"] == round((100 + 1.1 * 60) / (100 + 1.1 * 40) - 1, 4)
    assert (data["rank20"], data["of20"], data["rank60"], data["of60"]) == (1, 11, 1, 11)
    assert worst.headline == "N11: +15.3% in 20 sessions, rank 1 of 11; +66.0% in 60, rank 1 of 11"
    assert (worst.direction, worst.confidence, implied(worst)) == ("bullish", 0.1, 0.55)
    assert (best.direction, best.data["rank60"], implied(best)) == ("bearish", 11, 0.45)
    assert (middle.direction, middle.confidence, middle.data["shareBelow"]) == ("neutral", 0.0, 0.5)


def test_a_reversal_goes_against_the_move(make_context: MakeContext) -> None:
    first, second = harvested("reversal", board(make_context(closing(rising(NAMES, 6))), "N11", "N01"))
    assert (first.subjects, first.direction) == (("N01",), "bullish")
    assert (second.subjects, second.direction, second.data["rank"]) == (("N11",), "bearish", 1)
    assert second.data["return5"] == pytest.approx(0.055)
    assert second.headline == "N11: +5.5% in 5 sessions, rank 1 of 11; a reversal would go the other way"


def test_a_name_without_the_figure_is_named_and_not_ranked(make_context: MakeContext) -> None:
    closes = rising(NAMES, 61)
    closes["YOUNG"] = [100.0] * 30
    market = closing(closes)
    found = harvested("momentum", board(make_context(market), "N01", "YOUNG", "NOPE"))
    assert [finding.subjects for finding in found] == [("N01",)]
    assert found[0].data["missing"] == ["YOUNG", "NOPE"]
    assert (found[0].data["of20"], found[0].data["of60"]) == (12, 11)
    assert dormant("momentum", board(make_context(market), "YOUNG", "NOPE")).endswith(": YOUNG, NOPE")


def test_a_hole_where_a_figure_begins_is_missing(make_context: MakeContext) -> None:
    closes = rising(NAMES, 61)
    market = closing(closes)
    bars = market.histories["N03"]
    kept = [place for place in range(61) if place != 0]
    holed = daily("N03", bars.close[kept])
    assert holed.dates[0] == bars.dates[1]
    found = harvested("momentum", board(make_context(FarMarket({**market.histories, "N03": holed})), "N03", "N04"))
    assert [finding.subjects for finding in found] == [("N04",)]
    assert found[0].data["missing"] == ["N03"]


def test_too_few_names_are_no_universe(make_context: MakeContext) -> None:
    market = closing(rising(NAMES[:9], 61))
    assert "nothing to compare it with: N01" in dormant("momentum", board(make_context(market), "N01"))
    assert "nothing to compare it with: N01" in dormant("reversal", board(make_context(market), "N01"))


@pytest.mark.parametrize("adjusted", [True, False])
def test_a_halved_price_is_no_fall_where_splits_are_not_adjusted(make_context: MakeContext, adjusted: bool) -> None:
    closes = rising(NAMES, 61)
    closes["N11"][-3:] = [price / 2 for price in closes["N11"][-3:]]
    found = harvested("reversal", board(make_context(closing(closes, adjusted)), "N11", "N10"))
    assert (("N11",) in [finding.subjects for finding in found]) == adjusted
    assert all(finding.data["missing"] == ([] if adjusted else ["N11"]) for finding in found)


def test_a_name_that_left_the_market_has_no_rank(make_context: MakeContext) -> None:
    market = closing(rising(NAMES, 61))
    bars = market.histories["N05"]
    left = daily("N05", bars.close[:-1], last=bars.dates[-2])
    found = harvested("reversal", board(make_context(FarMarket({**market.histories, "N05": left})), "N05", "N04"))
    assert found[0].data["missing"] == ["N05"]
    assert found[0].data["of"] == 10


def test_five_of_many_are_shown_the_furthest_from_the_middle_first(make_context: MakeContext) -> None:
    found = harvested("reversal", board(make_context(closing(rising(NAMES, 6))), *NAMES))
    assert [finding.subjects[0] for finding in found] == ["N01", "N11", "N02", "N10", "N03"]


def test_ties_stand_in_the_middle_of_their_ranks() -> None:
    values = np.array([1.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, np.nan, 8.0])
    tied, none = standing(values, 2), standing(values, 9)
    assert tied is not None
    assert (tied.rank, tied.of, tied.percentile) == (7, 10, pytest.approx(2 / 9))
    assert none is None
    top = standing(values, 10)
    assert top is not None
    assert (top.rank, top.percentile) == (1, 1.0)
