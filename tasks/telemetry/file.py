"""Telemetry file: JSON lines that any number of processes append to."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import structlog

from chordesk.models.errors import SettingError

log = structlog.get_logger(__name__)

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o640
CHECK_SECONDS = 1.0  # between two checks whether the file was moved away


class JsonLines:
    """Writer of one line a write at the file's current end: the kernel lets no other writer in between.

    A file that cannot be written loses its lines and logs one warning; it never fails the work.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: int | None = None
        self._checked_at = 0.0
        self._lost = 0

    def check(self) -> None:
        """Raise SettingError when the file cannot be appended to."""
        try:
            os.close(self._open())
        except OSError as error:
            remedy = "name a file in a folder that may be written to, or leave it unset"
            raise SettingError(f"DESK_TELEMETRY_FILE={self.path}: {error.strerror}", remedy=remedy) from None

    def append(self, line: bytes) -> None:
        """Append a line, its newline included."""
        with self._lock:
            try:
                self._write(line)
            except OSError as error:
                self._close()
                if not self._lost:
                    log.warning("telemetry.not_written", file=str(self.path), error=error.strerror)
                self._lost += 1
                return
            if self._lost:
                log.warning("telemetry.written_again", file=str(self.path), lines_lost=self._lost)
                self._lost = 0

    def close(self) -> None:
        with self._lock:
            self._close()

    def _write(self, line: bytes) -> None:
        self._check()
        if self._file is None:
            self._file = self._open()
            line = b"\n" + line if _torn(self._file) else line
        if os.write(self._file, line) != len(line):
            raise OSError(0, "the disk took a part of a line")

    def _check(self) -> None:
        """Close a file that is no longer the one of this name, as after a rotation."""
        now = time.monotonic()
        if self._file is None or now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            same = False
        if not same:
            self._close()

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, _FLAGS, _MODE)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _torn(file: int) -> bool:
    """Return whether a full disk has left a part of a line at the end, which the next line must not join."""
    try:
        size = os.fstat(file).st_size
        return size > 0 and os.pread(file, 1, size - 1) != b"\n"
    except OSError:  # a pipe has no end to look at
        return False
