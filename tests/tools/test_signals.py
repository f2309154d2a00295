""""""

from __future__ import annotations

import datetime as dt
import time

import numpy as np
import pytest
import talib

from chordesk.models.errors import MarketUnavailable
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.prices import history_of
from chordesk.tools.market.protocol import Bars
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.model_tools.signals import (
    SignalsArguments,
    exact_signals,
    signal_rows,
    signals_get,
    symbol_signals,
)
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import Budget
from chordesk.tools.registry import Gaps, payload
from tests.tools.conftest import Call, MakeContext, Raw
from tests.tools.market.far_market import TODAY, FarMarket, daily, slow


def test_the_figures_of_one_symbol(market: ReplayMarket, raw: Raw, call: Call) -> None:
    answer = call(market, "signals_get", symbols=["ibm "])
    assert answer.has_data
    (row,) = answer.payload["signals"]
    days = sorted(day for day in raw["IBM"] if day <= dt.date(2010, 8, 12))
    assert days == list(market.sessions(252)), "it has no hole"
    close = [raw["IBM"][day].close for day in days]
    assert (row["symbol"], row["date"], row["sessions"]) == ("IBM", "2010-08-12", len(days))
    assert row["close"] == close[-1]
    assert row["change"] == round(close[-1] / close[-2] - 1, 4)
    assert row["momentum20"] == round(close[-1] / close[-21] - 1, 4)
    assert row["momentum60"] == round(close[-1] / close[-61] - 1, 4)
    assert row["gap"] == round(raw["IBM"][days[-1]].open / close[-2] - 1, 4)
    volumes = [raw["IBM"][day].volume for day in days]
    assert row["volumeRatio"] == round(volumes[-1] / (sum(volumes[-21:-1]) / 20), 2)
    assert row["fromHigh"] == round(close[-1] / max(raw["IBM"][day].high for day in days) - 1, 4)
    assert row["highSessions"] == len(days) == 240
    assert row["sma50"] == round(close[-1] / (sum(close[-50:]) / 50) - 1, 4)
    assert row["rsi14"] == round(price_figures.rsi(np.array(close)) or -1, 2)
    assert row["drawdown60"] == round(price_figures.drawdown(np.array(close)) or 1, 4)
    assert row["volatility20"] == round(price_figures.volatility(np.array(close)) or -1, 4)


def test_signals_name_a_session_that_the_market_lacks(data: ReplayData, call: Call) -> None:
    """The data have no bar of 2010-08-18: the day after it there is no change of a day, and what spans it is named."""
    after, later = (ReplayMarket(data, ReplayClock(dt.date(2010, 8, day))) for day in (19, 20))
    line = "no bar of any name of 2010-08-18: a figure across them spans more days than it says"
    for market, changed in ((after, False), (later, True)):
        answer = call(market, "signals_get", symbols=["IBM"])
        (row,) = answer.payload["signals"]
        known = [row[name] is not None for name in ("change", "gap", "momentum20")]
        assert known == [changed, changed, True]
        assert {"what": "exchange sessions", "reason": line} in answer.payload["missing"]
    before = ReplayMarket(data, ReplayClock(dt.date(2010, 8, 17)))
    assert call(before, "signals_get", symbols=["IBM"]).payload["missing"] == []


LAPSED = ["CHRW", "ISRG", "MSFT", "MYL", "NTAP", "WIN", "WYNN"]


def test_a_name_without_the_latest_session_is_missing(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "signals_get", symbols=["IBM", *LAPSED])
    assert [row["symbol"] for row in answer.payload["signals"]] == ["IBM"]
    reason = "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"
    assert answer.payload["missing"] == [{"symbol": symbol, "what": "bars", "reason": reason} for symbol in LAPSED]


def holed(symbol: str, close: list[float], *back: int) -> Bars:
    """Daily bars without those of so many sessions ago."""
    bars = daily(symbol, close)
    kept = [place for place in range(len(close)) if len(close) - 1 - place not in back]
    figures = (getattr(bars, name)[kept] for name in ("open", "high", "low", "close", "volume"))
    return Bars(symbol, [bars.dates[place] for place in kept], True, *figures)


