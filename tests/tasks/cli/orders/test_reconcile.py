"""`desk reconcile` as a process, against the stand-in for Alpaca."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.tasks.cli.running import desk

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
        "DESK_ALPACA_URL": alpaca.url,
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


def test_missing_or_wrong_credentials_are_refused_with_a_remedy_and_without_the_secret(
    alpaca: Alpaca, run: Run
) -> None:
    without = run("reconcile", ALPACA_SECRET_KEY="")
    assert without.returncode == 2
    assert "needs ALPACA_SECRET_KEY in the process environment" in without.stderr
    wrong = run("reconcile", ALPACA_SECRET_KEY="another-secret")
    assert wrong.returncode == 2
    assert "request is not authorized (HTTP 401" in wrong.stderr
    elsewhere = run("reconcile", DESK_ALPACA_URL="https://example.com/another-secret")
    assert elsewhere.returncode == 2
    assert "DESK_ALPACA_URL is neither https://paper-api.alpaca.markets nor http on loopback" in elsewhere.stderr
    for answer in (without, wrong, elsewhere):
        assert "another-secret" not in answer.stdout + answer.stderr


@pytest.mark.parametrize("name", ["ALPACA_API_KEY", "DESK_ALPACA_API_KEY"])
def test_credentials_are_read_from_no_file(alpaca: Alpaca, run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / ".env").write_text(f"{name}={KEY}\n")
    answer = run("reconcile", ALPACA_API_KEY="")
    assert answer.returncode == 2
    assert alpaca.asked == []
