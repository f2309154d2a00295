"""A feature can be left out of the tree: no module of another's, no test and no generator of documents imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from chordesk.models.features import OWN

ROOT = Path(__file__).parents[2]
ROOMS = ("models", "tools", "agents", "tasks")
# Modules outside a feature's folders that do not load without it.
BESIDE = {"chordesk.langchain": "graphs", "tests.toy.graphs": "graphs"}
FEATURES = {place.split(".")[2]: import_module(place).FEATURE for place in OWN}
# What goes with the feature, as `docs/contributing.md` says, and programs that are started by hand.
EXCEPTIONS = {
    ("graphs", "chordesk/langchain.py"),
    ("graphs", "tests/ordeal/beside.py"),
    ("graphs", "tests/ordeal/card/__main__.py"),
    ("graphs", "tests/ordeal/card/on_desk.py"),
    ("graphs", "tests/ordeal/graphs.py"),
    ("graphs", "tests/real/promises.py"),
    ("graphs", "tests/toy/graphs.py"),
}


def imported(module: ast.Module) -> Iterator[str]:
    """Yield the features of whose modules or tests one is imported, late too: types are checked there all the same."""
    for node in ast.walk(module):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{one.name}" for one in node.names]
        for name in names:
            if beside := BESIDE.get(name) or BESIDE.get(name.rpartition(".")[0]):
                yield beside
            top, room, feature, *_ = (*name.split("."), "", "")
            if top in ("chordesk", "tests") and room in ROOMS and feature in FEATURES:
                yield feature


def using(feature: str) -> set[str]:
    """It, and those whose descriptions state that they use it: they are left out with it."""
    users = {name for name, each in FEATURES.items() if feature in each.uses}
    return {feature}.union(*(using(one) for one in users))


def test_nothing_outside_a_feature_and_its_users_imports_it() -> None:
    found = set()
    for top in (*ROOMS, "chordesk", "tests", "docs"):
        for path in (ROOT / top).rglob("*.py"):
            name = path.relative_to(ROOT)
            if name.parts[:2] in {("chordesk", room) for room in ROOMS}:  # a link to the room
                continue
            text = path.read_text(encoding="utf-8")
            if not any(f".{one}" in text for one in FEATURES) and not any(one in text for one in ("langchain", "toy")):
                continue
            for feature in set(imported(ast.parse(text))):
                if not using(feature) & set(name.parts[:3]):
                    found.add((feature, str(name)))
    assert found == {row for row in EXCEPTIONS if row[0] in FEATURES}
