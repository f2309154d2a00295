"""The page on lenses leads from nothing to a backtest: its file and its commands, as they stand there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.tasks.cli.root import build
from chordesk.tools.lenses.expressions import read
from chordesk.tools.lenses.figures import FIGURES
from tests.parts import has_command
from tests.stack import REPOSITORY

PAGE = (REPOSITORY / "docs" / "lenses.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_leads_from_nothing_to_a_backtest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lenses").mkdir()
    (tmp_path / "lenses" / "calm-risers.md").write_text(blocks("md")[0])
    said = {}
    for line in blocks("sh")[0].splitlines():
        words = shlex.split(line, comments=True)
        if not has_command(words[1]):  # of a feature that the tree lacks
            continue
        done = CliRunner().invoke(build(), words[1:], catch_exceptions=False)
        assert done.exit_code == 0, (line, done.output)
        said[" ".join(words[1:3])] = done.output
    assert "names pass" in said["lens check"]
    assert "over the median" in said["lens test"]
    assert "calm-risers@" in said.get("backtest --lens", "calm-risers@")
    assert "names that rise calmly" in said["lens list"]


def test_the_rules_of_the_page_can_be_read_and_all_figures_are_there() -> None:
    rules = PAGE.partition("## The rule\n\n```\n")[2].partition("```")[0].splitlines()
    assert len(rules) > 2
    for line in rules:
        read(line, tuple(FIGURES), "truth")
    assert [name for name in FIGURES if f"`{name}`" not in PAGE] == []
