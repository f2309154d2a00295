"""`desk backtest` given what it cannot walk: one line with the value and the remedy, exit code 2, nothing opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.root import build

DAYS = ("--from", "2010-03-01", "--to", "2010-03-05")


def refused(*arguments: str) -> UsageError:
    found = CliRunner().invoke(build("start"), ["backtest", *arguments])
    assert isinstance(found.exception, UsageError), found.output
    return found.exception


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((), "--from is missing"),
        (DAYS[:2], "--to is missing"),
        (("--from", "March", *DAYS[2:]), "--from 'March' is no day"),
        ((*DAYS, "--rounds", "3"), "--rounds 3"),
        ((*DAYS, "--memory", "some"), "--memory 'some' is neither on nor off"),
        ((*DAYS, "--universe", " "), "--universe is empty"),
        ((*DAYS, "--resume", "abc"), "--resume goes on with a backtest as it is"),
    ],
)
def test_wrong_options_are_named_before_anything_is_looked_at(
    arguments: tuple[str, ...], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "none"))
    error = refused(*arguments)
    assert named in error.args[0]
    assert error.remedy
    assert not (tmp_path / "none").exists()
