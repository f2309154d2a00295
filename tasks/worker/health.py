"""The health of a worker, answered on a unix socket of its home: when the loop that takes messages turned last."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from celery import bootsteps

from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.worker.sockets import Health, health_path, make_folder

log = structlog.get_logger(__name__)

TICK_SECONDS = 1.0
BACKLOG = 8


class HealthSocket(bootsteps.StartStopStep):  # type: ignore[misc]
    """Answers health checks from a thread of its own, with the age of the loop's last tick: a loop that is stuck, or
    waits for a lost Redis, does not tick."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: Any, **options: Any) -> None:
        self._ticked: float | None = None
        self._entry: Any = None
        self._listener: socket.socket | None = None
        self._path: Path | None = None

    def start(self, consumer: Any) -> None:
        desk_of(consumer.app).watch.health.ready_by(lambda: self._why_not(consumer.hostname))
        if self._listener is None:
            self._serve(desk_of(consumer.app).settings.home, consumer.hostname)
        self._entry = consumer.timer.call_repeatedly(TICK_SECONDS, self._tick)

    def stop(self, consumer: Any) -> None:
        if self._entry is not None:
            self._entry.cancel()
            self._entry = None

    def shutdown(self, consumer: Any) -> None:
        self.stop(consumer)
        if self._listener is not None and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._listener.close()
            self._listener = None

    def _tick(self) -> None:
        self._ticked = time.monotonic()

    def _why_not(self, node: str) -> str | None:
        """Return why no messages are taken, None while they are."""
        found = Health(node, time.monotonic() - self._ticked if self._ticked is not None else None)
        if found.well:
            return None
        return f"{found}: it is stuck, or waits for Redis" if found.age is not None else str(found)

    def _serve(self, home: Path, node: str) -> None:
        listener, path = socket.socket(socket.AF_UNIX), health_path(home, node)
        try:
            make_folder(home)
            path.unlink(missing_ok=True)  # of a worker of this name that was killed
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            log.warning("health.no_socket", path=str(path), error=str(error))
            return
        self._listener, self._path = listener, path
        threading.Thread(target=self._answer, args=(listener, node), name="health", daemon=True).start()

    def _answer(self, listener: socket.socket, node: str) -> None:
        pid = os.getpid()
        while os.getpid() == pid:
            try:
                line, _ = listener.accept()
            except OSError:
                return  # closed
            age = f"{time.monotonic() - self._ticked:.3f}" if self._ticked is not None else ""
            with line, suppress(OSError):
                line.sendall(f"{node}\n{age}".encode())
