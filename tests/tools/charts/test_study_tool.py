"""chart_study_get and price_history_get: bad input has a clear answer, and nothing is invented."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from chordesk.tools.market.protocol import Bars
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.toolsets import MAX_OUTPUT_BYTES
from tests.tools.charts.samples import apple, apple_market
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import FarMarket, daily

BARS = [{"date": "2010-05-05", "open": 1, "high": 2, "low": 1, "close": 2, "volume": 3}]
TOOLS = ("chart_study_get", "price_history_get", "chart_render")


def reasons(payload: dict[str, Any]) -> dict[tuple[str | None, str], str]:
    return {(gap.get("symbol"), gap["what"]): gap["reason"] for gap in payload["missing"]}


@pytest.mark.parametrize("tool", TOOLS)
def test_bars_of_a_model_are_refused(call: Call, tool: str) -> None:
    for name in ("bars", "prices", "ohlc"):
        answer = call(apple_market(), tool, symbols=["AAPL"], **{name: BARS})
        assert not answer.success
        assert answer.payload["error"].startswith(f"unknown argument '{name}'; known: s")
    answer = call(apple_market(), tool, symbols=BARS)
    assert "argument 'symbols.0' is {'date'" in answer.payload["error"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_symbol_without_bars_is_missing(call: Call, tool: str) -> None:
    answer = call(apple_market(), tool, symbols=["NOPE"])
    assert (answer.success, answer.has_data, answer.image) == (True, False, None)
    assert answer.payload["available"] is False
    assert reasons(answer.payload) == {("NOPE", "bars"): "unknown symbol NOPE"}
    assert [answer.payload[key] for key in ("studies", "histories", "charts") if key in answer.payload] == [[]]
    both = call(apple_market(), tool, symbols=["NOPE", "AAPL"])
    assert both.has_data
    assert reasons(both.payload) == {("NOPE", "bars"): "unknown symbol NOPE"}


def test_ten_bars_have_no_figure_that_needs_more(call: Call) -> None:
    market = FarMarket({"X": daily("X", [10, 11, 12, 11, 10, 9, 10, 11, 12, 13])})
    answer = call(market, "chart_study_get", symbols=["X"])
    (row,) = answer.payload["studies"]
    assert (row["bars"], row["close"], row["swings"], row["confluence"]) == (10, 13, [], [])
    for name in ("atr14", "adx14", "fib", "support", "resistance", "trendlines", "trend", "extension", "patterns"):
        assert row[name] is None, name
    assert reasons(answer.payload) == {
        (None, "history"): "1 of 1 symbols have fewer than 126 sessions of history",
        ("X", "swings, fib, levels, trendlines"): "a swing of lookback 5 needs 11 sessions; there are 10",
        ("X", "atr14"): "needs 15 sessions; there are 10",
        ("X", "adx14"): "needs 28 sessions; there are 10",
        ("X", "trend"): "needs 63 sessions; there are 10",
        ("X", "patterns"): "needs 40 sessions; there are 10",
    }
    closer = call(market, "chart_study_get", symbols=["X"], lookback=2).payload["studies"][0]
    assert [one["price"] for one in closer["swings"]] == [12, 9]
    assert closer["support"] is None, "without an average true range nothing is near or far"


def test_a_flat_line_has_no_trend_and_no_level(call: Call) -> None:
    answer = call(FarMarket({"X": daily("X", [50.0] * 420)}), "chart_study_get", symbols=["X"])
    (row,) = answer.payload["studies"]
    assert (row["atr14"], row["swings"], row["confluence"]) == (0, [], [])
    for name in ("adx14", "fib", "support", "resistance", "trendlines", "trend", "extension"):
        assert row[name] is None, name
    assert reasons(answer.payload) == {
        ("X", "fib, levels, trendlines"): "no swing in 126 sessions",
        ("X", "adx14"): "the price never moved",
        ("X", "trend"): "the price never moved",
    }


def test_a_split_in_the_middle_is_named_and_no_level_crosses_it(call: Call) -> None:
    rng = np.random.default_rng(5)
    close = np.r_[200 + 8 * rng.random(330), 100 + 4 * rng.random(90)]
    dates = daily("X", close).dates
    bars = Bars("X", dates, False, close, close + 1, close - 1, close.copy(), np.ones(len(close)))
    answer = call(FarMarket({"X": bars}), "chart_study_get", symbols=["X"])
    (row,) = answer.payload["studies"]
    assert (row["bars"], row["from"]) == (90, str(dates[330]))
    prices = [one["price"] for one in (*row["support"], *row["resistance"], *row["swings"])]
    assert len(prices) > 5
    assert all(98 < price < 106 for price in prices)
    assert row["fib"]["high"]["price"] < 106
    found = reasons(answer.payload)
    assert found["X", "split adjustment"].endswith("the source does not say whether that was a split")
    assert found["X", "bars before that move"].startswith("left out: only the 90 sessions from ")


def test_figures_go_across_a_few_missing_sessions_of_the_replay(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "chart_study_get", symbols=["AAPL", "IBM"])
    rows = {row["symbol"]: row for row in answer.payload["studies"]}
    there = len(set(market.bars("AAPL", 126).dates) & set(market.sessions(126)))
    assert 126 > rows["AAPL"]["bars"] == there
    assert rows["IBM"]["bars"] == 126
    lacking = f"of the last 126: {126 - there} of AAPL; figures are of the others"
    assert reasons(answer.payload)[None, "missing sessions"] == lacking


def test_sections_are_what_was_asked_for(make_context: MakeContext, call: Call) -> None:
    context = make_context(apple_market())
    (row,) = call(context, "chart_study_get", symbols=["AAPL"], sections=["trend"]).payload["studies"]
    assert row.keys() == {"symbol", "interval", "bars", "from", "to", "close", "atr14", "adx14", "trend", "extension"}
    (row,) = call(context, "chart_study_get", symbols=["AAPL"], sections=["levels"], levels=2).payload["studies"]
    assert [one["id"] for one in row["support"]] == ["S1", "S2"]
    answer = call(context, "chart_study_get", symbols=["AAPL"], sections=[])
    assert answer.payload["error"].startswith("argument 'sections' is []")


def test_the_most_symbols_and_rows_fit_in_one_answer(market: ReplayMarket, call: Call) -> None:
    symbols = [listing.symbol for listing in market.universe("sp500")][:30]
    rows = call(market, "price_history_get", symbols=symbols[:20], sessions=32)
    assert rows.has_data
    assert 0 < len(rows.text().encode()) < MAX_OUTPUT_BYTES
    answer = call(market, "chart_study_get", symbols=symbols, sections=["levels", "trend"])
    assert answer.has_data
    assert len(answer.text().encode()) < MAX_OUTPUT_BYTES
    whole = call(market, "chart_study_get", symbols=symbols[:12])
    assert whole.has_data


def test_the_bars_themselves(call: Call) -> None:
    answer = call(apple_market(), "price_history_get", symbols=["AAPL"], sessions=30)
    assert answer.payload["columns"] == ["date", "open", "high", "low", "close", "volume"]
    (found,) = answer.payload["histories"]
    assert (found["adjusted"], len(found["rows"])) == (False, 30)
    last = apple()
    assert found["rows"][-1] == ["2010-05-05", 253.03, 258.14, 248.73, 255.985, int(last.volume[-1])]
    weeks = call(apple_market(), "price_history_get", symbols=["AAPL"], sessions=30, interval="week")
    (found,) = weeks.payload["histories"]
    assert (len(found["rows"]), found["weekIncomplete"]) == (6, True)
    assert found["rows"][-1][:2] == ["2010-05-05", float(last.open[-3])]


def test_more_rows_than_fit_are_refused_before_any_is_read(make_context: MakeContext, call: Call) -> None:
    context = make_context(FarMarket(trouble={"A": RuntimeError("asked")}))
    answer = call(context, "price_history_get", symbols=["A", "B"], sessions=504)
    assert answer.payload["error"] == (
        "2 symbols of 504 sessions are 1008 rows, more than 640 (ask for fewer symbols or sessions, or for weeks; "
        "chart_study_get has the figures of long periods)"
    )


def test_a_session_without_a_bar_has_no_row(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "price_history_get", symbols=["AAPL"], sessions=60)
    (found,) = answer.payload["histories"]
    sessions = set(market.sessions(60))
    held = [str(day) for day in market.bars("AAPL", 60).dates if day in sessions]
    assert len(held) < 60
    assert [row[0] for row in found["rows"]] == held
    assert (None, "missing sessions") in reasons(answer.payload)
