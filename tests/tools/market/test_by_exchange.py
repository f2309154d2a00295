"""Hours and days are asked for by exchange: a call without one means New York, and where that is right is listed."""

from __future__ import annotations

import ast
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
ROOMS = ("models", "tools", "agents", "tasks")
# Calls, each with the arguments that name no exchange.
BARE = {"exchange_hours": 0, "exchange_day": 1, "usual_close": 1, "decision_time": 1}
# The schedule goes by New York's days.
OF_NEW_YORK = frozenset({"tasks/schedules.py", "tasks/workflows/screen.py"})


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
