"""docs/deploying.md as a script: the commands of its blocks, by heading, in the page's order."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = "docs/deploying.md"
_BLOCK = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(folder: Path) -> dict[str, list[str]]:
    """Return the commands of each section that has some. A block with a language is no command but a file."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^## ", (folder / PAGE).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        blocks = _BLOCK.findall(part)
        if lines := [line for block in blocks for line in commands(block)]:
            found[part.partition("\n")[0].strip()] = lines
    return found


def commands(block: str) -> list[str]:
    """Return a block's commands; one goes on where its line ends with a backslash."""
    joined = block.replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip()]
