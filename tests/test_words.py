"""The code of the four packages is written in plain words, and laid out in small modules and folders."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOMS = ("models", "tools", "agents", "tasks")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.parent.name != "versions")
TREES = {path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in MODULES}

DIALECT = re.compile(
    r"(?i)\b(tells?|told|telling|said|says|spoken|hears?|heard|whom|whoever|whose|nobody)\b",
)
QUESTION = re.compile(r"(What|Whom?|Whether|How)\b")
MOST_QUESTIONS = 0.02  # share of docstrings
MOST_DIALECT = 0.001  # share of the words of all docstrings
MOST_FILES, MOST_LINES = 15, 400


def docstrings() -> Iterator[tuple[str, str]]:
    """(place, text) of every docstring."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                text = ast.get_docstring(node)
                if text:
                    yield f"{name}:{getattr(node, 'lineno', 1)}", text


def test_docstrings_do_not_begin_as_questions() -> None:
    texts = list(docstrings())
    found = [f"{place}: {text.splitlines()[0]}" for place, text in texts if QUESTION.match(text)]
    assert len(found) <= MOST_QUESTIONS * len(texts), "\n".join(found)


def test_docstrings_use_the_terms_of_the_field() -> None:
    found, words = [], 0
    for place, text in docstrings():
        words += len(text.split())
        found += [f"{place}: {match}" for match in DIALECT.findall(text)]
    assert len(found) <= MOST_DIALECT * words, "\n".join(found)


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_folders_and_modules_are_small() -> None:
    files: dict[str, int] = defaultdict(int)
    for path in MODULES:
        files[path.parent.relative_to(ROOT).as_posix()] += 1
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}
