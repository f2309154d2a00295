"""The queue of writers: a process waits while another one writes, and goes on when that has ended, however it ended."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import chordesk.models.database.store as store_module
from chordesk.models.database.store import SUFFIX, Store, WriterQueue, upgrade
from chordesk.models.tables.orders import Account
from tests.models.database.writers import cash_after
from tests.patience import PATIENCE

SHORT = 0.3
# Takes its turn, says so, and keeps it until its input ends or it is killed.
HOLDER = """
import sys
from chordesk.models.database.store import WriterQueue
with WriterQueue(sys.argv[1], 20).turn():
    print("holds", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    upgrade(f"sqlite:///{tmp_path / 'desk.db'}")
    return tmp_path / "desk.db"


@pytest.fixture
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the turn."""
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"holds\n"
        yield process
        process.kill()


def writing(store: Store) -> threading.Event:
    """Return an event that is set once this store has written."""
    wrote = threading.Event()

    def write() -> None:
        with store.session() as session:
            session.add(Account(name="paper", cash=1.0))
        wrote.set()

    threading.Thread(target=write, daemon=True).start()
    return wrote


def test_a_writer_waits_for_one_of_another_process(path: Path, holder: subprocess.Popen[bytes]) -> None:
    wrote = writing(Store(f"sqlite:///{path}"))
    assert not wrote.wait(SHORT)
    assert holder.stdin is not None
    holder.stdin.close()
    assert wrote.wait(PATIENCE)


def test_a_killed_writer_holds_none_up(path: Path, holder: subprocess.Popen[bytes]) -> None:
    wrote = writing(Store(f"sqlite:///{path}"))
    assert not wrote.wait(SHORT)
    holder.kill()
    assert wrote.wait(PATIENCE)


def test_a_writer_leaves_the_queue_of_one_that_stands_still(
    path: Path, holder: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "BUSY_SECONDS", SHORT)
    assert writing(Store(f"sqlite:///{path}")).wait(PATIENCE)
    assert holder.poll() is None


def test_a_turn_ends_with_an_error_too(path: Path) -> None:
    store = Store(f"sqlite:///{path}")
    with pytest.raises(RuntimeError), store.session():
        raise RuntimeError
    command = [sys.executable, "-c", HOLDER, str(path)]
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE)


def test_without_a_file_for_the_queue_writers_lose_nothing(path: Path) -> None:
    Path(f"{path}{SUFFIX}").mkdir()
    assert cash_after(Store(f"sqlite:///{path}"), writers=4, times=5) == 20.0


def test_a_database_that_is_no_plain_file_has_no_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for database in (":memory:", "file:desk.db?mode=ro", None):
        with WriterQueue(database, SHORT).turn():
            assert list(tmp_path.iterdir()) == []
