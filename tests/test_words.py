"""The code, its tests and its deployment are written in plain terms; modules and folders are small."""

from __future__ import annotations

import ast
import re
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("models", "tools", "agents", "tasks")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py") if path.parent.name != "versions")
OTHERS = sorted(path for folder in ("tests", "deploy") for path in (ROOT / folder).rglob("*.py"))
CODE, REST = (tuple(path.relative_to(ROOT).as_posix() for path in paths) for paths in (MODULES, OTHERS))
ALL = (*CODE, *REST)

DIALECT = re.compile(
    r"(?i)\b(tells?|told|telling|said|says|spoken|speaks?|hears?|heard|words?|who|whom|whoever|whose|nobody)\b",
)
NAMES = re.compile(
    r"(?i)(^|_)(tells?|(un)?told|say|said|says|hears?|heard|words?|who|whom|whoever|whose|nobody|somebody|speaks?|spoken"
    r"|speaker|talks?|talking)(_|$)"
)
QUESTION_TEST = re.compile(r"test_(what|who|whom|whose|whether|how|why)_")
QUESTION = re.compile(r"(What|Whom?|Whether|How)\b")
MOST_QUESTIONS = 0.02  # share of docstrings
MOST_DIALECT = 0.001  # share of all text in docstrings and in comments
MOST_FILES, MOST_LINES = 15, 400
FACES = ("__init__.py", "conftest.py")  # of a folder of tests: not counted among its modules


class Defined(NamedTuple):
    """The definitions of a module. docstrings: (place, text); names: of functions, classes, arguments, variables and
    fields; classes: those of the module itself."""

    docstrings: list[tuple[str, str]]
    names: list[str]
    classes: list[str]


@cache
def defined(name: str) -> Defined:
    """Return the definitions of the module of a path. Its syntax tree is not kept: all together are large."""
    tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
    found = Defined([], [], [node.name for node in tree.body if isinstance(node, ast.ClassDef)])
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.names.append(node.name)
        elif isinstance(node, ast.arg):
            found.names.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.names.append(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.names.append(node.attr)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            text = ast.get_docstring(node)
            if text:
                found.docstrings.append((f"{name}:{getattr(node, 'lineno', 1)}", text))
    return found


def docstrings(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every docstring."""
    return (one for name in names for one in defined(name).docstrings)


@pytest.mark.parametrize("names", [CODE, REST], ids=["code", "tests"])
def test_docstrings_do_not_begin_as_questions(names: Sequence[str]) -> None:
    texts = list(docstrings(names))
    found = [f"{place}: {text.splitlines()[0]}" for place, text in texts if QUESTION.match(text)]
    assert len(found) <= MOST_QUESTIONS * len(texts), "\n".join(found)


@pytest.mark.parametrize("names", [CODE, REST], ids=["code", "tests"])
def test_docstrings_use_the_terms_of_the_field(names: Sequence[str]) -> None:
    found, total = [], 0
    for place, text in docstrings(names):
        total += len(text.split())
        found += [f"{place}: {match}" for match in DIALECT.findall(text)]
    assert len(found) <= MOST_DIALECT * total, "\n".join(found)


def comments() -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every comment."""
    for name in ALL:
        with (ROOT / name).open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    yield f"{name}:{token.start[0]}", token.string


def test_comments_use_the_terms_of_the_field() -> None:
    texts = list(comments())
    found = [f"{place}: {match}" for place, text in texts for match in DIALECT.findall(text)]
    assert len(found) <= MOST_DIALECT * sum(len(text.split()) for _, text in texts), "\n".join(found)


def test_everything_that_the_code_defines_has_a_plain_name() -> None:
    found = [f"{name}: {given}" for name in ALL for given in defined(name).names if NAMES.search(given)]
    assert found == [], "\n".join(found)


def test_tests_are_named_as_statements() -> None:
    found = [f"{name}: {given}" for name in REST for given in defined(name).names if QUESTION_TEST.match(given)]
    assert found == [], "\n".join(found)


def test_a_public_class_has_a_name_of_its_own() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name in CODE:
        for given in defined(name).classes:
            if not given.startswith("_"):
                places[given].append(name)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_folders_and_modules_are_small() -> None:
    paths = [*MODULES, *(path for path in OTHERS if path.name not in FACES)]
    files = Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text(encoding="utf-8").splitlines()) for path in paths}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_tests_mirror_the_folders_of_the_code() -> None:
    folders = {path.parent.relative_to(ROOT).as_posix() for path in MODULES}
    tested = {path.parent.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("test_*.py")}
    held = {path.parent.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").rglob("*.py")}
    assert folders - tested - set(ROOMS) == set(), "each folder of the code has tests in the folder of its name"
    modules = {path.relative_to(ROOT).with_suffix("").as_posix() for path in MODULES}
    others = {name for name in held - folders if name.split("/")[0] in ROOMS}
    assert others - modules == set(), "a folder of tests has the name of a folder of the code, or of one module of it"
