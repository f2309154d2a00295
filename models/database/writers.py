"""The queue of the writers of one SQLite database: over all threads of a process and all processes of a host.

SQLite's own busy handler sleeps, up to a tenth of a second at a time, and asks again: with a few busy processes most of
them would sleep while the database is free. Here the kernel wakes the next one as soon as a transaction has ended.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

SUFFIX = "-queue"


class WriterQueue:
    """A lock on a file beside the database, for one thread of each process at a time. It orders the writers and
    protects nothing: that does SQLite's own lock, which a transaction takes all the same.

    The lock is the process's own: a forked child does not have it, and the kernel frees it when the process ends,
    however it ends. Where there can be no such file, as beside a database in memory or in a folder of another user's,
    SQLite's own way of waiting is left.
    """

    def __init__(self, database: str | None) -> None:
        plain = database and database != ":memory:" and not database.startswith("file:")
        self._path = Path(f"{database}{SUFFIX}") if plain else None
        self._file: IO[bytes] | None = None

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
            file = self._file
            fcntl.lockf(file, fcntl.LOCK_EX)
        except (OSError, ValueError):
            return None
        return file

    def close(self) -> None:
        """Close the file. The next turn opens it again."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
