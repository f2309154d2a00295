"""What a rehearsal leaves behind is found and ended: by its mark, by the ids of its servers, by ports and folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.fleet.machine import programs
from tests.fleet.machine.leftovers import MARK, Leftovers
from tests.patience import PATIENCE
from tests.stack import free_port, listens, wait_for

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
SERVE = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1"]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait(PATIENCE)


def test_a_process_with_the_mark_is_named_and_ended(started: list[subprocess.Popen[bytes]]) -> None:
    left = Leftovers("one rehearsal")
    started += [subprocess.Popen(SLEEP, env={**os.environ, MARK: mark}) for mark in ("one rehearsal", "another")]
    ours, other = started
    wait_for(lambda: [process.pid for process in left.processes()] == [ours.pid], "the mark shows")
    (name,) = left.end_processes(0.0)
    assert name.startswith(f"{ours.pid} ")
    assert ours.wait(PATIENCE) is not None
    assert other.poll() is None
    assert left.end_processes(0.0) == []


def test_a_server_is_known_by_its_id_and_not_by_an_id_that_came_again(started: list[subprocess.Popen[bytes]]) -> None:
    started.append(subprocess.Popen(SLEEP, env={name: os.environ[name] for name in os.environ if name != MARK}))
    left = Leftovers("a rehearsal")
    left.note(started[0].pid)
    assert [process.pid for process in left.processes()] == [started[0].pid]
    left.pids[started[0].pid] -= 1000.0
    assert left.processes() == []


def test_a_port_that_answers_and_a_folder_that_is_there_are_left(
    started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    port = free_port()
    left = Leftovers("a rehearsal", ports={port}, folders={tmp_path, tmp_path / "gone"})
    assert left.listening() == []
    started.append(subprocess.Popen([*SERVE, str(port)], stderr=subprocess.DEVNULL))
    wait_for(lambda: listens(port), "the server listens")
    assert (left.listening(), left.there()) == ([port], [str(tmp_path)])


def test_a_program_that_is_missing_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "found", lambda: {"postgres": Path("/usr/bin")})
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(programs.Unavailable, match=r"redis-server, prometheus.*apt-get install.*PATH"):
        programs.require()


def test_this_process_is_not_left() -> None:
    assert psutil.Process() not in Leftovers(os.environ.get(MARK, "a rehearsal")).processes()
