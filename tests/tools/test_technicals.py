from __future__ import annotations

import numpy as np
import pytest
import talib

from chordesk.tools.market.prices import history_of
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import FarMarket, daily


def test_the_indicators_are_ta_lib_s(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(market), "technicals_get", symbols=["IBM"])
    assert answer.has_data
    (row,) = answer.payload["technicals"]
    bars = market.bars("IBM", 400)
    close = bars.close
    assert row["sma20"] == pytest.approx(close[-20:].mean(), abs=1e-3)
    assert row["sma50"] == pytest.approx(close[-50:].mean(), abs=1e-3)
    assert row["sma200"] == pytest.approx(close[-200:].mean(), abs=1e-3)
    width = 2 * close[-20:].std()
    assert row["bollingerUpper"] == pytest.approx(close[-20:].mean() + width, abs=1e-3)
    assert row["bollingerLower"] == pytest.approx(close[-20:].mean() - width, abs=1e-3)
    assert row["ema26"] == pytest.approx(talib.EMA(close, 26)[-1], abs=1e-3)
    assert row["macd"] == pytest.approx(talib.MACD(close)[0][-1], abs=1e-3)
    assert row["macdSignal"] == pytest.approx(talib.MACD(close)[1][-1], abs=1e-3)
    assert row["atr14"] == pytest.approx(talib.ATR(bars.high, bars.low, close)[-1], abs=1e-3)
    assert row["adx14"] == pytest.approx(talib.ADX(bars.high, bars.low, close)[-1], abs=1e-3)
    (signals,) = call(make_context(market), "signals_get", symbols=["IBM"]).payload["signals"]
    assert row["rsi14"] == pytest.approx(signals["rsi14"], abs=0.01)


def test_a_year_s_extremes_need_a_year(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(market), "technicals_get", symbols=["IBM", "MMM"])
    assert {row["high252"] for row in answer.payload["technicals"]} == {None}
    lost, short = answer.payload["missing"]
    assert lost["what"] == "exchange sessions"
    assert lost["reason"].startswith("no bar of any name of 2009-09-08, 2009-10-29, 2009-10-30, 2009-11-02, ")
    assert short["what"] == "high252, low252"
    assert short["reason"] == "2 of 2 symbols have fewer than 252 sessions of history"
    long = FarMarket({"X": daily("X", np.r_[500.0, np.linspace(100, 200, 252)])})
    (row,) = call(make_context(long), "technicals_get", symbols=["X"]).payload["technicals"]
    assert (row["high252"], row["low252"]) == (500, 100)  # the first of the 252 opened at 500


def test_indicators_begin_after_the_last_hole(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    answer = call(make_context(market), "technicals_get", symbols=["AAPL", "WYNN"])
    (row,) = answer.payload["technicals"]
    bars = market.bars("AAPL", 400)
    run = history_of(bars, market.sessions(400)).run
    assert 1 < len(run) < 20 < len(bars), "it lacks a session of the last month"
    assert (row["sma20"], row["bollingerUpper"], row["macd"]) == (None, None, None)
    reasons = {(gap.get("symbol"), gap["what"]): gap["reason"] for gap in answer.payload["missing"]}
    assert reasons[None, "sessions"] == "no bar of some of the last 200, and no figure across them, of AAPL"
    assert reasons["WYNN", "bars"].startswith("no bar of 2010-08-12")


def test_a_short_history_gives_nulls(make_context: MakeContext, call: Call) -> None:
    market = FarMarket({"X": daily("X", [10, 11])})
    (row,) = call(make_context(market), "technicals_get", symbols=["X"]).payload["technicals"]
    assert row["close"] == 11
    known = {name for name, value in row.items() if value is not None}
    assert known == {"symbol", "date", "close"}


def test_a_whole_shard_fits(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    symbols = [listing.symbol for listing in market.universe("sp500")][:150]
    assert call(make_context(market), "technicals_get", symbols=symbols).success
