"""Output of commands, and their end when it cannot be written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from chordesk.tasks.services.plan import desk_command
from tests import zygote
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk, environment

# More than a buffer holds and less, by rich, by orjson and by typer itself.
COMMANDS = (("config", "--json"), ("runs", "list"), ("--help",))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("output") / "home"
    assert desk(made, "db", "upgrade").returncode == 0
    return made


LOST = [
    pytest.param(
        ">/dev/full",
        "No space left on device",
        marks=pytest.mark.skipif(
            not Path("/dev/full").exists(), reason="this system has no device that is always full"
        ),
    ),
    (">&-", "Bad file descriptor"),
]


def _run(home: Path, command: tuple[str, ...], redirection: str) -> tuple[int, str]:
    """Return exit code and stderr of a command with its standard output redirected by a shell."""
    if redirection == ">/dev/full":
        with open("/dev/full", "wb") as full:
            return _forked(home, command, full.fileno())
    # A process that starts without the descriptor is another matter than one that forks.
    line = ["sh", "-c", f'exec "$@" {redirection}', "sh", *desk_command(*command)]
    done = subprocess.run(line, env=environment(home), cwd=home, stderr=subprocess.PIPE, text=True, timeout=PATIENCE)
    return done.returncode, done.stderr


def _forked(home: Path, command: tuple[str, ...], stdout: int) -> tuple[int, str]:
    done = zygote.run(command, environment(home), home, stdout=stdout)
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("redirection", "reason"), LOST)
def test_output_that_is_lost_is_a_line_and_an_exit_code(
    home: Path, command: tuple[str, ...], redirection: str, reason: str
) -> None:
    code, err = _run(home, command, redirection)
    assert code == 1
    error, remedy = err.splitlines()
    assert error == f"error: the output cannot be written: {reason}"
    assert remedy.startswith("remedy: ")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_reader_that_left_ends_the_command_in_silence(home: Path, command: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        assert _forked(home, command, pipe.fileno()) == (1, "")


def test_an_error_is_reported_whatever_became_of_the_output(home: Path) -> None:
    code, err = _run(home, ("runs", "show", "zzz"), ">&-")
    assert code == 2
    assert "there is no run 'zzz'" in err
