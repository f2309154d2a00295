"""Every test that docs/security.md names exists, and each threat has one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.docs import absent
from tests.stack import REPOSITORY

PAGE = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
_TEST = re.compile(r"`((?:packages/[\w-]+/)?tests/[\w/]+\.py)::(\w+)`")


@cache
def defined(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_test_that_is_named_exists() -> None:
    named = _TEST.findall(PAGE)
    assert len(named) > 50
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not absent.is_absent(path) and (not (REPOSITORY / path).is_file() or name not in defined(REPOSITORY / path))
    ]
    assert missing == []
    assert all(name.startswith("test_") for _, name in named)


def test_each_threat_has_its_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| threat |")]
    rows = [row for row in rows if not row.startswith(("| ---", "|---", "| place |"))]
    assert len(rows) > 40
    assert [row for row in rows if not _TEST.search(row)] == []
    assert len(re.findall(r"tests/[\w/]+\.py::", PAGE)) == len(_TEST.findall(PAGE)), "a name that is cut or misspelt"
