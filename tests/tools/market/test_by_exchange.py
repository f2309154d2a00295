"""Hours and days are asked for by exchange: a call without one means New York, and where that is right is listed."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
ROOMS = ("models", "tools", "agents", "tasks")
# Calls, each with the arguments that name no exchange.
BARE = {"exchange_hours": 0, "exchange_day": 1, "usual_close": 1, "decision_time": 1}
# What is of New York whatever the desk trades: files without other exchanges, options, filings, published data, scores
# by the day, and the schedule. The list only gets shorter.
OF_NEW_YORK = frozenset(
    {
        "agents/analysts.py",
        "agents/graphs/tradingagents/data.py",
        "agents/verdicts/trader_sizes.py",
        "tasks/board/episode/rounds.py",
        "tasks/board/episode/tally.py",
        "tasks/graphs/tradingagents/chapter.py",
        "tasks/measure/backtest_sessions.py",
        "tasks/measure/experiment_view.py",
        "tasks/reading/runs.py",
        "tasks/reading/scores.py",
        "tasks/reports/documents.py",
        "tasks/retention/runs.py",
        "tasks/schedules.py",
        "tasks/workflows/screen.py",
        "tasks/workflows/trade.py",
        "tools/board/symbol_signals.py",
        "tools/brokers/alpaca_shapes.py",
        "tools/brokers/paper.py",
        "tools/market/earnings.py",
        "tools/market/files/bars.py",
        "tools/market/files/chains.py",
        "tools/market/files/data_folder.py",
        "tools/market/files/market.py",
        "tools/market/files/name_changes.py",
        "tools/market/files/news_and_earnings.py",
        "tools/market/replay/market.py",
        "tools/market/yahoo/market.py",
        "tools/measure/backtest_performance.py",
        "tools/measure/backtests.py",
        "tools/measure/benchmarks/calendar.py",
        "tools/measure/benchmarks/forecastbench.py",
        "tools/model_tools/company_data.py",
        "tools/model_tools/filings.py",
        "tools/model_tools/news.py",
        "tools/orders/stops.py",
        "tools/risk/conduct.py",
        "tools/samples/own_files.py",
        "tools/samples/pystock.py",
        "tools/scoring/statistics.py",
        "tools/scoring/track_records.py",
        "tools/scoring/verdict_calibration.py",
        "tools/toolsets.py",
    }
)  # fmt: skip


def test_no_module_asks_for_hours_without_an_exchange() -> None:
    found = set()
    for room in ROOMS:
        for file in (REPOSITORY / room).rglob("*.py"):
            calls = (
                node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
            )
            if any(isinstance(one.func, ast.Name) and _bare(one, one.func.id) for one in calls):
                found.add(str(file.relative_to(REPOSITORY)))
    assert found - OF_NEW_YORK == set(), "name the exchange: hours_of(symbol), day_of(moment, symbol), clock_day(clock)"
    assert OF_NEW_YORK - found == set(), "no longer needed in the list"


def _bare(call: ast.Call, name: str) -> bool:
    return name in BARE and len(call.args) + len(call.keywords) <= BARE[name]
