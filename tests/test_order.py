"""Long tests begin first, and none is lost by it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.order import long_first


@dataclass(frozen=True, slots=True)
class Item:
    nodeid: str
    long: bool = False
    browser: bool = False

    def get_closest_marker(self, name: str) -> bool:
        return {"long": self.long, "browser": self.browser}[name]


def items(*counts: int) -> list[Item]:
    """Return modules of so many tests each; in each second one they are long."""
    return [Item(f"m{at}::t{number}", at % 2 == 1) for at, count in enumerate(counts) for number in range(count)]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("counts", [(), (0, 1), (50, 3, 20, 1, 9, 2), (1, 9), (7, 2, 7, 2, 7, 30)])
def test_each_process_begins_with_long_ones_and_does_all_of_a_module(counts: tuple[int, ...], processes: int) -> None:
    given = items(*counts)
    found = long_first(given, processes)  # type: ignore[arg-type]
    assert sorted(found, key=repr) == sorted(given, key=repr)
    long = [item for item in found if item.long]
    modules = [item.nodeid.partition("::")[0] for item in long]
    assert sum(one != other for one, other in pairwise(modules)) == max(len(set(modules)) - 1, 0)


def test_the_beginnings_of_shares_are_long() -> None:
    found = long_first(items(50, 3, 20, 1, 9, 2), 2)  # type: ignore[arg-type]
    share = len(found) // 2
    assert [item.long for item in found[:6]] == [True] * 5 + [False]
    assert [item.nodeid for item in found if item.nodeid.startswith("m3")] == ["m3::t0"]
    assert found[share].nodeid == "m3::t0"


def test_one_process_does_all_tests_of_the_browser_and_begins_with_them() -> None:
    pages = [Item(f"page/test_{at}::t{number}", at == 1, True) for at in range(3) for number in range(2)]
    found = long_first([*items(30), *pages[:3], *items(1, 4), *pages[3:]], 2)  # type: ignore[arg-type]
    at = [number for number, item in enumerate(found) if item.browser]
    assert at == list(range(at[0], at[0] + len(pages)))
    assert at[0] in (0, len(found) // 2)
