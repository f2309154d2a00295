"""The tether where the kernel does not help: a process that watches its parent."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from chordesk.tasks.services import tether
from tests.patience import PATIENCE
from tests.tasks.services.conftest import CLEAN, gone

ENVIRON = {**CLEAN, "PYTHONPATH": str(Path(__file__).parents[3])}
WATCH = (
    "import os, signal, sys; from chordesk.tasks.services import tether; "
    "sys.exit(tether.watch(signal.SIGTERM, os.getppid(), sys.argv[1:]))"
)
MIDDLE = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); p.wait()"


def watching(*command: str) -> list[str]:
    return [sys.executable, "-c", WATCH, *command]


def test_it_passes_on_signals_and_the_exit_code() -> None:
    assert subprocess.run(watching("sh", "-c", "exit 7"), env=ENVIRON, timeout=PATIENCE, check=False).returncode == 7
    ready = "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen(watching("sh", "-c", ready), env=ENVIRON, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 9


def test_it_ends_the_command_with_the_parent_even_one_that_ignores_signals() -> None:
    deaf = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    command = [sys.executable, "-c", MIDDLE, *watching("sh", "-c", deaf)]
    with subprocess.Popen(command, env=ENVIRON, stdout=subprocess.PIPE, text=True) as middle:
        assert middle.stdout is not None
        printed = {middle.stdout.readline().strip(), middle.stdout.readline().strip()}
        assert "ready" in printed
        below = [each.pid for each in psutil.Process(middle.pid).children(recursive=True)]
        assert len(below) >= 2
        middle.kill()
    assert gone(below)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the command is started and then ended")
def test_a_parent_that_is_gone_already_is_noticed() -> None:
    command = [sys.executable, "-I", "-S", tether.__file__, "SIGTERM", "true"]
    done = subprocess.run(command, env={**CLEAN, tether.PARENT: "1"}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "parent process 1 is gone" in done.stderr
