"""docs/alerts.md: its commands do what it says, and its table has every condition."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chordesk.models.alerts.tables import AlertsAlert
from chordesk.models.database.store import upgrade
from chordesk.models.errors import UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.alerts.firing import unnamed
from chordesk.tasks.cli.root import build
from chordesk.tools.alerts.conditions import KINDS, condition_of
from tests.stack import REPOSITORY

PAGE = (REPOSITORY / "docs" / "alerts.md").read_text(encoding="utf-8")


def test_every_condition_is_in_the_table_as_it_is_written() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    written = [condition_of(text).kind.name for row in rows for text in re.findall(r"`([^`]+)`", row)]
    assert list(dict.fromkeys(written)) == [*dict.fromkeys(written)]
    assert set(written) == set(KINDS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("drawdown 100%", "nothing falls by 100%"),
        ("move down 200%", "nothing falls by 200%"),
        ("price above 1,000", "numbers without commas"),
        ("spend 2,000,000", "numbers without commas"),
    ],
)
def test_what_could_never_fire_or_has_a_comma_is_refused_with_its_cause(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        condition_of(text)


def test_it_is_said_what_a_run_without_symbols_is_on() -> None:
    row = {"name": "x", "subject": "desk", "written_on": "2026-11-23", "by": "ann", "action": "research"}
    found = [
        unnamed(AlertsAlert(**row, condition=when, request=request))
        for when, request in (("failed", {}), ("failed", {"symbols": ["IBM"]}), ("rating", {}))
    ]
    assert found == ["Research on some symbols, or, without any, on what the account holds", None, None]


def test_the_commands_work_as_they_are_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    upgrade(load_settings().database)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    said = []
    for line in block.splitlines():
        _, *words = shlex.split(line)
        done = CliRunner().invoke(build(words[0]), words, catch_exceptions=False)
        assert done.exit_code == 0, (line, done.output)
        said.append(done.output)
    assert "aapl-dip fired 1 time from 2010-06-01" in said[7]
