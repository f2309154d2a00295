"""`desk data`: a report on a folder, for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from chordesk.tasks.cli.root import build
from tests.parts import needs
from tests.tools.market.files.folders import HEADER, sessions, walk, write_table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "home"))
    write_table(tmp_path / "own" / "bars" / "A.csv", HEADER, walk(sessions("2020-01-02", 100)))
    write_table(tmp_path / "own" / "universe.csv", ("symbol", "sector"), [("A", "Energy")])
    return tmp_path / "own"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(build("data"), ["data", *map(str, arguments)], catch_exceptions=True)


def test_errors_end_with_exit_code_1_and_are_bounded(folder: Path) -> None:
    rows = [(row[0], *row[1:4], "ten", row[5]) for row in walk(sessions("2020-01-02", 100))]
    write_table(folder / "bars" / "B.csv", HEADER, rows)
    done = run("check", folder, "--most", 2)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[-4:] == [
        "error: bars/B.csv, row 2, column close: 'ten' is no number",
        "error: bars/B.csv, row 3, column close: 'ten' is no number",
        "error: bars/B.csv: 98 more, not shown",
        "100 errors, 0 warnings",
    ]


@needs("samples")
def test_an_import_is_shown_and_written_only_with_yes_where_nobody_can_agree(folder: Path, tmp_path: Path) -> None:
    source = folder / "bars" / "A.csv"
    refused = run("import", source, "--to", tmp_path / "made")
    assert str(refused.exception).startswith("nobody agreed to it: nothing was written")
    assert "A: 100 bars, 2020-01-02 at 95 to 2020-05-26 at" in refused.stdout
    assert not (tmp_path / "made").exists()
    assert run("import", source, "--to", tmp_path / "made", "--yes").exit_code == 0
    assert (tmp_path / "made" / "bars" / "A.csv").is_file()
