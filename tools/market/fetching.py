"""Fetching from live sources, by whatever library: pace, rest and time limit of requests, and caches of answers."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import orjson
import structlog

from chordesk.models.errors import MarketUnavailable
from chordesk.models.files import replacing

REQUEST_SECONDS = 10.0  # of one request to any of them, from connecting to the last byte of its answer


class Pace(NamedTuple):
    per_second: float
    burst: int
    rest: float = 30.0  # seconds after "too many requests" (429) without a time to wait: more of them make it worse


PACES = {
    "Alpaca": Pace(3.0, 20, 60.0),  # 200 a minute is what a free account has
    "Hyperliquid": Pace(0.4, 10),
    "Kalshi": Pace(10.0, 20),
    "Manifold": Pace(8.0, 20),  # 500 a minute are allowed
    "Polymarket": Pace(20.0, 40),  # 300 in ten seconds are allowed
    "SEC": Pace(5, 5),  # it allows 10 an address, and there may be a second process
    "Yahoo": Pace(10.0, 40, 120.0),
}


class Source:
    """A far side by its name for people: requests keep its pace, and its rest. Threads share it."""

    def __init__(self, name: str, pace: Pace | None = None) -> None:
        self.name = name
        self._per_second, self._burst, self._rest = pace or PACES[name]
        self._tokens, self._at, self._rest_until = float(self._burst), time.monotonic(), 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        with self._lock:
            now = time.monotonic()
            if (left := self._rest_until - now) > 0:
                raise self._limited(left)
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._per_second) - 1
            self._at = now
            due = -self._tokens / self._per_second
        if due > 0:
            time.sleep(due)

    def limited(self, seconds: float | None = None) -> MarketUnavailable:
        """Begin a rest, and return the error of it. seconds: as the source states them."""
        with self._lock:
            self._rest_until = max(self._rest_until, time.monotonic() + (seconds or self._rest))
        return self._limited(seconds or self._rest)

    def _limited(self, seconds: float) -> MarketUnavailable:
        return MarketUnavailable(
            f"{self.name} limits our requests (HTTP 429)", remedy=f"try again in {max(round(seconds), 1)} s"
        )


@cache
def source_at(address: str, name: str) -> Source:
    return Source(name)


def retry_after(text: str | None, most: float = math.inf) -> float | None:
    """The seconds of a Retry-After header, which has a number or a date; None for anything else, and from `most` on."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if seconds < most else None


T = TypeVar("T")


class OutOfTime(Exception):
    """A call took longer than it may."""


def within(seconds: float, call: Callable[[], T], name: str, error: type[Exception] = OutOfTime) -> T:
    """Return what the call returns, or raise what it raises; the given error when it takes longer. A socket's own limit
    is for each read, so an answer that trickles in never meets it. name: of the thread, which is left behind when the
    time is over, sends nothing more, and ends with its connection."""
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
        raise error(f"no whole answer within {seconds:g} s") from None


log = structlog.get_logger(__name__)


class Kept(NamedTuple):
    value: Any
    at: dt.datetime


class AgedCache:
    """Cache of JSON values. One fetch per key at a time: a second caller waits and gets the result of the first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._memory: dict[str, Kept] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: str, max_age: dt.timedelta, fetch: Callable[[], Any]) -> Kept:
        if (found := self._young(self._memory.get(key), max_age)) is not None:
            return found
        with self._key_lock(key):
            found = self._young(self._memory.get(key), max_age) or self._young(self._read(key), max_age)
            if found is None:
                found = Kept(fetch(), dt.datetime.now(dt.UTC))
                self._write(key, found)
            self._memory[key] = found
            return found

    def _key_lock(self, key: str) -> threading.Lock:
        with self._lock:
            return self._locks.setdefault(key, threading.Lock())

    @staticmethod
    def _young(kept: Kept | None, max_age: dt.timedelta) -> Kept | None:
        # A file from the future is a file written under a wrong clock.
        if kept is None or not dt.timedelta(0) <= dt.datetime.now(dt.UTC) - kept.at <= max_age:
            return None
        return kept

    def _read(self, key: str) -> Kept | None:
        try:
            written = orjson.loads((self._folder / f"{key}.json").read_bytes())
            return Kept(written["value"], dt.datetime.fromisoformat(written["at"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("cache.unreadable", key=key, error=str(error))
            return None

    def _write(self, key: str, kept: Kept) -> None:
        try:
            with replacing(self._folder / f"{key}.json") as file:
                file.write(orjson.dumps({"at": kept.at.isoformat(), "value": kept.value}))
        except OSError as error:
            log.warning("cache.not_written", key=key, error=str(error))


class Once(Generic[T]):
    """Results by key; the newest `most` are kept. A second caller waits for the first one's; an error is raised to all
    waiters, and not kept."""

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
