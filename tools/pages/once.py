"""Results that are made once and kept for a while, the newest of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Results by key, of which the newest `most` are kept. A second caller waits for the first one's; an error is
    raised to all that wait for it, and is not kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Future[T]] = OrderedDict()

    def get(self, key: Hashable | None, make: Callable[[], T]) -> T:
        """Return the result of a key; `make` makes it. Without a key nothing is kept."""
        if key is None:
            return make()
        with self._lock:
            future = self._kept.get(key)
            if mine := future is None:
                future = self._kept[key] = Future()
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        if not mine:
            return future.result()
        try:
            future.set_result(make())
        except BaseException as error:
            with self._lock:
                if self._kept.get(key) is future:
                    del self._kept[key]
            future.set_exception(error)
        return future.result()
