"""Commands about orders as people run them: `desk orders` and `desk audit`, mandates, and the comparison with a broker.

What they show whole is in `tests/tasks/cli/test_shown.py`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chordesk.tools.orders.audit import log_path
from tests.constants import constants
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.tasks.cli.running import desk
from tests.tasks.cli.test_shown import Books


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    made = Books(tmp_path)
    yield made
    made.store.close()


def test_the_commands(books: Books) -> None:
    books.fullest(2)
    short = books.chain.order_id[:8]
    assert short in desk(books.settings.home, "orders", "list", "--symbol", "acme").stdout
    assert json.loads(desk(books.settings.home, "orders", "list", "--state", "rejected", "--json").stdout) == []
    assert "open buy 50 ACME: filled" in desk(books.settings.home, "orders", "show", short).stdout
    whole = json.loads(desk(books.settings.home, "orders", "show", short, "--json").stdout)
    assert len(whole["log"]) == 4
    history = desk(books.settings.home, "audit", "show", "--order", short).stdout
    assert "approval_decided" in history
    assert re.search(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +\d+ drafted", history, re.MULTILINE), "a history spans days"
    lines = desk(books.settings.home, "audit", "show", "--last", "3").stdout.splitlines()
    assert [line.split()[4] for line in lines] == ["approval_decided", "fill", "fill"]
    wrong = desk(books.settings.home, "orders", "show", "ffff-none")
    assert (wrong.returncode, "desk orders list" in wrong.stderr) == (2, True)


def test_verify_confirms_a_whole_log_and_names_the_faults_of_another(books: Books) -> None:
    empty = desk(books.settings.home, "audit", "verify")
    assert (empty.returncode, empty.stdout) == (0, "nothing is on record yet\n")
    books.fullest(2)
    whole = desk(books.settings.home, "audit", "verify")
    assert (whole.returncode, "5 lines anchored, whole" in whole.stdout) == (0, True)
    path = log_path(books.settings)
    path.write_bytes(path.read_bytes().replace(b'"by":"ann@desk"', b'"by":"bob@desk"'))
    altered = desk(books.settings.home, "audit", "verify")
    assert (altered.returncode, "NOT WHOLE" in altered.stdout) == (1, True)
    assert "line 3: its content is not what its hash was made of: altered" in altered.stdout
    shown = desk(books.settings.home, "audit", "show", "--order", books.chain.order_id)
    assert "the log is not whole" in shown.stderr
    assert json.loads(desk(books.settings.home, "audit", "verify", "--json").stdout)[0]["whole"] is False
    missing = desk(books.settings.home, "audit", "verify", "--with", str(books.settings.home / "none.jsonl"))
    assert (missing.returncode, "cannot be read" in missing.stderr) == (2, True)


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
    found, *others = json.loads(person("mandate", "--json").stdout)
    assert (found["broker"], [one["in_force"] for one in others]) == ("alpaca-live", [False] * len(others))
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


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def alpaca() -> Iterator[Alpaca]:
    with serving(Alpaca()) as running:
        yield running


@pytest.fixture
def run(alpaca: Alpaca, tmp_path: Path) -> Run:
    """`desk` on an Alpaca paper account, in a home with a database."""
    environ = {
        "DESK_BROKER": "alpaca-paper",
        **constants(ALPACA=alpaca.url),
        "ALPACA_API_KEY": KEY,
        "ALPACA_SECRET_KEY": SECRET,
    }
    home = tmp_path / "home"
    assert desk(home, "db", "upgrade", **environ).returncode == 0

    def command(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
        return desk(home, *arguments, **{**environ, **changes})

    return command


def test_an_account_that_holds_something_is_reported_taken_over_and_resumed(alpaca: Alpaca, run: Run) -> None:
    alpaca.hold("IBM", 7, 120)
    first = run("reconcile")
    assert first.returncode == 1
    assert "account alpaca-paper differs from its broker" in first.stdout
    assert "OPEN       position IBM: 0 here, 7 at the broker" in first.stdout
    assert "trading is halted: the broker's account is not what the desk's orders explain" in first.stdout
    second = run("reconcile", "--adopt")
    assert second.returncode == 0
    assert "put right  position IBM: 0 here, 7 at the broker" in second.stdout
    assert "`desk resume` lets it go on" in second.stdout
    assert run("resume").returncode == 0
    third = run("reconcile", "--json")
    found = json.loads(third.stdout)
    assert (third.returncode, found["agreed"], found["differences"], found["trading"]) == (0, True, [], "active")
    assert max(len(line) for line in second.stdout.splitlines()[:2]) <= 100


@pytest.mark.parametrize("name", ["ALPACA_API_KEY", "DESK_ALPACA_API_KEY"])
def test_credentials_are_read_from_no_file(alpaca: Alpaca, run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / ".env").write_text(f"{name}={KEY}\n")
    answer = run("reconcile", ALPACA_API_KEY="")
    assert answer.returncode == 2
    assert alpaca.asked == []
