"""`desk graph` given what it cannot play: the value and the remedy, before anything is looked at."""

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
        ("{", "--input is no JSON"),
        ("[1]", "--input is no object but [1]"),
        ("@{folder}/none.json", "none.json cannot be read: "),
        ("@{folder}/list.json", "list.json is no object but [1, 2]"),
        ("@{folder}/bytes.json", "bytes.json cannot be read: "),
    ],
)
def test_wrong_inputs_are_named(given: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "none"))
    (tmp_path / "list.json").write_text("[1, 2]", encoding="utf-8")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    text = given.replace("{folder}", str(tmp_path))
    found = CliRunner().invoke(build("start"), ["graph", "a:b", "--input", text])
    assert isinstance(found.exception, UsageError), found.output
    assert named in found.exception.args[0]
    assert found.exception.remedy
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["graph"], "no MODULE:FACTORY is given"),
        (["graph", "a:b"], "no --input is given"),
        (["graph", "a:b", "--resume", "0"], "--resume goes with no factory"),
    ],
)
def test_a_factory_and_an_input_go_together_or_a_run(arguments: list[str], named: str) -> None:
    found = CliRunner().invoke(build("start"), arguments)
    assert isinstance(found.exception, UsageError), found.output
    assert named in found.exception.args[0]
    assert found.exception.remedy


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
