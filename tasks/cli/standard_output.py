"""Standard output of commands, and their end when it cannot be written. A log or an error that standard error does not
take is left out."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

LOST = 1  # exit code


class OutputLost(Exception):
    """Standard output cannot be written. Not an OSError, so that no handler takes it for another file's error."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Watched:
    """A stream that raises its errors as OutputLost. needed: else what it does not take is left out."""

    def __init__(self, stream: TextIO, *, needed: bool) -> None:
        self._stream, self.needed = stream, needed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            if self.needed:
                raise OutputLost(error) from None
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            if self.needed:
                raise OutputLost(error) from None


def not_needed() -> None:
    """Leave out from now on what standard output does not take: a desk outlives the disk to which its output goes."""
    if isinstance(sys.stdout, _Watched):
        sys.stdout.needed = False


@contextmanager
def watched() -> Iterator[None]:
    stream = sys.stdout or _closed()
    output = _Watched(stream, needed=True)
    sys.stdout = cast(TextIO, output)
    if sys.stderr is not None:
        sys.stderr = cast(TextIO, _Watched(sys.stderr, needed=False))
    try:
        try:
            yield
        finally:
            output.flush()
    except OutputLost as lost:
        _leave(stream)
        raise SystemExit(_exit_code(lost.cause)) from None
    finally:
        if not output.needed:
            _leave(stream)


def _leave(stream: TextIO) -> None:
    """The interpreter flushes once more at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _closed() -> TextIO:
    """An unwritable stream. It holds the descriptor, which the next opened file would take."""
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
