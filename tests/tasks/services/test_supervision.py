"""supervisord asked to end while programs ignore it, and the guard that watches a parent where the kernel does
not."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from chordesk.tasks.services import parent_guard, supervision
from chordesk.tasks.services.plan import Plan, Program, redis_server
from chordesk.tasks.services.supervision import Supervisor, log_file
from tests.patience import PATIENCE
from tests.tasks.services.conftest import CLEAN, gone

CHATTY = "import time; [(print('line'), time.sleep(0.01)) for _ in range(100_000)]"


DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"


def test_it_ends_by_itself_in_time_when_a_worker_and_then_redis_have_to_be_killed(
    make_plan: Callable[..., Plan], tmp_path: Path
) -> None:
    made = make_plan(DESK_PROVIDER="codex")
    command = (sys.executable, "-c", DEAF)
    programs = [redis_server(command, ""), Program("worker", command)]
    supervisor = Supervisor(made.folders)
    supervisor.start(programs, made.environ, tmp_path, PATIENCE)
    for program in programs:
        supervisor.run(program)
    until = time.monotonic() + PATIENCE
    while any("deaf" not in _log_of(made, program) for program in programs):
        assert time.monotonic() < until, "the programs do not start"
        time.sleep(0.05)
    everybody = [each.pid for each in psutil.Process(supervisor.pid).children()]
    assert len(everybody) == 2
    assert supervisor.stop(PATIENCE)
    assert gone(everybody)
    log = (made.folders.logs / "supervisord.log").read_text(encoding="utf-8")
    assert log.index("stopped: worker (terminated by SIGKILL)") < log.index("stopped: redis (terminated by SIGKILL)")


def test_a_machine_too_busy_to_end_it_does_not_end_who_stops_it(
    make_plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_plan(DESK_PROVIDER="codex")
    supervisor = Supervisor(made.folders)
    supervisor.start([], made.environ, tmp_path, PATIENCE)
    monkeypatch.setattr(supervision, "KILL_SECONDS", 0.0)
    assert not supervisor.stop(0)
    assert not supervisor.alive(settle_seconds=PATIENCE)


def _log_of(made: Plan, program: Program) -> str:
    path = log_file(program.name, made.folders)
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_it_outlives_a_log_that_takes_no_more(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    """The log is on a full disk, then on one with room: what could not be written is counted."""
    made = make_plan(DESK_PROVIDER="codex")
    program = Program("worker", (sys.executable, "-uc", CHATTY))
    log = log_file(program.name, made.folders)
    log.symlink_to("/dev/full")
    supervisor = Supervisor(made.folders)
    supervisor.start([program], made.environ, tmp_path, PATIENCE)
    try:
        supervisor.run(program)
        until = time.monotonic() + PATIENCE
        while supervisor.processes()[0].state != "RUNNING":  # for a second, with a hundred lines
            assert time.monotonic() < until, supervisor.processes()
            time.sleep(0.05)
        log.unlink()
        while not _log_of(made, program).endswith("line\n"):
            assert time.monotonic() < until, "nothing is written again"
            time.sleep(0.05)
        assert "bytes of this log could not be written" in _log_of(made, program).splitlines()[0]
    finally:
        supervisor.stop(PATIENCE)


ENVIRON = {**CLEAN, "PYTHONPATH": str(Path(__file__).parents[3])}


WATCH = (
    "import os, signal, sys; from chordesk.tasks.services import parent_guard; "
    "sys.exit(parent_guard.watch(signal.SIGTERM, os.getppid(), sys.argv[1:]))"
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
    command = [sys.executable, "-I", "-S", parent_guard.__file__, "SIGTERM", "true"]
    done = subprocess.run(command, env={**CLEAN, parent_guard.PARENT: "1"}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "parent process 1 is gone" in done.stderr
