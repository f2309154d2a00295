"""The one asyncio loop of a worker process, in a thread of its own; task threads hand it coroutines and wait."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
TOOL_THREADS = 32


class LoopThread:
    def __init__(self, name: str = "desk-loop") -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        # Tools run in these threads; the default, a few more than cores, would queue behind a slow market.
        self.loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(TOOL_THREADS, "tools"))
        self.loop.run_forever()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)
        if not self.loop.is_running():
            self.loop.close()
