"""What 0.3 promised still holds: docs/promises.md says what, and for how long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.database.store import current, upgrade
from tests.parts import EVERY, HERE
from tests.promises import record
from tests.promises.surface import broken, surface
from tests.tasks.cli.running import desk

WHOLE = pytest.mark.skipif(not EVERY <= HERE, reason="a feature is not in this tree")
HOW = "was promised: deprecate it for a minor version (docs/promises.md), then `python -m tests.promises.record`"


@WHOLE
def test_nothing_that_others_build_on_is_gone() -> None:
    assert broken(record.kept_surface(), surface()) == [], HOW


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ({"http": ["GET /a", "GET /a: id", "GET /b", "needs GET /b: query q"]}, []),
        ({"http": ["GET /a"]}, ["http: GET /a: id is gone"]),
        ({"http": ["GET /a", "GET /a: id", "needs GET /a: query q"]}, ["http: needs GET /a: query q is new"]),
        ({}, ["http: GET /a is gone", "http: GET /a: id is gone"]),
    ],
)
def test_what_goes_or_is_newly_asked_for_breaks_and_what_is_added_does_not(now: Any, found: list[str]) -> None:
    assert broken({"http": ["GET /a", "GET /a: id"]}, now) == found


@WHOLE
@pytest.mark.process
def test_a_home_of_then_is_upgraded_and_shown_with_every_field(tmp_path: Path) -> None:
    home = tmp_path / "home"
    record.unpack(home)
    url = f"sqlite:///{home / 'desk.db'}"
    upgrade(url)
    found, newest = current(url)
    assert found == newest

    def run(*arguments: str) -> Any:
        done = desk(home, *arguments, **record.SETTINGS)
        assert done.returncode in record.SHOWS, f"desk {' '.join(arguments)}: {done.stderr}"
        return json.loads(done.stdout)

    shown, kept = record.look(run), json.loads(record.SHOWN.read_text("utf-8"))
    gone = {command: sorted({*fields} - {*shown[command]}) for command, fields in kept.items()}
    assert {command: fields for command, fields in gone.items() if fields} == {}, HOW
    verified = desk(home, "audit", "verify", **record.SETTINGS)
    assert verified.returncode == 0, verified.stderr + verified.stdout
