"""Hours and days are asked for by exchange: a call without one would mean New York."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
ROOMS = ("models", "tools", "agents", "tasks")
# Calls, each with the arguments that name no exchange.
BARE = {"exchange_hours": 0, "exchange_day": 1, "usual_close": 1, "decision_time": 1}


def test_no_module_asks_for_hours_without_an_exchange() -> None:
    found = set()
    for room in ROOMS:
        for file in (REPOSITORY / room).rglob("*.py"):
            calls = (
                node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)
            )
            if any(isinstance(one.func, ast.Name) and _bare(one, one.func.id) for one in calls):
                found.add(str(file.relative_to(REPOSITORY)))
    assert found == set(), "name the exchange: hours_of(symbol), day_of(moment, symbol), clock_day(clock)"


def _bare(call: ast.Call, name: str) -> bool:
    return name in BARE and len(call.args) + len(call.keywords) <= BARE[name]
