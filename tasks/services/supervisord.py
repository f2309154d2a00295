"""supervisord with logs that outlive a full disk: `python -P supervisord.py -c CONFIGURATION`.

supervisord's own writer of logs raises what the disk answers (no space, an error of input or output, no file left to
open) in the loop that starts and reaps programs, and supervisord ends. This one leaves out what cannot be written, and
says how much that was once it can. It can go when supervisor's survives that. Its loop says that it turns (`life`), the
one import of ours, which is as fast as the standard library.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from supervisor import loggers, supervisord

from chordesk.tasks import life


class LogFile(loggers.Handler):  # type: ignore[misc]
    """A log of at most `maxBytes`, with one older file beside it. Nothing here raises OSError."""

    def __init__(self, filename: str, mode: str = "ab", maxBytes: int = 0, backupCount: int = 1) -> None:
        super().__init__()
        self._path, self._most = filename, maxBytes
        self._handle: int | None = None
        self._left_out = 0  # bytes since the last that were written
        self.reopen()

    def emit(self, record: Any) -> None:
        plain = self.fmt == "%(message)s" and isinstance(record.msg, bytes)
        data = record.msg if plain else (self.fmt % record.asdict()).encode(errors="replace")
        try:
            self._write(data)
        except OSError:
            self._left_out += len(data)
            self.close()  # opened again with the next line: what is open may be of a disk that is gone

    def _write(self, data: bytes) -> None:
        if self._handle is None:
            self._handle = self._opened()
        if self._most and os.fstat(self._handle).st_size >= self._most:
            os.replace(self._path, f"{self._path}.1")
            self.reopen()
            self._handle = self._handle if self._handle is not None else self._opened()
        if self._left_out:
            _write_all(self._handle, f"({self._left_out:,} bytes of this log could not be written)\n".encode())
            self._left_out = 0
        _write_all(self._handle, data)

    def _opened(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def reopen(self) -> None:
        self.close()
        with suppress(OSError):
            self._handle = self._opened()

    def remove(self) -> None:
        self.close()
        with suppress(OSError):
            os.unlink(self._path)

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            with suppress(OSError):
                os.close(handle)

    def flush(self) -> None:
        """Do nothing: each line is written at once."""


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


class BeatingSupervisor(supervisord.Supervisor):  # type: ignore[misc]
    def tick(self, now: float | None = None) -> None:
        life.beat()
        super().tick(now)


if __name__ == "__main__":
    loggers.FileHandler = loggers.RotatingFileHandler = LogFile
    supervisord.Supervisor = BeatingSupervisor
    if home := os.environ.get("DESK_HOME"):
        life.begin(Path(home), life.SUPERVISOR, life.SUPERVISOR, threaded=False)
    try:
        supervisord.main()
    finally:
        life.end()
