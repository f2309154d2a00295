"""Work that any thread leaves for one thread to do."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """Putting takes no lock: who waits for one that is held by a thread which waits for its turn to run gives its own
    turn away, and the event loop puts something in at every notification.

    work: what the thread runs; it is begun with the first thing put in, and ends by itself once `closing` is set.
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
        if not self._any.is_set():  # after putting: `wait` clears it before it looks
            self._any.set()
        if self._thread is None:
            self._begin()

    def take(self, most: int) -> list[T]:
        """The oldest of them. For one thread at a time."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), most))]

    def wait(self, seconds: float | None = None) -> None:
        """Until there is something, for so long at the most; not once it is closing. For its own thread."""
        self._any.clear()
        if not self._waiting and not self.closing.is_set():
            self._any.wait(seconds)

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
