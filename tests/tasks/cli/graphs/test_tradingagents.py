"""`desk tradingagents` given what it cannot play: the value and the remedy, before anything is looked at or written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.root import build


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("--analysts", "market,stars"), "--analysts has 'stars'"),
        (("--analysts", " , "), "--analysts names none"),
        (("--depth", "0"), "--depth 0 is not from 1 to 10"),
        (("--date", "soon"), "--date 'soon' is no date"),
        ((), "TradingAgents is not installed"),
    ],
)
def test_wrong_arguments_are_named(
    given: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "tradingagents", None)  # Python's own mark of a module that is not there
    found = CliRunner().invoke(build("start"), ["tradingagents", "IBM", *given])
    assert isinstance(found.exception, UsageError), found.output
    assert named in found.exception.args[0]
    assert found.exception.remedy
    assert not (tmp_path / "none").exists()
