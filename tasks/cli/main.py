"""Entry point of the command `desk`: loads the command's module, and turns errors into a line and an exit code.

Loading the whole desk costs seconds of CPU. So a command loads its own module alone, `desk --help` none of them, and
`desk ping`, which health checks run again and again, and `desk --version` not even the parser.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

from chordesk.tasks.cli import ping

# Exit codes: 0 done, 1 the answer is no (a failed check or run), 2 wrong use or setting, 128+n stopped by signal n.
WRONG_USE, LOST = 2, 1


def main() -> None:
    os.umask(0o077)  # what the desk makes is its owner's alone, as is what its children make
    # Loading makes many objects that stay, some 180,000: collecting them took a tenth of a command's time or more.
    gc.set_threshold(200_000)
    _heed_ctrl_c(sys.argv[1:])
    with watched():
        if (asked := ping.asked(sys.argv[1:])) is not None:
            raise SystemExit(ping.ping(*asked))
        if sys.argv[1:] == ["--version"]:
            from chordesk.tasks.cli import version

            print(version.line())
            return
        _run()


def _heed_ctrl_c(arguments: Sequence[str]) -> None:
    """End a `desk up` by SIGINT while it still loads, too: a shell makes what a script starts in the background ignore
    it, and `signals.raised` comes seconds later on a busy machine."""
    if arguments[:1] == ["up"] and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)  # a second one must not disturb the end
    raise SystemExit(128 + number)


def _run() -> None:
    from chordesk.models.errors import DeskError
    from chordesk.tasks.cli.root import command_for
    from chordesk.tasks.services.signals import StopRequested

    try:
        command_for(sys.argv[1:])()
    except DeskError as error:
        from chordesk.tasks.cli.output import fail

        raise SystemExit(fail(error, WRONG_USE)) from None
    except StopRequested as stop:
        raise SystemExit(128 + stop.number) from None


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


if __name__ == "__main__":
    main()
