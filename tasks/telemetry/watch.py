"""The health of a process, and its server of that and of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from chordesk.models.errors import SettingError
from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.telemetry.health import ProcessHealth
from chordesk.tasks.telemetry.serving import Collect, WatchServer

log = structlog.get_logger(__name__)


class ProcessWatch:
    """Watch over one process. telemetry: returns this process's; dropped: see `Metrics`. A forked child goes on with
    the object of its parent."""

    def __init__(self, name: str, telemetry: Callable[[], Telemetry], dropped: Callable[[], Mapping[str, int]]) -> None:
        self.health = ProcessHealth(name)
        self._telemetry, self._dropped = telemetry, dropped
        self._collects: list[Collect] = []
        self._server: WatchServer | None = None

    def add(self, collect: Collect) -> None:
        """Show further metrics, from `serve` on. collect: returns them; a scrape waits for it. Not for a pool's
        children, which have what is their own."""
        self._collects.append(collect)

    def serve(self, role: str) -> None:
        """Begin to serve metrics and health, if a port is set. Raises SettingError when the address cannot be had.
        role: of this process."""
        self.health.role = role
        self._server = self._telemetry().serve(self.health, self._dropped, collects=self._collects)

    def serve_in_child(self, number: int) -> None:
        """Do so in a forked child of a pool, on the port that is `number` after its parent's."""
        if self._server is None:
            return
        self._server.leave()
        self.health.ready_by(lambda: None)  # the loop that takes messages is its parent's
        try:
            self._server = self._telemetry().serve(self.health, self._dropped, number, self._collects[:1])
        except SettingError as error:
            self._server = None
            log.error("metrics.not_shown", error=str(error))

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
