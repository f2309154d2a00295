"""Signals of prices: the panel, ranks, patterns, volatility."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.questions import implied
from chordesk.tools.board.price_signals import NO_PATTERN, described_pattern, pattern_codes, record_of
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.price_panel import (
    PricePanel,
    beat_median,
    change,
    correlations,
    log_returns,
    mean_of_pairs,
    panel_of,
    returns,
    standing,
    universe_correlation,
)
from chordesk.tools.scoring.inference import wilson
from tests.tools.board.boards import board, dormant, harvested
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket, daily


def closing(closes: Mapping[str, Sequence[float]], adjusted: bool = True) -> FarMarket:
    return FarMarket({symbol: daily(symbol, row, adjusted=adjusted) for symbol, row in closes.items()})


def rising(names: Sequence[str], sessions: int, step: float = 0.001) -> dict[str, list[float]]:
    """Names of which each rises faster than the one before: `step` a session, twice as much, and so on, of 100."""
    return {
        name: [100 * (1 + step * place * day) for day in range(sessions)] for place, name in enumerate(names, start=1)
    }


TWELVE = [f"N{place:02d}" for place in range(1, 13)]


def test_without_any_bar_the_market_s_own_failure_shows(make_context: MakeContext) -> None:
    market = closing(rising(TWELVE, 90))
    market.trouble = {name: MarketError(f"no bars of {name}") for name in TWELVE}
    with pytest.raises(MarketError, match="no bars of N01"):
        panel_of(make_context(market), ["N01"])
    market.trouble |= {"N07": MarketUnavailable("the source is away")}
    with pytest.raises(MarketUnavailable, match="the source is away"):
        panel_of(make_context(market), ["N01"])


def test_a_bar_stands_in_the_column_of_its_session(make_context: MakeContext) -> None:
    """A has a bar of a day that is no session of the market, and lacks one of a day that is."""
    market = closing(rising(TWELVE, 10))
    days = market.histories["N01"].dates
    holed = daily("A", [1.0, 2.0, 3.0], last=days[-3])
    last = daily("B", [7.0], last=days[-1])
    whole = FarMarket({**market.histories, "A": holed, "B": last})
    panel = panel_of(make_context(whole))
    assert panel.close[panel.place["A"]].tolist()[-5:] == pytest.approx([1.0, 2.0, 3.0, np.nan, np.nan], nan_ok=True)
    assert panel.absent["A"].startswith(f"no bar of {days[-1]}")
    assert np.flatnonzero(np.isfinite(panel.close[panel.place["B"]])).tolist() == [len(panel.days) - 1]
    assert np.isnan(returns(panel, len(panel.days))).all()


def test_the_table_of_the_default_data_is_that_of_its_bars(data: ReplayData, make_context: MakeContext) -> None:
    market = ReplayMarket(data, ReplayClock(data.sessions[200]))
    panel = panel_of(make_context(market))
    assert panel.days == tuple(market.sessions(504))
    for symbol in ("IBM", "XOM", "KO"):
        bars = market.bars(symbol, 504)
        for written, table in ((bars.close, panel.close), (bars.volume, panel.volume)):
            row = table[panel.place[symbol]]
            found = {day: float(value) for day, value in zip(panel.days, row, strict=True) if np.isfinite(value)}
            assert found == dict(zip(bars.dates, written.tolist(), strict=True))
    assert not panel.close.flags.writeable


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
    panel = panel_of(make_context(ReplayMarket(data, ReplayClock(data.sessions[200]))))
    changes = np.diff(np.log(panel.close[:, -61:]), axis=1)
    usable = changes[np.isfinite(changes).all(axis=1) & (changes.std(axis=1) > 0)]
    assert len(usable) > 400
    assert universe_correlation(panel) == pytest.approx(mean_of_pairs(np.corrcoef(usable)), abs=1e-9)
    young = panel_of(make_context(ReplayMarket(data, ReplayClock(data.sessions[20]))))
    assert universe_correlation(young) is None


FIRST = dt.date(2024, 1, 1)


def panel(close: Sequence[Sequence[float]], volume: Sequence[Sequence[float]] | None = None) -> PricePanel:
    closes = np.array(close, dtype=float)
    volumes = np.ones_like(closes) if volume is None else np.array(volume, dtype=float)
    days = tuple(FIRST + dt.timedelta(days=at) for at in range(closes.shape[1]))
    return PricePanel(days, {f"N{row}": row for row in range(len(closes))}, closes, volumes, {})


def test_patterns_by_hand() -> None:
    """21 sessions: the name falls from 100 to 90 and then rises to 95 in five, or the other way round."""
    flat = [100.0] * 21
    rebound = [100.0] * 15 + [90.0, 91.0, 92.0, 93.0, 94.0, 95.0]
    setback = [100.0] * 15 + [110.0, 109.0, 108.0, 107.0, 106.0, 105.0]
    low = [100.0] * 16 + [10.0] * 5
    high = [100.0] * 16 + [900.0] * 5
    holed = [*rebound[:20], math.nan]
    codes = pattern_codes(panel([flat, rebound, setback, rebound, rebound, holed], [flat, flat, flat, low, high, flat]))
    assert (codes[:, :20] == NO_PATTERN).all(), "no 20 sessions before the 21st"
    last = codes[:, 20].tolist()
    assert [last[0], last[5]] == [NO_PATTERN, NO_PATTERN]
    assert described_pattern(last[1]) == {"shortMove": "up", "longMove": "down", "volume": "usual"}
    assert described_pattern(last[2]) == {"shortMove": "down", "longMove": "up", "volume": "usual"}
    assert described_pattern(last[3])["volume"] == "low"
    assert described_pattern(last[4])["volume"] == "high"
    assert len({tuple(described_pattern(code).items()) for code in range(12)}) == 12


def test_a_move_within_two_per_cent_is_no_pattern() -> None:
    just, beyond = ([100.0] * 15 + [90.0] + [93.0] * 4 + [90.0 * (1 + move)] for move in (0.0199, 0.0201))
    assert [code != NO_PATTERN for code in pattern_codes(panel([just, beyond]))[:, -1]] == [False, True]


def test_the_outcome_is_against_the_median_and_half_on_it() -> None:
    close = [[100, 100, 100], [100, 101, 100], [100, 102, 100], [100, math.nan, 100]]
    outcome = beat_median(panel(close).close, 1)
    assert outcome[:3, 0].tolist() == [0.0, 0.5, 1.0]
    assert math.isnan(outcome[3, 0])
    assert np.isnan(outcome[:, 2]).all(), "of the last session nothing is known yet"
    assert np.isnan(beat_median(panel(close).close, 3)).all()
    left = [[100, 100, 130], [100, 101, 101], [100, math.nan, math.nan]]
    assert beat_median(panel(left).close, 2)[:, 0].tolist() == [1.0, 0.5, 0.0], "who left counts with the last close"


def test_a_record_counts_dates_and_not_instances() -> None:
    """Three instances on one date and one on each of two others: the share by date is (1 + 0 + 0) / 3."""
    outcome = np.array([[1.0, 0.0, 1.0, math.nan], [1.0, 1.0, 0.0, math.nan], [1.0, 0.5, 0.5, math.nan]])
    mask = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 0, 0, 1]], dtype=bool)
    found = record_of(panel(np.ones((3, 4))), mask, outcome, 1)
    assert found is not None
    assert (found.instances, found.dates) == (5, 3)
    assert found.pooled == pytest.approx(3 / 5)
    assert found.share == pytest.approx(1 / 3)
    assert found.base == pytest.approx((1 + 0.5 + 0.5) / 3)
    assert found.edge.mean == pytest.approx(-1 / 3)
    assert found.interval(1) is None
    assert not found.enough


def test_no_instance_has_no_record() -> None:
    outcome = np.full((2, 3), math.nan)
    assert record_of(panel(np.ones((2, 3))), np.ones((2, 3), dtype=bool), outcome, 1) is None


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
    assert (worst.direction, worst.confidence) == ("bullish", 0.1)
    assert (best.direction, best.data["rank60"]) == ("bearish", 11)
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


def test_ties_stand_in_the_middle_of_their_ranks() -> None:
    values = np.array([1.0, 2.0, 2.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, np.nan, 8.0])
    tied, none = standing(values, 2), standing(values, 9)
    assert tied is not None
    assert (tied.rank, tied.of, tied.percentile) == (7, 10, pytest.approx(2 / 9))
    assert none is None
    top = standing(values, 10)
    assert top is not None
    assert (top.rank, top.percentile) == (1, 1.0)


ON_2010_08_12 = ["AAPL", "IBM", "XOM", "GE", "JPM", "KO", "F", "AMZN", "GS"]


def wavy(names: int, sessions: int, edge: float) -> dict[str, list[float]]:
    """Names on noisy waves of 40 sessions, each shifted by a session; one that is rising again gains `edge` a session
    more over the ten after it, so that the pattern has an edge if `edge` is large."""
    closes, draws = {}, np.random.default_rng(1)
    for name in range(names):
        prices = [100.0]
        for at in range(1, sessions):
            phase = (at + name) % 40
            slope = -0.006 if phase < 20 else 0.008 if phase < 26 else edge
            prices.append(prices[-1] * math.exp(slope + draws.normal(0, 0.006)))
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
    assert (implied(found, 0.5) or 0) > 0.5


def test_below_thirty_dates_is_not_enough(data: ReplayData, make_context: MakeContext) -> None:
    """Twenty sessions make a pattern and ten more an outcome: in October few dates have both."""
    market = ReplayMarket(data, ReplayClock(dt.date(2009, 10, 20)))
    found = harvested("temporal", board(make_context(market), *ON_2010_08_12))
    assert found
    for one in found:
        assert one.data["dates"] < 30
        assert (one.confidence, one.direction, implied(one, 0.5)) == (None, "neutral", None)
        assert one.headline.endswith("not enough")
        assert "share" not in one.data


def test_without_a_pattern_it_is_dormant(data: ReplayData, make_context: MakeContext) -> None:
    flat = closing({f"N{place:02d}": np.linspace(100, 101, 60).tolist() for place in range(12)})
    reason = dormant("temporal", board(make_context(flat), "N01", "NOPE"))
    assert reason.startswith("no symbol shows a pattern, N01, NOPE: no move beyond 2%")
    young = ReplayMarket(data, ReplayClock(data.sessions[3]))
    assert "no symbol shows a pattern" in dormant("temporal", board(make_context(young), "IBM"))


ELEVEN = [f"N{place:02d}" for place in range(1, 12)]


def swinging(move: float, sessions: int, last: float | None = None) -> list[float]:
    """Closes that rise and fall by turns by so much; the last 20 moves are of another size if `last` is given."""
    moves = [move if last is None or at < sessions - 21 else last for at in range(sessions - 1)]
    prices = [100.0]
    for at, size in enumerate(moves):
        prices.append(prices[-1] * math.exp(size if at % 2 == 0 else -size))
    return prices


def test_volatility_by_hand(make_context: MakeContext) -> None:
    """Moves of +-1 % of log price, 20 of them: their sample deviation is .01 sqrt(20/19), a year's 16.29 %."""
    closes = {name: swinging(0.01 * (place + 1), 81) for place, name in enumerate(ELEVEN)}
    closes["N01"] = swinging(0.005, 81, last=0.01)
    closes["N11"] = swinging(0.2, 81, last=0.11)
    found = {one.subjects[0]: one for one in harvested("volatility", board(make_context(closing(closes)), *ELEVEN))}
    one = found["N01"]
    assert one.data["volatility"] == round(0.01 * math.sqrt(20 / 19 * 252), 4) == 0.1629
    assert (one.data["rank"], one.data["of"]) == (11, 11)
    assert (one.data["shareBelow"], one.data["windows"], one.confidence) == (1.0, 60, 1.0)
    assert one.data["drawdown"] == round(math.exp(-0.01) - 1, 4)
    assert one.headline == (
        "N01: realised volatility 16.3% a year over 20 sessions, above 100% of its 60 own windows, rank 11 of 11; "
        "deepest fall -1.0% in 60 sessions"
    )
    assert (one.direction, implied(one, 0.5)) == ("neutral", None)
    assert (found["N11"].data["shareBelow"], found["N11"].data["rank"]) == (0.0, 1)
    assert found["N11"].data["volatility"] == pytest.approx(price_figures.volatility(np.array(closes["N11"])), abs=5e-5)


