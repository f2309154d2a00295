"""The queue of the writers of one SQLite database: over all threads of a process and all processes of a host.

SQLite's own busy handler sleeps, up to a tenth of a second at a time, and asks again: with a few busy processes most of
them would sleep while the database is free. Here the next one goes on a millisecond after a transaction has ended.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

SUFFIX = "-queue"
PAUSE_SECONDS = 0.001  # between two attempts; one thread of each process makes them


class WriterQueue:
    """A lock on a file beside the database, for one thread of each process at a time. It orders the writers and
    protects nothing: that does SQLite's own lock, which a transaction takes all the same.

    The lock is the process's own: a forked child does not have it, and the kernel frees it when the process ends,
    however it ends. Where there can be no such file, as beside a database in memory or in a folder of another user's,
    SQLite's own way of waiting is left.
    """

    def __init__(self, database: str | None, most_seconds: float) -> None:
        """most_seconds: after which a writer leaves the queue, and asks SQLite, which has a limit and an error."""
        plain = database and database != ":memory:" and not database.startswith("file:")
        self._path = Path(f"{database}{SUFFIX}") if plain else None
        self._file: IO[bytes] | None = None
        self._most_seconds = most_seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the processes that came before, and hold the others off until the block ends."""
        file = self._locked()
        try:
            yield
        finally:
            if file is not None:
                with suppress(ValueError):  # it was closed meanwhile, and its lock is free
                    fcntl.lockf(file, fcntl.LOCK_UN)

    def _locked(self) -> IO[bytes] | None:
        """Return the file, locked; None where there is none, or no lock."""
        if self._path is None:
            return None
        try:
            if self._file is None:
                self._file = self._path.open("ab")
            return self._file if self._waited(self._file) else None
        except (OSError, ValueError):
            return None

    def _waited(self, file: IO[bytes]) -> bool:
        """Wait for the lock; False when a process that is suspended within a transaction, say, keeps it too long."""
        until = time.monotonic() + self._most_seconds
        while True:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):  # POSIX leaves it to the system which of the two it is
                if time.monotonic() > until:
                    return False
                time.sleep(PAUSE_SECONDS)
            else:
                return True

    def close(self) -> None:
        """Close the file. The next turn opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
