"""The order of tests over processes: each process does whole units of them, the long ones first.

A unit is a module, so that what a module sets up is made once and its tests run in their order; or the modules that
share a desk of real processes, which each process of the tests would start anew, with the runs that it has.
"""

from __future__ import annotations

import pytest
from xdist.scheduler.loadscope import LoadScopeScheduling

BROWSER = "tests/tasks/web/page/"
SHARED = (
    BROWSER, "tests/tasks/web/routes/history/", "tests/tasks/telemetry/", "tests/tasks/measure/walk/",
    "tests/tasks/workflows/test_",
)  # fmt: skip


def unit_of(nodeid: str) -> str:
    """Return the unit that a test belongs to."""
    return next((unit for unit in SHARED if nodeid.startswith(unit)), nodeid.partition("::")[0])


class UnitScheduling(LoadScopeScheduling):
    """Distribution of units in the order of the tests: a process that is nearly done gets the next one."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)


def long_first(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests by units: first the browser's and those with one marked `long`, then those of several modules,
    which one process does alone, then those that start processes, then the others, of which so many are short that all
    processes end at about the same time."""
    ranks: dict[str, int] = {}
    for item in items:
        unit = unit_of(item.nodeid)
        ranks[unit] = min(ranks.get(unit, 3), _rank(item, unit))
    units = {unit: at for at, unit in enumerate(sorted(ranks, key=lambda unit: ranks[unit]))}
    return sorted(items, key=lambda item: units[unit_of(item.nodeid)])


def _rank(item: pytest.Item, unit: str) -> int:
    if unit == BROWSER or item.get_closest_marker("long"):
        return 0
    if unit in SHARED:
        return 1
    return 2 if item.get_closest_marker("process") else 3