def fell(close: Floats, sessions: int) -> Floats:
    """1 where the close is lower so many sessions later, not a number where that is not known."""
    outcome = np.full(close.shape, np.nan)
    ahead = change(close, sessions)[:, sessions:]
    outcome[:, :-sessions] = np.where(np.isfinite(ahead), ahead < 0, np.nan)
    return outcome


def test_the_trap_of_the_default_data_is_not_fallen_into(data: ReplayData, make_context: MakeContext) -> None:
    """Up in 5 sessions, down in 20, on low volume: of some 1,500 instances 57 % reversed, and the Wilson interval lies
    far above the base rate of 47 %. By date it is 48 %, and nothing is shown."""
    market = ReplayMarket(data, ReplayClock(dt.date(2010, 8, 20)))
    whole = panel_of(make_context(market))
    wanted = {"shortMove": "up", "longMove": "down", "volume": "low"}
    codes = pattern_codes(whole)
    (code,) = (one for one in range(12) if described_pattern(one) == wanted)
    found = record_of(whole, codes == code, fell(whole.close, 5), 5)
    assert found is not None
    assert 1200 < found.instances < 2000
    assert found.pooled > 0.55
    naive = wilson(round(found.pooled * found.instances), found.instances)
    assert naive is not None
    assert naive.low > found.base + 0.03, "instances as if they were independent: an edge that is none"
    low, high = found.interval(1) or (1, 0)
    assert low < found.base < high
    assert found.enough
    assert found.edge.error is not None
    assert found.edge.error > 0.03
