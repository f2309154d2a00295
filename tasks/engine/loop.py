"""The one asyncio loop of a worker process, in a thread of its own; task threads hand it coroutines and wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
BLOCKING_THREADS = 32
STALLED_SECONDS = 60.0  # no load explains a loop that stands still for so long


class LoopWatch:
    """Measures for how long a loop has not turned. It waits for nothing: each question is answered by the next one."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._lock = loop, threading.Lock()
        self._asked: float | None = None

    def stalled_seconds(self) -> float:
        """Return for how long the loop has owed its answer to an earlier question; 0 when it owes none."""
        with self._lock:
            if self._asked is not None:
                return time.monotonic() - self._asked
            if not self._loop.is_closed():
                self._asked = time.monotonic()
                self._loop.call_soon_threadsafe(self._answer)
            return 0.0

    def _answer(self) -> None:
        self._asked = None


class LoopThread:
    def __init__(self, name: str = "desk-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self.watch = LoopWatch(self.loop)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        # What blocks runs in these threads; the default, a few more than cores, would queue behind a slow disk.
        self.loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(BLOCKING_THREADS, "blocking"))
        self.loop.run_forever()

    def why_stuck(self) -> str | None:
        """Return that the loop stands still, None while it turns; waits for nothing."""
        seconds = self.watch.stalled_seconds()
        return f"its event loop has not turned for {seconds:.0f} s" if seconds > STALLED_SECONDS else None

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)
        if not self.loop.is_running():
            self.loop.close()
