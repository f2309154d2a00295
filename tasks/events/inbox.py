"""Work that any thread leaves for one thread to do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Putting takes no lock, unless the thread sleeps and has to be woken.

    work: what the thread runs; it is begun with the first thing put in, and ends by itself once `closing` is set and
    nothing was left when it looked after that. It calls `expect`, looks, and calls `wait` when there is nothing: what
    is put in after `expect` ends the wait, whoever has taken it out by then.
    """

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        self._name, self._work = name, work
        self._waiting: deque[T] = deque()
        self._any = threading.Event()
        self._beginning = threading.Lock()
        self._thread: threading.Thread | None = None
        self.closing = threading.Event()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, one: T) -> None:
        self._waiting.append(one)
        if not self._any.is_set():  # after putting: the thread clears it before it looks
            self._any.set()
        if self._thread is None:
            self._begin()

    def take(self, most: int) -> list[T]:
        """The oldest of them. For one thread at a time."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), most))]

    def expect(self) -> None:
        self._any.clear()
        if self.closing.is_set():
            self._any.set()

    def wait(self, seconds: float | None = None) -> bool:
        """For so long at the most; not once it is closing. Whether there was a reason to look again."""
        return self._any.wait(seconds)

    def wake(self) -> None:
        """There is something to do that was not put in."""
        self._any.set()

    def close(self, seconds: float) -> None:
        """Waits for the thread's end, for so long at the most."""
        self.closing.set()
        self._any.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _begin(self) -> None:
        with self._beginning:
            if self._thread is None and not self.closing.is_set():
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
