"""A backtest on a terminal."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chordesk.tasks.cli.show.results import backtest_report
from chordesk.tasks.reading.runs import BacktestView, SessionRow
from tests.tasks.cli.render.console import rendered

DAY = dt.date(2010, 6, 29)
SHARES = {"desk": 0.01, "held": 0.02, "equal_weight": 0.03}


def row(**changes: Any) -> SessionRow:
    made: dict[str, Any] = {
        "day": DAY,
        "state": "done",
        "reason": None,
        "screen_run_id": "s",
        "trade_run_id": "t",
        "cash": 1.0,
        "equity": 2.0,
        "exposure": 0.5,
        "traded": 0.0,
        "orders": {},
        "denials": {},
        "verdicts": {},
        "unpriced": [],
        "stale": [],
    }
    return SessionRow(**{**made, **changes})


def shown(*rows: SessionRow, **result: Any) -> str:
    whole: dict[str, Any] = {
        "sessions": len(rows),
        "returns": SHARES,
        "drawdown": SHARES,
        "turnover": 0.1,
        "exposure": 0.5,
        "costs": "5 basis points",
        "turns": 1,
        "tokens": 2,
        "question": "beats the median",
        "ratings": [],
        "lenses": [],
        "roles": [],
        "voices": [],
        "conclusion": "Nothing can be concluded.",
    }
    found = BacktestView(
        backtest_id="b",
        resumed=None,
        scored="b",
        parallel=False,
        sessions=len(rows),
        rows=list(rows),
        result={**whole, **result},
    )
    return rendered(backtest_report(found), 160)


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({}, "voices: none took part (--rounds lets them)"),
        ({"rounds": 1}, "voices: they forecast nothing"),
        (
            {"rounds": 1, "forecasts_waiting": 48},
            "voices: 48 forecasts without a score, whose questions had no outcome",
        ),
    ],
)
def test_voices_without_a_score_are_shown_with_the_reason(result: dict[str, Any], line: str) -> None:
    printed = shown(row(), **result)
    assert line in printed
    assert printed.count("voices:") == 1


def test_scored_voices_stand_beside_forecasts_that_wait() -> None:
    voice = {"voice": "sizer", "questions": 4, "dates": 2, "brier": 0.25, "alpha": 0.0, "error": None}
    assert "voices:" not in shown(row(), rounds=2, voices=[voice])
    printed = shown(row(), rounds=2, voices=[voice], forecasts_waiting=3)
    assert "sizer: Brier 0.250" in printed
    assert "voices: 3 forecasts without a score" in printed


def test_a_session_names_positions_without_a_price_of_their_own() -> None:
    printed = shown(row(stale=["AAPL", "CSCO"]), row(unpriced=["GONE"]))
    assert "2010-06-29: AAPL, CSCO at a close of an earlier session" in printed
    assert "2010-06-29: GONE without a price" in printed
    assert "earlier session" not in shown(row())
