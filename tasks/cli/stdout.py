"""Standard output that is closed, full, or a pipe that nobody reads any more: the command ends with a code, and without
a traceback."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from models.errors import DeskError
from tasks.cli.output import fail

LOST = 1


class OutputLost(Exception):
    """Standard output cannot be written. Not an OSError: nobody on the way may take it for another file's."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Watched:
    """Standard output; what it raises says that it was standard output."""

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
    """Ends the command when what it writes is lost: in silence when the reader left, else with a line on stderr."""
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
        raise SystemExit(_told(lost.cause)) from None


def _closed() -> TextIO:
    """In place of a standard output that was closed: a stream that cannot be written. It also holds the descriptor,
    which the next file that is opened would take."""
    return open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")


def _told(error: OSError) -> int:
    if error.errno == errno.EPIPE:
        return LOST
    what = DeskError(
        f"the output cannot be written: {error.strerror}", remedy="send it where there is room, or to a pipe"
    )
    return fail(what, LOST)
