"""Cache of a live source's answers, in memory and on disk, with their age."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import structlog

from chordesk.models.files import replacing

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
        """Return the cached value when it is young enough, else the result of `fetch`; its errors pass through."""
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
