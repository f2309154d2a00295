"""The watch that shows a process's health and metrics. It loads no telemetry: by default there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from chordesk.models.settings import Settings
from chordesk.tasks.telemetry.process_health import Collect, ProcessHealth

if TYPE_CHECKING:
    from chordesk.tasks.telemetry.emit import Telemetry
    from chordesk.tasks.telemetry.metrics import WatchServer


def has_telemetry(settings: Settings) -> bool:
    """Whether events, metrics or spans of a process go anywhere."""
    return bool(settings.telemetry_file or settings.metrics_port or settings.trace_url)


class ProcessWatch:
    """Watch over one process. port: of its metrics and health, 0 for none; telemetry: returns this process's; dropped:
    see `Metrics`."""

    def __init__(
        self, name: str, port: int, telemetry: Callable[[], Telemetry], dropped: Callable[[], Mapping[str, int]]
    ) -> None:
        self.health = ProcessHealth(name)
        self._port, self._telemetry, self._dropped = port, telemetry, dropped
        self._collects: list[Collect] = []
        self._server: WatchServer | None = None

    def add(self, collect: Collect) -> None:
        """Show further metrics, from `serve` on. collect: returns them; a scrape waits for it."""
        self._collects.append(collect)

    def serve(self, role: str) -> None:
        """Raises SettingError when the address cannot be had."""
        self.health.role = role
        if self._port:
            self._server = self._telemetry().serve(self.health, self._dropped, collects=self._collects)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
