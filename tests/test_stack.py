"""Leftovers of a killed test run: no process, and a home that the next run takes away."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests import homes
from tests.postgres import missing
from tests.stack import REPOSITORY, processes
from tests.tasks.services.conftest import gone

# All is started from a thread that ends, as a fixture's may; the run makes the worker start an app-server.
OUTER = """
import json, threading, time
import psutil
from chordesk.tasks.workflows.research import open_research
from tests.stack import processes, wait_for

def below():
    return psutil.Process().children(recursive=True)

def start(desk):
    desk.rulebook()
    desk.workers("research", "ops")

with processes() as desk:
    starting = threading.Thread(target=start, args=(desk,))
    starting.start()
    starting.join()
    open_research(desk.app, ["IBM"])
    wait_for(lambda: any("codex" in each.name() for each in below()), "an app-server runs")
    time.sleep(0.5)
    print(json.dumps([str(desk.home), len(desk.running), [each.pid for each in below()]]), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def homes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for homes that no other test sweeps."""
    homes.base().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="own-", dir=homes.base()) as folder:
        monkeypatch.setenv("DESK_TEST_HOMES", folder)
        yield Path(folder)


@pytest.fixture
def killed(homes_of_its_own: Path) -> Iterator[tuple[Path, int, list[int]]]:
    """The home of a process that was killed, how many programs it had started, and all that descended from it."""
    with subprocess.Popen([sys.executable, "-c", OUTER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None
            home, count, below = json.loads(outer.stdout.readline())
            # With their times of creation: by the end another test's process may have got the id of one of them.
            left = [psutil.Process(pid) for pid in below]
        finally:
            outer.kill()
    yield Path(home), count, below
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ties a process to its parent")
def test_a_killed_run_leaves_no_process_and_its_home_goes_with_the_next(killed: tuple[Path, int, list[int]]) -> None:
    home, count, below = killed
    assert count == 4
    assert len(below) > count  # the app-server too
    assert gone(below)
    assert home.is_dir()
    with processes() as desk:
        assert not home.exists()
        homes.sweep()
        assert desk.home.is_dir()


def test_a_home_without_an_owner_is_left_to_its_maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_TEST_HOMES", str(tmp_path))
    made, other = tmp_path / "d-made", tmp_path / "other"
    made.mkdir()
    other.mkdir()
    homes.sweep()
    assert made.is_dir()
    monkeypatch.setattr(homes, "UNNAMED_SECONDS", 0.0)
    homes.sweep()
    assert not made.exists()
    assert other.is_dir()


SERVER = """
import json, time
import psutil
from tests.postgres import server

with server() as made:
    print(json.dumps([str(made.folder), [each.pid for each in psutil.Process().children(recursive=True)]]), flush=True)
    time.sleep(600)
"""


@pytest.mark.postgres
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing ties a process to its parent")
def test_a_killed_run_leaves_no_postgresql() -> None:
    if why := missing():
        pytest.skip(why)
    with subprocess.Popen([sys.executable, "-c", SERVER], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout is not None
            folder, below = json.loads(outer.stdout.readline())
        finally:
            outer.kill()
    assert len(below) > 1, "the server and its own processes"
    assert gone(below)
    shutil.rmtree(folder)
