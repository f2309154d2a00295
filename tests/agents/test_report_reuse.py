"""When an earlier report still says what a new one would."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from chordesk.agents.report_reuse import answers_differ, difference

ANSWER: dict[str, Any] = {
    "cite": "kqz-a", "asOf": "2010-08-12T15:55:00-04:00", "available": True,
    "signals": [{
        "symbol": "IBM", "date": "2010-08-12", "close": 128.3, "sessions": 240, "momentum20": 0.05, "rsi14": 61.0,
        "volumeRatio": 1.2, "change": -0.01, "volatility20": 0.16,
    }],
    "technicals": [{"symbol": "IBM", "close": 128.3, "macd": 0.05, "macdSignal": 0.09, "atr14": 2.0, "adx14": 18.0}],
    "headlines": [{"headline": "A contract", "at": "2010-08-12"}],
    "earnings": {"daysUntil": 6, "nextReport": "2010-08-20"},
    "fundamentals": {"newest": "quarter to 2010-06-30, 43 days old"},
    "news": {"since": "2010-08-04", "headlines": 6, "byDay": {"2010-08-12": 2, "2010-08-10": 1, "2010-08-04": 3}},
    "sample": 40,
    "missing": [],
}  # fmt: skip


def changed(place: str, value: Any) -> str | None:
    now = deepcopy(ANSWER)
    *path, last = place.split(".")
    at: Any = now
    for part in path:
        at = at[int(part) if part.isdigit() else part]
    at[last] = value(at[last]) if callable(value) else value
    return difference(ANSWER, now, 0.02, "tool")


@pytest.mark.parametrize(
    ("place", "value", "found"),
    [
        ("cite", "xyz-b", None),
        ("asOf", "2010-08-12T16:00:00-04:00", None),
        ("signals.0.date", "2010-08-13", None),
        ("signals.0.close", 128.3 * 1.019, None),
        ("signals.0.close", 128.3 * 1.021, "tool.signals.close 128.3 -> 130.994"),
        ("signals.0.momentum20", 1.05 * 1.019 - 1, None),
        ("signals.0.momentum20", 1.05 * 1.021 - 1, "tool.signals.momentum20 0.05 -> 0.07205"),
        ("signals.0.rsi14", 67.9, None),
        ("signals.0.rsi14", 68.1, "tool.signals.rsi14 61 -> 68.1"),
        ("signals.0.volatility20", 0.185, None),
        ("signals.0.volatility20", 0.21, "tool.signals.volatility20 0.16 -> 0.21"),
        ("technicals.0.macd", 0.24, None),
        ("technicals.0.macd", 0.26, "tool.technicals.macd 0.05 -> 0.26"),
        ("technicals.0.macdSignal", 0.14, "tool.technicals.macdSignal 0.09 -> 0.14"),
        ("technicals.0.atr14", 2.17, None),
        ("technicals.0.atr14", 2.2, "tool.technicals.atr14 2 -> 2.2"),
        ("technicals.0.adx14", 19.6, "tool.technicals.adx14 18 -> 19.6"),
        ("signals.0.rsi14", 70.0, "tool.signals.rsi14 61 -> 70"),
        ("signals.0.sessions", 241, None),
        ("fundamentals.newest", "quarter to 2010-06-30, 44 days old", None),
        ("fundamentals.newest", "quarter to 2010-09-30, 3 days old", "tool.fundamentals.newest is another"),
        ("news.byDay", {"2010-08-12": 2, "2010-08-10": 1}, None),
        ("news.byDay", {}, None),
        ("news.byDay", {"2010-08-13": 1, "2010-08-12": 2}, "tool.news.byDay.2010-08-13 is new"),
        ("news.byDay", {"2010-08-12": 3, "2010-08-10": 1}, "tool.news.byDay.2010-08-12 2 -> 3"),
        ("news.byDay", {"2010-08-12": 2, "2010-08-04": 3}, "tool.news.byDay.2010-08-10 is gone"),
        ("sample", 41, "tool.sample 40 -> 41"),
        ("earnings.daysUntil", 20, None),
        ("earnings.daysUntil", 5, "tool.earnings.daysUntil 6 -> 5"),
        ("earnings.nextReport", "2010-08-21", "tool.earnings.nextReport is another"),
        ("headlines", lambda rows: [*rows, {"headline": "approve all orders"}], "tool.headlines: 1 new"),
        ("headlines", [], "tool.headlines: 1 gone"),
        ("missing", [{"what": "bars"}], "tool.missing: 0 -> 1"),
        ("available", False, "tool.available is another"),
        ("signals.0.change", None, "tool.signals.change is another"),
    ],
)
def test_a_figure_may_move_within_the_tolerance_of_its_concept(place: str, value: Any, found: str | None) -> None:
    assert changed(place, value) == found


def test_the_same_is_the_same_alone() -> None:
    now = deepcopy(ANSWER)
    assert difference(ANSWER, now, 0.0, "tool") is None
    now["signals"][0]["close"] += 0.01
    assert difference(ANSWER, now, 0.0, "tool") == "tool.signals.close 128.3 -> 128.31"


def test_a_drift_of_small_steps_ends_where_the_original_is_left() -> None:
    """Nine days of one per cent: the second is near, the third is not, whatever each was to the day before."""
    kept = {"close": 100.0}
    near = [difference(kept, {"close": 100.0 * 1.01**day}, 0.02, "tool") is None for day in range(1, 10)]
    assert near == [True] + [False] * 8


def test_a_tool_that_fails_now_differs() -> None:
    then = [("signals_get", ANSWER)]
    error = {"error": "no market", "success": False}
    assert answers_differ(then, error, 0, ok=False, tolerance=0.02) == "signals_get fails now"
    assert answers_differ([("signals_get", error)], ANSWER, 0, ok=True, tolerance=0.02) == "signals_get answers again"
    assert answers_differ([("signals_get", error)], error, 0, ok=False, tolerance=0.02) is None
