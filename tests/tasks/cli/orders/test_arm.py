"""`desk arm`, `desk mandate`, `desk disarm`, as a person gives them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.tasks.cli.running import desk

LIMITS = ("--broker", "alpaca-live", "--max-notional", "25000", "--max-orders", "5", "--symbols", "aapl,MSFT")


class Person:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.key = home / "own" / "mandate.key"
        self.public = ""
        desk(home, "db", "upgrade")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        more = {"DESK_MANDATE_PUBLIC_KEY": self.public} if self.public else {}
        return desk(self.home, *arguments, DESK_MANDATE_KEY_FILE=str(self.key), **more)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home")


def test_from_the_first_key_to_disarmed(person: Person) -> None:
    none = person("mandate")
    assert (none.returncode, "no mandate was ever armed" in none.stdout) == (1, True)
    armed = person("arm", *LIMITS, "--hours", "2")
    assert armed.returncode == 0, armed.stderr
    assert "mandate 1: alpaca-live may take 5 orders of 25,000.00 in all, on AAPL, MSFT" in armed.stdout
    assert "workers do not know this key yet" in armed.stdout
    assert person.key.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in armed.stdout + armed.stderr
    unknown = person("mandate")
    assert (unknown.returncode, "DESK_MANDATE_PUBLIC_KEY is not set" in unknown.stdout) == (1, True)
    person.public = armed.stdout.rpartition("DESK_MANDATE_PUBLIC_KEY=")[2].strip()
    shown = person("mandate")
    assert (shown.returncode, "used: 0 of 5 orders, 0.00 of 25,000.00" in shown.stdout) == (0, True)
    again = person("arm", *LIMITS)
    assert "workers do not know" not in again.stdout
    (found,) = json.loads(person("mandate", "--json").stdout)
    assert (found["in_force"], found["mandate"]["version"], found["mandate"]["max_notional"]) == (True, 2, "25000")
    assert person("disarm").stdout == "disarmed: mandate 1, 2\n"
    assert person("disarm").stdout == "there was no mandate to disarm\n"
    gone = person("mandate")
    assert (gone.returncode, "mandate 2 was disarmed by" in gone.stdout) == (1, True)


def test_nothing_is_written_outside_the_data_folder_unless_a_path_is_given(tmp_path: Path) -> None:
    home, person = tmp_path / "home", tmp_path / "person"
    person.mkdir()
    desk(home, "db", "upgrade")
    places = {"HOME": str(person), "XDG_CONFIG_HOME": str(person / "config"), "XDG_DATA_HOME": str(person / "data")}
    armed = desk(home, "arm", *LIMITS, **places)
    assert armed.returncode == 0, armed.stderr
    assert f"signed with {home / 'mandate.key'}" in armed.stdout
    assert (home / "mandate.key").stat().st_mode & 0o777 == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"home", "person"}
    assert list(person.rglob("*")) == []
