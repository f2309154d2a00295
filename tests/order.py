"""The order of tests. Those marked `long` begin first, so that no process of the run works on one alone at its end; and
those of the browser, so that one process does them all: another one would make a desk with a record for them too."""

from __future__ import annotations

import pytest


def long_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return the tests with the long ones at the beginning of each process's share. Those of one module stay together,
    as do all of the browser.

    At first xdist gives each process an equal share of the list; one that is done takes from the ends of others'.
    """
    modules: dict[str, list[pytest.Item]] = {}
    rest: list[pytest.Item] = []
    for item in items:
        if item.get_closest_marker("browser"):
            modules.setdefault("browser", []).append(item)
        elif item.get_closest_marker("long"):
            modules.setdefault(item.nodeid.partition("::")[0], []).append(item)
        else:
            rest.append(item)
    heads = [[item for module in list(modules.values())[at::processes] for item in module] for at in range(processes)]
    found: list[pytest.Item] = []
    for at, head in enumerate(heads):
        share = (len(items) - len(found)) // (processes - at)
        more = max(share - len(head), 0)
        found += [*head, *rest[:more]]
        del rest[:more]
    return found + rest
