"""Values that take long to read, kept for some seconds and read again by one thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

T = TypeVar("T")
OLD = 10  # times as old as fresh is, what is known is no answer any more
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class KeptValue(Generic[T]):
    """What is known. age: seconds since its reading began, None like the value before the first reading has ended.
    refreshing: it is being read again."""

    age: float | None
    refreshing: bool
    value: T | None


class Watch(Generic[T]):
    """The value as it was last read. Threads may share it; whichever finds it older than `fresh` seconds has it read
    again by a thread of its own, and none waits unless it asks to. A reading that fails is logged, and tried again with
    the next look."""

    def __init__(self, name: str, fresh: float, read: Callable[[], T]) -> None:
        self._name, self._fresh, self._read = name, fresh, read
        self._lock = threading.Lock()
        self._known: tuple[float, T] | None = None
        self._reading: Future[None] | None = None

    def look(self, wait: float = 0.0) -> KeptValue[T]:
        """Return what is known, and have it read again if it is not fresh; where nothing is known, or only what is much
        older than that, wait so many seconds for it at most."""
        with self._lock:
            if self._is_stale() and self._reading is None:
                self._reading = Future()
                # A daemon: a reading that hangs must not keep the service from ending.
                threading.Thread(target=self._refresh, args=[self._reading], name=self._name, daemon=True).start()
            reading = self._reading if self._older_than(OLD * self._fresh) else None
        if reading is not None and wait:
            with suppress(TimeoutError):
                reading.result(wait)
        return self.known()

    def known(self) -> KeptValue[T]:
        """Return what is known, and have nothing read."""
        with self._lock:
            known, refreshing = self._known, self._reading is not None
        return KeptValue(time.monotonic() - known[0] if known else None, refreshing, known[1] if known else None)

    def _is_stale(self) -> bool:
        return self._older_than(self._fresh)

    def _older_than(self, seconds: float) -> bool:
        return self._known is None or time.monotonic() - self._known[0] > seconds

    def _refresh(self, done: Future[None]) -> None:
        began = time.monotonic()
        try:
            found = self._read()
            with self._lock:
                self._known = began, found
        except Exception:
            log.exception("api.not_read", what=self._name)
        finally:
            with self._lock:
                self._reading = None
            done.set_result(None)
