"""The exporter: the gauges of the whole desk, shown by the processes that serve the queue `ops`.

A scrape reads database and Redis at most every few seconds, and never waits long for one that is away: its gauges are
then missing, and `desk_part_up` is 0.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotInTime

import structlog
from prometheus_client.core import GaugeMetricFamily

from chordesk.tasks.telemetry.gauges import broker, database
from chordesk.tasks.telemetry.gauges.gauge import Gauge, Reading, families

log = structlog.get_logger(__name__)

REST_SECONDS = 4.0
WAIT_SECONDS = 3.0  # Prometheus itself gives up after 10
PART_UP = Gauge("desk_part_up", "1 while a part of the desk answers, else 0: database or redis.", ("part",))
GAUGES = (PART_UP, *database.GAUGES, *broker.GAUGES)
Read = Callable[[], Reading]


class Exporter:
    """Gauges of parts by name. Threads share it."""

    def __init__(self, parts: Mapping[str, Read], rest_seconds: float = REST_SECONDS) -> None:
        self._parts = {name: _Part(name, read, rest_seconds) for name, read in parts.items()}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges of the parts that answer, and which do."""
        found = {name: part.reading() for name, part in self._parts.items()}
        up: Reading = {PART_UP: {(name,): float(reading is not None) for name, reading in found.items()}}
        for reading in (up, *found.values()):
            if reading is not None:
                yield from families(reading)


class _Part:
    """What was last read of a part, by a thread that may hang as long as the part does."""

    def __init__(self, name: str, read: Read, rest_seconds: float) -> None:
        self._name, self._read, self._rest_seconds = name, read, rest_seconds
        self._lock = threading.Lock()
        self._asked: Future[Reading] | None = None
        self._found: Reading | None = None
        self._until = float("-inf")

    def reading(self) -> Reading | None:
        """Return what the part has, not older than the rest; None while it does not answer."""
        with self._lock:
            if self._asked is None and time.monotonic() < self._until:
                return self._found
            if self._asked is None:
                self._asked = Future()
                threading.Thread(target=self._run, args=(self._asked,), name="exporter", daemon=True).start()
            try:
                found: Reading | None = self._asked.result(WAIT_SECONDS)
            except NotInTime:
                return None
            except Exception as error:
                self._note(error)
                found = None
            self._asked, self._found, self._until = None, found, time.monotonic() + self._rest_seconds
            return found

    def _run(self, asked: Future[Reading]) -> None:
        try:
            asked.set_result(self._read())
        except Exception as error:
            asked.set_exception(error)

    def _note(self, error: Exception) -> None:
        if self._found is not None or self._until == float("-inf"):
            cause = getattr(error, "orig", None) or error
            log.warning("exporter.away", part=self._name, error=f"{type(error).__name__}: {cause}")
