"""The pace of requests to one address, shared by all clients of a process."""

from __future__ import annotations

import threading
import time
from functools import cache

from chordesk.tools.market.throttle import Throttle


class Pace:
    """A throttle that also rests after a venue had too many requests: more of them make it worse."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._throttle = Throttle(per_second, burst)
        self._rest_until = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when a request may be sent."""
        self._throttle.wait()

    def resting(self) -> float:
        """Return the seconds for which no request may be sent."""
        with self._lock:
            return max(self._rest_until - time.monotonic(), 0.0)

    def rest(self, seconds: float) -> None:
        """Let no request be sent for so long."""
        with self._lock:
            self._rest_until = max(self._rest_until, time.monotonic() + seconds)


@cache
def pace_of(address: str, per_second: float, burst: int) -> Pace:
    """Return the pace of an address, one a process."""
    return Pace(per_second, burst)
