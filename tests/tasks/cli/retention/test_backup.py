"""`desk backup` and `desk restore` as a person runs them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import zygote
from tests.patience import PATIENCE
from tests.tasks.backup.kit import desk_data, filled
from tests.tasks.cli.running import desk, environment


@pytest.fixture
def home(tmp_path: Path) -> Path:
    data = filled(desk_data(tmp_path / "home"))
    data.store.close()
    return tmp_path / "home"


def test_a_backup_and_its_restore_name_what_there_is_and_what_comes_next(home: Path, tmp_path: Path) -> None:
    copy, new = tmp_path / "copy", tmp_path / "new"
    made = desk(home, "backup", str(copy))
    assert made.returncode == 0, made.stderr
    assert "2 orders, 3 lines of the audit log" in made.stdout
    assert "not in it: secrets" in made.stdout
    back = desk(home, "restore", str(copy), "--into", str(new))
    assert back.returncode == 0, back.stderr
    for text in ("HALTED: paper", f"DESK_HOME={new} desk reconcile", f"DESK_HOME={new} desk resume"):
        assert text in back.stdout
    assert "whole" in desk(new, "audit", "verify").stdout
    again = desk(home, "restore", str(copy), "--into", str(new))
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)
    assert desk(home, "backup", str(copy)).returncode == 2


TRIES = 20
Begun = Callable[[str], tuple[zygote.Started, Path]]


@pytest.fixture
def begun(home: Path, tmp_path: Path) -> Iterator[Begun]:
    """Begins a backup to a place of this name, and stops it by a signal in the middle; returns it with the folder that
    it fills."""

    def begin(name: str) -> tuple[zygote.Started, Path]:
        known = set(tmp_path.glob(f".{name}.partial-*"))
        for _ in range(TRIES):
            with (tmp_path / "log").open("ab") as output:
                process = zygote.start(("backup", str(tmp_path / name)), environment(home), home, output.fileno())
            ends.callback(process.kill)
            while not (found := copied(name) - known) and process.poll() is None:
                time.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGSTOP)
            if found and copied(name) - known == found:
                return process, found.pop()
            process.kill()  # it was faster
            process.wait(PATIENCE)
            shutil.rmtree(tmp_path / name, ignore_errors=True)
        raise AssertionError(f"none of {TRIES} backups was met in the middle")

    def copied(name: str) -> set[Path]:
        return {path.parent for path in tmp_path.glob(f".{name}.partial-*/database.sqlite")}

    with contextlib.ExitStack() as ends:
        yield begin


def killed(begun: tuple[zygote.Started, Path]) -> Path:
    process, folder = begun
    process.kill()
    process.wait(PATIENCE)
    assert folder.exists()
    return folder


def test_a_killed_one_leaves_nothing_after_the_next_to_its_place(home: Path, tmp_path: Path, begun: Begun) -> None:
    process, at_work = begun("copy")
    left, other = killed(begun("copy")), killed(begun("other"))
    done = desk(home, "backup", str(tmp_path / "copy"))
    assert done.returncode == 0, done.stderr
    assert (left.exists(), at_work.exists(), process.poll()) == (False, True, None)
    assert done.stderr.count("is what a killed backup left: remove it") == 1
    assert f"warning: {other} is" in done.stderr
    assert desk(home, "restore", str(tmp_path / "copy"), "--into", str(tmp_path / "new")).returncode == 0
    done = desk(home, "backup", str(tmp_path / "other"))
    assert (done.returncode, other.exists(), done.stderr) == (0, False, "")
