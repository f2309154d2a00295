"""Stop signals (Ctrl-C, SIGTERM, SIGHUP) as one exception, and blocks of code that they must not interrupt."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """A request to stop this process; not an Exception, so that no error handler swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def raised() -> Iterator[None]:
    """Raise StopRequested on stop signals within the block. A SIGHUP that is ignored (nohup) stays ignored; a SIGINT
    does not: a shell makes whatever a script starts in the background ignore it, with no such intent."""
    nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    with _handled(_raise, [each for each in STOPPING if not (nohup and each is signal.SIGHUP)]):
        yield


@contextmanager
def ignored() -> Iterator[None]:
    with _handled(lambda _number, _frame: None, list(STOPPING)):
        yield


@contextmanager
def _handled(handler: object, numbers: list[signal.Signals]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}  # type: ignore[arg-type]
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, _frame: FrameType | None) -> None:
    raise StopRequested(number)
