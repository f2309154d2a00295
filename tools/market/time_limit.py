"""A limit on the whole time of a blocking call, whatever the call itself waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

T = TypeVar("T")


class OutOfTime(Exception):
    """A call took longer than it may."""


def within(seconds: float, call: Callable[[], T], name: str) -> T:
    """Return what the call returns, or raise what it raises. Raises OutOfTime when it takes longer.

    A socket's own limit is for each read, so an answer that trickles in never meets it. name: of the thread, which is
    left behind when the time is over, sends nothing more, and ends with its connection.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    try:
        return done.result(seconds)
    except FutureTimeout:
        if done.done():
            raise
        raise OutOfTime(f"no whole answer within {seconds:g} s") from None
