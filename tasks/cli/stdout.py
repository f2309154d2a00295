"""Standard output that is closed, full, or a pipe without a reader: the command ends with an exit code and no
traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

LOST = 1


class OutputLost(Exception):
    """Standard output cannot be written. Not an OSError, so that no handler takes it for another file's error."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Watched:
    """Standard output that raises its errors as OutputLost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            raise OutputLost(error) from None

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            raise OutputLost(error) from None


@contextmanager
def watched() -> Iterator[None]:
    """End the command when its output is lost: silently when the reader left, else with a line on stderr."""
    stream = sys.stdout or _closed()
    sys.stdout = cast(TextIO, _Watched(stream))
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OutputLost as lost:
        # The interpreter flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise SystemExit(_exit_code(lost.cause)) from None


def _closed() -> TextIO:
    """Return an unwritable stream in place of a closed standard output. It holds the descriptor, which the next opened
    file would take."""
    return open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def _exit_code(error: OSError) -> int:
    if error.errno == errno.EPIPE:
        return LOST
    # Loaded here: a health check that answers has no use for either.
    from chordesk.models.errors import DeskError
    from chordesk.tasks.cli.output import fail

    lost = DeskError(
        f"the output cannot be written: {error.strerror}", remedy="send it where there is room, or to a pipe"
    )
    return fail(lost, LOST)
