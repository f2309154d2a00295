"""What the pages may name of features that are not in this tree: the pages are one manual for every tree."""

from __future__ import annotations

import re
import runpy

from tests.stack import REPOSITORY

# Each feature's section of docs/reference/features.md.
SECTIONS: dict[str, str] = runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))["absent_features"]()
COMMANDS = {command for section in SECTIONS.values() for command in re.findall(r"`desk ([a-z]+)`", section)}
_PATH = re.compile(r"(?:tests/)?\w+/([a-z]+)\b")


def is_absent(path: str) -> bool:
    """Whether a path of the repository is in a folder of such a feature."""
    found = _PATH.match(path)
    return found is not None and found[1] in SECTIONS
