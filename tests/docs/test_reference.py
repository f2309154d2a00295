"""The reference's tables are those of the code: `python docs/generate.py` writes them anew."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.stack import REPOSITORY

GENERATOR = runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))
PAGES: dict[Path, str] = GENERATOR["pages"]()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_no_page_is_stale(path: Path) -> None:
    stale = path.read_text(encoding="utf-8") != PAGES[path]
    assert not stale, f"{path.name} is stale: run `python docs/generate.py`"


def test_every_table_is_on_a_page() -> None:
    text = "".join(PAGES.values())
    assert all(f"<!-- generated: {name} -->" in text for name in GENERATOR["GENERATED"])


def test_the_picture_is_that_of_its_script() -> None:
    drawn = runpy.run_path(str(REPOSITORY / "docs" / "picture.py"))["picture"]()
    stored = (REPOSITORY / "docs" / "picture.svg").read_text(encoding="utf-8")
    assert stored == drawn, "docs/picture.svg is stale: run `python docs/picture.py`"
