"""A real PostgreSQL for tests, from the machine's own binaries: private socket, no TCP, gone afterwards.

Its driver is an extra, and starts a process where it finds libpq: only what talks to a server loads it.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from chordesk.models.database.store import upgrade
from chordesk.tasks.services.parent_guard import hold
from tests.patience import PATIENCE

# The server refuses to run as root; then it runs as nobody, in a folder that is nobody's.
UNPRIVILEGED_USER = 65534
# Nothing here has to survive a power cut.
_QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "listen_addresses=", "max_connections=120")


def binaries() -> Path | None:
    """The folder of `initdb` and `postgres`: the PATH's, else the newest of the distribution's."""
    if shutil.which("initdb") and shutil.which("postgres"):
        return Path(str(shutil.which("initdb"))).parent
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(found, key=lambda path: int(path.parent.name) if path.parent.name.isdigit() else 0, default=None)


def missing() -> str | None:
    """Why there can be no server here; None where there can."""
    if importlib.util.find_spec("psycopg") is None:
        return "PostgreSQL's driver is not installed: pip install 'chordesk[postgres]'"
    if binaries() is None:
        return "no PostgreSQL here: neither initdb and postgres on the PATH nor /usr/lib/postgresql/*/bin"
    return None


@dataclass(slots=True)
class Server:
    """A running server, of which a test takes databases of its own."""

    folder: Path
    _numbers: count[int] = field(default_factory=count)
    _template: str | None = None

    def empty(self) -> str:
        """Return the URL of a new database without a table."""
        return self._url(self._fresh("template0"))

    def migrated(self) -> str:
        """Return the URL of a new database with every table: a copy of one that is migrated once."""
        if self._template is None:
            name = self._fresh("template0")
            upgrade(self._url(name))
            self._template = name
        return self._url(self._fresh(self._template))

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://desk@/{database}?host={self.folder}"

    def _fresh(self, template: str) -> str:
        import psycopg

        name = f"d{next(self._numbers)}"
        with psycopg.connect(f"host={self.folder} user=desk dbname=postgres", autocommit=True) as connection:
            connection.execute(f'create database "{name}" template "{template}"'.encode())
        return name


@functools.cache
def shared() -> Server:
    """The one server of this process, which ends with it."""
    running = contextlib.ExitStack()
    atexit.register(running.close)
    return running.enter_context(server())


@contextlib.contextmanager
def server(at: Path | None = None) -> Iterator[Server]:
    """Run a server as long as the block. There is a driver and a binary, by `missing`. at: folder of its own; there it
    is started again whenever it ends by itself, as by an init system."""
    found = binaries()
    assert found is not None, missing()
    # A short path: a unix socket's is limited to about 100 bytes.
    folder = Path(tempfile.mkdtemp(prefix="desk-pg-", dir=at))
    user = unprivileged(folder)
    data = folder / "data"
    try:
        setup = [
            found / "initdb",
            "-D",
            data,
            "-U",
            "desk",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
            "--wal-segsize=1",
        ]
        subprocess.run(setup, cwd=folder, capture_output=True, check=True, timeout=PATIENCE, **user)
        settings = [part for setting in _QUICK for part in ("-c", setting)]

        def start() -> subprocess.Popen[bytes]:
            with (folder / "log").open("ab") as log:
                return subprocess.Popen(
                    [found / "postgres", "-D", data, "-k", folder, *settings],
                    cwd=folder, stdout=log, stderr=log, preexec_fn=parent_guard(), **user,
                )  # fmt: skip

        process = start()
        try:
            _await(process, folder)
            if at is None:
                yield Server(folder)
            else:
                with _kept_up(process, start):
                    yield Server(folder)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # fast shutdown: open connections are cut
            process.wait(PATIENCE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _kept_up(process: subprocess.Popen[bytes], start: Callable[[], subprocess.Popen[bytes]]) -> Iterator[None]:
    """While the block runs, a server that has ended is started again, once a second."""
    over = threading.Event()

    def keep() -> None:
        running = process
        while not over.wait(1.0):
            if running.poll() is not None:
                with contextlib.suppress(OSError):
                    running = start()  # tied to this thread
        if running is not process:
            running.send_signal(signal.SIGINT)
            running.wait(PATIENCE)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()


def unprivileged(folder: Path) -> dict[str, Any]:
    """Return the arguments of Popen for a server that root starts as another user, who owns its folder from here on;
    none for anybody else."""
    if os.geteuid() != 0:
        return {}
    os.chown(folder, UNPRIVILEGED_USER, UNPRIVILEGED_USER)
    return {"user": UNPRIVILEGED_USER, "group": UNPRIVILEGED_USER, "extra_groups": []}


def parent_guard(end: signal.Signals = signal.SIGQUIT) -> Callable[[], None] | None:
    """Return what ties the server to this process, so that a killed test run takes it along; only Linux has it.

    It runs after the change of user, which would undo it; so the command of `guarded` is no way here.
    """
    return functools.partial(hold, end, os.getpid()) if sys.platform == "linux" else None


def _await(process: subprocess.Popen[bytes], folder: Path) -> None:
    import psycopg

    until = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, f"the server ended: {(folder / 'log').read_text()[-2000:]}"
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(f"host={folder} user=desk dbname=postgres", connect_timeout=2).close()
            return
        assert time.monotonic() < until, f"no answer within {PATIENCE:g} s"
        time.sleep(0.05)
