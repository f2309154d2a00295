"""Ctrl-C, SIGTERM and SIGHUP as one exception, and the stretch of code that they must not cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(BaseException):
    """Somebody asked this process to stop; not an Exception, so that no handler of errors swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def raised() -> Iterator[None]:
    """Within it the stop signals raise StopRequested; a SIGHUP that is ignored (nohup) stays so."""
    with _handled(_raise, [each for each in STOPPING if signal.getsignal(each) is not signal.SIG_IGN]):
        yield


@contextmanager
def ignored() -> Iterator[None]:
    """Within it the stop signals do nothing."""
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
