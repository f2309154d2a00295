"""What the pages may name of features that are not in this tree: the pages are one manual for every tree."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from tests.stack import REPOSITORY

# Each feature's section of docs/reference/features.md.
SECTIONS: dict[str, str] = runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))["absent_features"]()
COMMANDS = {command for section in SECTIONS.values() for command in re.findall(r"`desk ([a-z]+)`", section)}
PAGES = {page for section in SECTIONS.values() for page in re.findall(r"\(\.\./([\w-]+\.md)\)", section)}
_PATH = re.compile(r"(?:tests/)?\w+/([a-z]+)\b")


def is_absent(path: str) -> bool:
    """Whether a path of the repository is in a folder of such a feature."""
    found = _PATH.match(path)
    return found is not None and found[1] in SECTIONS


def is_of_one(page: Path) -> bool:
    """Whether a page of the documents is of such a feature: it names settings that this tree lacks."""
    return page.name in PAGES
