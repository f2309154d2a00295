"""A token bucket: so many calls at once, so many a second after that."""

from __future__ import annotations

import threading
import time


class Throttle:
    """Threads share it; `wait` returns when the caller may go on."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Take a token at once, if need be one of the future, and sleep until that one is due."""
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second)
            self._at = now
            self._tokens -= 1
            due = -self._tokens / self._per_second
        if due > 0:
            time.sleep(due)
