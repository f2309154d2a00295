"""The health of a process, and its server of that and of metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import structlog

from chordesk.tasks.telemetry.emit import Telemetry
from chordesk.tasks.telemetry.health import ProcessHealth
from chordesk.tasks.telemetry.serving import Collect, WatchServer

log = structlog.get_logger(__name__)


class ProcessWatch:
    """Watch over one process. telemetry: returns this process's; dropped: see `Metrics`."""

    def __init__(self, name: str, telemetry: Callable[[], Telemetry], dropped: Callable[[], Mapping[str, int]]) -> None:
        self.health = ProcessHealth(name)
        self._telemetry, self._dropped = telemetry, dropped
        self._collects: list[Collect] = []
        self._server: WatchServer | None = None

    def add(self, collect: Collect) -> None:
        """Show further metrics, from `serve` on. collect: returns them; a scrape waits for it."""
        self._collects.append(collect)

    def serve(self, role: str) -> None:
        """Begin to serve metrics and health, if a port is set. Raises SettingError when the address cannot be had.
        role: of this process."""
        self.health.role = role
        self._server = self._telemetry().serve(self.health, self._dropped, collects=self._collects)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