def test_a_figure_is_of_the_sessions_that_are_there_where_at_most_a_tenth_are_not(call: Call) -> None:
    close = [100 + session % 7 for session in range(80)]
    whole = daily("WHOLE", close)
    some = {"X": (10,), "Y": (1,), "TORN": (3, 6, 9), "OLD": (70,), "BASE": (20,)}
    market = FarMarket({"WHOLE": whole, **{name: holed(name, close, *back) for name, back in some.items()}})
    answer = call(market, "signals_get", symbols=list(some))
    rows = {row["symbol"]: row for row in answer.payload["signals"]}
    kept = np.delete(np.array(close[-21:], dtype=float), -11)  # without the hole of X
    # The ends of a momentum are known, whatever lies between them; without the first, it is from the next one.
    assert rows["X"]["momentum20"] == round(close[-1] / close[-21] - 1, 4)
    assert rows["BASE"]["momentum20"] == round(close[-1] / close[-20] - 1, 4)
    assert rows["X"]["sma20"] == round(close[-1] / kept[1:].mean() - 1, 4)
    assert rows["X"]["volatility20"] == round(np.diff(np.log(kept)).std(ddof=1) * 252**0.5, 4)
    assert None not in rows["X"].values()
    assert (rows["X"]["sessions"], rows["X"]["highSessions"]) == (79, 79)
    assert (rows["Y"]["change"], rows["Y"]["gap"]) == (None, None)
    # Three of 21 sessions are more than a tenth, three of 60 are not.
    assert [rows["TORN"][name] for name in ("rsi14", "volatility20", "volumeRatio", "sma20")] == [None] * 4
    assert None not in [rows["TORN"][name] for name in ("drawdown60", "sma50")]
    assert answer.payload["missing"] == [
        {
            "what": "missing sessions",
            "reason": "of the last 61: 1 of X, 1 of Y, 3 of TORN, 1 of BASE; figures are of the others",
        }
    ]


def test_the_high_is_of_252_sessions_at_most_and_names_their_number(call: Call) -> None:
    market = FarMarket({"X": daily("X", [900.0, *[100.0] * 255]), "YOUNG": daily("YOUNG", [200.0, *[100.0] * 29])})
    rows = call(market, "signals_get", symbols=["X", "YOUNG"]).payload["signals"]
    assert [(row["highSessions"], row["fromHigh"]) for row in rows] == [(252, 0.0), (30, -0.5)]


def test_a_move_like_a_split_is_pointed_out(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "signals_get", symbols=["DHR", "IBM"])
    (row,) = answer.payload["missing"]
    assert (row["symbol"], row["what"]) == ("DHR", "split adjustment")
    assert "-50% on 2010-06-14" in row["reason"]
    adjusted = FarMarket({"X": daily("X", [100, 50])})
    assert call(adjusted, "signals_get", symbols=["X"]).payload["missing"] == []


def test_all_names_are_answered_and_a_second_time_from_memory(data: ReplayData, make_context: MakeContext) -> None:
    context = make_context(ReplayMarket(data, ReplayClock(dt.date(2010, 8, 11))))
    symbols = list(data.symbols)
    shards = [SignalsArguments(symbols=symbols[at : at + 131]) for at in range(0, len(symbols), 131)]
    first, again = ([signals_get(context, shard) for shard in shards] for _ in range(2))
    assert again == first
    assert sum(len(answer["signals"]) for answer in first) >= 490
    (kept,), (same,) = signal_rows(context, symbols[:1], Gaps()), signal_rows(context, symbols[:1], Gaps())
    assert kept is same


def test_a_new_session_is_computed_anew(make_context: MakeContext, call: Call) -> None:
    histories = {"X": daily("X", [100, 110])}
    market = FarMarket(histories)
    context = make_context(market)
    assert call(context, "signals_get", symbols=["X"]).payload["signals"][0]["change"] == 0.1
    market.clock.day = TODAY + dt.timedelta(days=1)
    histories["X"] = daily("X", [100, 110, 55], market.clock.day)
    assert call(context, "signals_get", symbols=["X"]).payload["signals"][0]["change"] == -0.5


def test_a_long_list_states_once_what_most_symbols_have_alike(
    market: ReplayMarket, make_context: MakeContext, call: Call
) -> None:
    context = make_context(market)
    symbols = [listing.symbol for listing in market.universe("sp500")][:140]
    whole_answer = call(context, "signals_get", symbols=symbols)
    assert len(whole_answer.text()) < 36_000
    assert call(context, "technicals_get", symbols=symbols).success
    answer = whole_answer.payload
    assert answer["each"] == {"date": "2010-08-12", "sessions": 240, "highSessions": 240}
    whole = signal_rows(context, symbols, Gaps())
    assert [{**answer["each"], **row} for row in answer["signals"]] == whole
    own = [row for row in answer["signals"] if "sessions" in row]
    assert 0 < len(own) < len(whole) / 2
    assert "each" not in call(context, "signals_get", symbols=symbols[:5]).payload


