"""Long tests begin first, units stay whole, and none is lost by it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import pytest

from tests.suite.order import BROWSER, long_first, unit_of


@dataclass(frozen=True, slots=True)
class Item:
    nodeid: str
    marks: frozenset[str] = frozenset()

    def get_closest_marker(self, name: str) -> bool:
        return name in self.marks


def module(name: str, count: int, *marks: str) -> list[Item]:
    """Return a module of so many tests, the last of which is marked."""
    return [Item(f"{name}::t{n}", frozenset(marks if n == count - 1 else ())) for n in range(count)]


PLAIN, SERVER, SLOW = module("tests/a.py", 5), module("tests/b.py", 3, "process"), module("tests/c.py", 2, "long")
PAGE = [*module(f"{BROWSER}test_x.py", 2), *module(f"{BROWSER}test_y.py", 3, "process")]


@pytest.mark.parametrize(
    "given", [[*PLAIN, *SERVER, *PAGE, *SLOW], [*PLAIN[:2], *PAGE[:1], *SLOW, *PLAIN[2:], *SERVER, *PAGE[1:]], []]
)
def test_units_stay_whole_and_the_long_ones_begin(given: list[Item]) -> None:
    found = long_first(given)  # type: ignore[arg-type]
    assert sorted(found, key=repr) == sorted(given, key=repr)
    units = [unit for unit, _ in groupby(found, lambda item: unit_of(item.nodeid))]
    assert len(units) == len(set(units))
    if given:
        assert set(units[:2]) == {BROWSER, "tests/c.py"}
        assert units[2:] == ["tests/b.py", "tests/a.py"]


def test_within_a_unit_the_order_stays() -> None:
    found = long_first([*SLOW, *PLAIN, *PAGE])  # type: ignore[arg-type]
    for unit in (SLOW, PLAIN, PAGE):
        assert [item for item in found if item in unit] == unit
