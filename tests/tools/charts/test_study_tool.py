"""chart_study_get and price_history_get: bad input has a clear answer, and nothing is invented."""

from __future__ import annotations

from typing import Any

from tests.tools.charts.samples import apple, apple_market
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import FarMarket, daily

BARS = [{"date": "2010-05-05", "open": 1, "high": 2, "low": 1, "close": 2, "volume": 3}]
TOOLS = ("chart_study_get", "price_history_get", "chart_render")


def reasons(payload: dict[str, Any]) -> dict[tuple[str | None, str], str]:
    return {(gap.get("symbol"), gap["what"]): gap["reason"] for gap in payload["missing"]}


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


def test_sections_are_what_was_asked_for(make_context: MakeContext, call: Call) -> None:
    context = make_context(apple_market())
    (row,) = call(context, "chart_study_get", symbols=["AAPL"], sections=["trend"]).payload["studies"]
    assert row.keys() == {"symbol", "interval", "bars", "from", "to", "close", "atr14", "adx14", "trend", "extension"}
    (row,) = call(context, "chart_study_get", symbols=["AAPL"], sections=["levels"], levels=2).payload["studies"]
    assert [one["id"] for one in row["support"]] == ["S1", "S2"]
    answer = call(context, "chart_study_get", symbols=["AAPL"], sections=[])
    assert answer.payload["error"].startswith("argument 'sections' is []")


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
