"""Whose turn it is to be connected. The Gateway lets a client number in once, and an order is cancelled by the number
that placed it: so the processes of a desk share one number, and take turns.

The trade worker keeps the connection, and leaves it when another process waits: `desk halt` and `desk reconcile`
connect by themselves, and nothing is asked of a worker that may be dead. Locks of files end with their process.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from chordesk.models.errors import ServiceError

PAUSE_SECONDS = 0.05
MANNERS_SECONDS = 0.3  # that the process which left lets pass before it wants the turn again


class GatewayInUse(ServiceError):
    """The connection is another process's, which does not leave it."""

    remedy = "the trade worker leaves it between two requests: if it hangs, end it, and run this again"


class Turn:
    """One process's place in the queue. Not for threads: its user has a lock of its own."""

    def __init__(self, folder: Path, client_id: int) -> None:
        self._folder = folder
        self._held_path, self._queue_path = (folder / f"ibkr-{client_id}.{kind}" for kind in ("lock", "queue"))
        self._held: int | None = None
        self._left_at = 0.0

    @property
    def held(self) -> bool:
        return self._held is not None

    def take(self, seconds: float) -> None:
        """Raises GatewayInUse when it is not there in so many seconds."""
        if self._held is not None:
            return
        time.sleep(max(0.0, self._left_at + MANNERS_SECONDS - time.monotonic()))
        if self.try_take():
            return
        until = time.monotonic() + seconds
        queue = self._opened(self._queue_path)
        try:
            fcntl.flock(queue, fcntl.LOCK_SH)
            while not self.try_take():
                if time.monotonic() > until:
                    raise GatewayInUse(f"another process of this desk keeps the connection to IBKR ({self._held_path})")
                time.sleep(PAUSE_SECONDS)
        finally:
            os.close(queue)

    def try_take(self) -> bool:
        held = self._opened(self._held_path)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(held)
            return False
        self._held = held
        return True

    def wanted(self) -> bool:
        """Whether another process waits for it."""
        queue = self._opened(self._queue_path)
        try:
            fcntl.flock(queue, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(queue)
        return False

    def _opened(self, path: Path) -> int:
        self._folder.mkdir(parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def leave(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held, self._left_at = None, time.monotonic()
