"""The table of a universe: built once a session, whole, and again while a source is away."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.board import price_panel as prices_panel
from chordesk.tools.board.price_panel import panel_of, returns
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
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
