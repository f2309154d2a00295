"""The table of a universe: built once a session, whole, and again while a source is away."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.board import price_panel as prices_panel
from chordesk.tools.board.price_panel import (
    NO_PATTERN,
    PricePanel,
    beat_median,
    change,
    correlations,
    described_pattern,
    log_returns,
    mean_of_pairs,
    panel_of,
    pattern_codes,
    record_of,
    returns,
    universe_correlation,
)
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.scoring.statistics import wilson
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, harvested
from tests.tools.harvest.prices.closes import closing, rising
from tests.tools.market.far_market import FarMarket, daily

NAMES = [f"N{place:02d}" for place in range(1, 13)]


def test_four_harvesters_read_each_name_once(make_context: MakeContext) -> None:
    asked: Counter[str] = Counter()
    market = closing(rising(NAMES, 90))
    market.before = lambda symbol: asked.update([symbol])
    context = board(make_context(market), "N01", "N12")
    for tool in ("momentum", "reversal", "temporal", "volatility"):
        harvested(tool, context)
    assert set(asked.values()) == {1}
    market.clock.day = market.clock.day.replace(day=16)
    panel_of(context)
    assert set(asked.values()) == {2}, "another session is another table"


def test_harvesters_that_start_together_ask_once(make_context: MakeContext) -> None:
    asked: Counter[str] = Counter()
    market = closing(rising(NAMES, 90))

    def slowly(symbol: str) -> None:
        asked.update([symbol])
        time.sleep(0.01)

    market.before = slowly
    context = board(make_context(market), "N01")
    with ThreadPoolExecutor(4) as threads:
        panels = list(threads.map(lambda _: panel_of(context), range(4)))
    assert set(asked.values()) == {1}
    assert all(panel is panels[0] for panel in panels)


def test_a_table_without_what_a_source_failed_to_give_is_built_again_later(
    make_context: MakeContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    market = closing(rising(NAMES, 90))
    market.trouble = {"N02": MarketUnavailable("away")}
    context = board(make_context(market), "N01")
    first = panel_of(context)
    assert first.absent == {"N02": "away"}
    assert np.isnan(first.close[first.place["N02"]]).all()
    assert panel_of(context) is first, "kept for a while: the others of the same board do not wait for it again"
    monkeypatch.setattr(prices_panel, "AWAY_SECONDS", -1.0)
    later = board(make_context(closing(rising(NAMES, 90))), "N01")
    later.tool.market.trouble = {"N02": MarketUnavailable("away")}  # type: ignore[attr-defined]
    assert panel_of(later).absent == {"N02": "away"}
    later.tool.market.trouble = {}  # type: ignore[attr-defined]
    whole = panel_of(later)
    assert whole.absent == {}
    later.tool.market.trouble = {"N03": MarketError("gone")}  # type: ignore[attr-defined]
    assert panel_of(later) is whole


def test_without_any_bar_the_market_s_own_failure_shows(make_context: MakeContext) -> None:
    market = closing(rising(NAMES, 90))
    market.trouble = {name: MarketError(f"no bars of {name}") for name in NAMES}
    with pytest.raises(MarketError, match="no bars of N01"):
        panel_of(board(make_context(market), "N01"))
    market.trouble |= {"N07": MarketUnavailable("the source is away")}
    with pytest.raises(MarketUnavailable, match="the source is away"):
        panel_of(board(make_context(market), "N01"))


def test_a_bar_stands_in_the_column_of_its_session(make_context: MakeContext) -> None:
    """A has a bar of a day that is no session of the market, and lacks one of a day that is."""
    market = closing(rising(NAMES, 10))
    days = market.histories["N01"].dates
    holed = daily("A", [1.0, 2.0, 3.0], last=days[-3])
    last = daily("B", [7.0], last=days[-1])
    whole = FarMarket({**market.histories, "A": holed, "B": last})
    panel = panel_of(board(make_context(whole)))
    assert panel.close[panel.place["A"]].tolist()[-5:] == pytest.approx([1.0, 2.0, 3.0, np.nan, np.nan], nan_ok=True)
    assert panel.absent["A"].startswith(f"no bar of {days[-1]}")
    assert np.flatnonzero(np.isfinite(panel.close[panel.place["B"]])).tolist() == [len(panel.days) - 1]
    assert np.isnan(returns(panel, len(panel.days))).all()


def test_the_table_of_the_default_data_is_that_of_its_bars(data: ReplayData, make_context: MakeContext) -> None:
    market = ReplayMarket(data, ReplayClock(data.sessions[200]))
    panel = panel_of(board(make_context(market)))
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
    panel = panel_of(board(make_context(ReplayMarket(data, ReplayClock(data.sessions[200])))))
    changes = np.diff(np.log(panel.close[:, -61:]), axis=1)
    usable = changes[np.isfinite(changes).all(axis=1) & (changes.std(axis=1) > 0)]
    assert len(usable) > 400
    assert universe_correlation(panel) == pytest.approx(mean_of_pairs(np.corrcoef(usable)), abs=1e-9)
    young = panel_of(board(make_context(ReplayMarket(data, ReplayClock(data.sessions[20])))))
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
    # differences to the base: 0, -.5, -.5; three blocks: sqrt(sum of squared deviations * 3 / 2) / 3
    deviations = np.array([0.0, -0.5, -0.5]) + 1 / 3
    assert found.error == pytest.approx(math.sqrt((deviations**2).sum() * 3 / 2) / 3)
    reach = 1.959964 * found.error
    assert found.interval(1) == (pytest.approx(1 / 3 - reach), pytest.approx(1 / 3 + reach))
    wider = found.interval(5)
    assert wider is not None
    assert wider[1] == pytest.approx(1 / 3 + 2.575829 * found.error), "1 % for each of five is 5 % for all"
    assert not found.enough


def test_dates_within_a_horizon_are_one_block() -> None:
    """Outcomes of four dates, two sessions ahead: dates 0 and 1 overlap, and so do 2 and 3."""
    outcome = np.array([[1.0, 1.0, 0.0, 0.0, math.nan, math.nan], [0.0, 0.0, 1.0, 1.0, math.nan, math.nan]])
    mask = np.array([[1] * 6, [0] * 6], dtype=bool)
    apart = record_of(panel(np.ones((2, 6))), mask, outcome, 1)
    overlapping = record_of(panel(np.ones((2, 6))), mask, outcome, 2)
    assert apart is not None
    assert overlapping is not None
    assert apart.error == pytest.approx(math.sqrt(4 * 0.25 * 4 / 3) / 4)
    assert overlapping.error == pytest.approx(math.sqrt(2 * 1.0 * 2) / 4)
    one = record_of(panel(np.ones((2, 6))), mask, outcome, 6)
    assert one is not None
    assert one.error is None
    assert one.interval(1) is None


def test_no_instance_has_no_record() -> None:
    outcome = np.full((2, 3), math.nan)
    assert record_of(panel(np.ones((2, 3))), np.ones((2, 3), dtype=bool), outcome, 1) is None


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
    whole = panel_of(board(make_context(market)))
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
    assert found.error is not None
    assert found.error > 0.03


def test_only_outcomes_known_by_now_count(data: ReplayData, make_context: MakeContext) -> None:
    """The record of a day is that of the whole data cut at this day's columns."""
    early, late = (
        panel_of(board(make_context(ReplayMarket(data, ReplayClock(day))), "AAPL"))
        for day in (dt.date(2010, 4, 1), dt.date(2010, 8, 20))
    )
    known = len(early.days)
    assert late.days[:known] == early.days
    outcome = beat_median(early.close, 10)
    assert np.isnan(outcome[:, -10:]).all()
    assert np.isfinite(outcome[early.place["AAPL"], -11])
    cut = dataclasses.replace(late, days=late.days[:known], close=late.close[:, :known], volume=late.volume[:, :known])
    row, cut_row = early.place["AAPL"], late.place["AAPL"]
    assert pattern_codes(early)[row].tolist() == pattern_codes(cut)[cut_row].tolist()