def test_a_slow_source_is_answered_in_part(make_context: MakeContext, call: Call) -> None:
    names = [f"S{number}" for number in range(8)]
    market = FarMarket({name: daily(name, [1, 2]) for name in names}, before=slow(0.5))
    answer = call(make_context(market, tool_seconds=2), "signals_get", symbols=names)
    found = [row["symbol"] for row in answer.payload["signals"]]
    assert 0 < len(found) < len(names)
    assert found == names[: len(found)]
    assert [row["symbol"] for row in answer.payload["missing"]] == names[len(found) :]
    assert "ask for fewer symbols" in answer.payload["missing"][0]["reason"]


def test_the_budget_runs_out(make_context: MakeContext) -> None:
    budget = Budget(make_context(FarMarket(), tool_seconds=0.1))
    budget.spend()
    time.sleep(0.1)
    with pytest.raises(MarketUnavailable, match="not fetched in time"):
        budget.spend()


def test_missing_data_is_reported_once(make_context: MakeContext) -> None:
    gaps = Gaps()
    gaps.add("bars", "first", "A")
    gaps.add("bars", "second", "A")
    gaps.add("bars", "of B", "B")
    gaps.add("sector", "of all")
    assert gaps.only({"A"}) == 1
    answer = payload(make_context(FarMarket()), gaps, available=True, rows=[])
    assert answer["missing"] == [
        {"symbol": "A", "what": "bars", "reason": "first"},
        {"what": "sector", "reason": "of all"},
    ]


def test_an_answer_may_have_a_field_by_the_name_of_an_argument(make_context: MakeContext) -> None:
    answer = payload(make_context(FarMarket()), Gaps(), available=True, gaps=[1], context=2)
    assert (answer["gaps"], answer["context"], answer["missing"]) == ([1], 2, [])


def test_signals_of_one_bar() -> None:
    signals = symbol_signals(history_of(daily("X", [10]), [TODAY]))
    assert (signals.close, signals.sessions, signals.from_high) == (10, 1, 0)
    assert signals.change is None
    assert signals.gap is None


def test_a_bar_of_a_day_that_is_no_session_is_left_out() -> None:
    bars = daily("X", [1.0, 2.0, 3.0, 4.0])
    found = history_of(bars, [day for place, day in enumerate(bars.dates) if place != 1])
    assert found.bars.close.tolist() == found.spread.close.tolist() == found.run.close.tolist() == [1.0, 3.0, 4.0]


def test_the_indicators_are_ta_lib_s(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "technicals_get", symbols=["IBM"])
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
    (signals,) = call(market, "signals_get", symbols=["IBM"]).payload["signals"]
    assert row["rsi14"] == pytest.approx(signals["rsi14"], abs=0.01)


def test_a_year_s_extremes_need_a_year(market: ReplayMarket, call: Call) -> None:
    answer = call(market, "technicals_get", symbols=["IBM", "MMM"])
    assert {row["high252"] for row in answer.payload["technicals"]} == {None}
    lost, short = answer.payload["missing"]
    assert lost["what"] == "exchange sessions"
    assert lost["reason"].startswith("no bar of any name of 2009-09-08, 2009-10-29, 2009-10-30, 2009-11-02, ")
    assert short["what"] == "high252, low252"
    assert short["reason"] == "2 of 2 symbols have fewer than 252 sessions of history"
    long = FarMarket({"X": daily("X", np.r_[500.0, np.linspace(100, 200, 252)])})
    (row,) = call(long, "technicals_get", symbols=["X"]).payload["technicals"]
    assert (row["high252"], row["low252"]) == (500, 100)  # the first of the 252 opened at 500


def test_a_rule_judges_by_more_digits_than_are_told() -> None:
    """A rise of 5.002 % is above 5 %, though it is told as 5 %; the noise of a division is not."""
    for last, exact, told in ((105.002, 0.05002, 0.05), (105.0, 0.05, 0.05)):
        history = history_of(daily("X", [100, last]), [TODAY - dt.timedelta(days=1), TODAY])
        assert exact_signals(history).change == exact
        assert symbol_signals(history).change == told
    assert 105 / 100 - 1 != 0.05
