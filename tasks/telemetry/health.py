"""The health of a process, and the server of health and metrics: /metrics, /health, /health/live and /health/ready."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import structlog

from chordesk.models.errors import SettingError

# Returns why the process is not live, or not ready; None while it is.
Check = Callable[[], str | None]
STARTING = "it is starting"
STOPPING = "it is stopping"


class ProcessHealth:
    """Health of this process. role: of worker, or `beat`, `api`, `notify`; name: among the desk's processes. Threads
    share it.

    A process is not ready before `ready_by` has given it a check.
    """

    def __init__(self, role: str, name: str = "") -> None:
        self.role, self.name = role, name or role
        self._began = time.monotonic()
        self._ready: Check = lambda: STARTING
        self._stopping: Callable[[], bool] = lambda: False
        self._live: list[Check] = []

    def live_by(self, check: Check) -> None:
        """Add a check without which the process is to be ended: it must not ask another process."""
        self._live.append(check)

    def ready_by(self, check: Check) -> None:
        """Put a check in place of the one that decides on readiness: it must not wait for another process."""
        self._ready = check

    def stops_by(self, stopping: Callable[[], bool]) -> None:
        """Set what returns whether the process was asked to end; it is not ready from then on."""
        self._stopping = stopping

    def why_not_live(self) -> list[str]:
        """Return why the process is not live; nothing while it is."""
        return [why for check in self._live if (why := check()) is not None]

    def why_not_ready(self) -> list[str]:
        """Return why the process is not ready; nothing while it is."""
        found = self.why_not_live()
        why = STOPPING if self._stopping() else self._ready()
        return [*found, why] if why is not None else found

    def answer(self) -> dict[str, Any]:
        """Return what `/health` shows. why: the reasons for which it is not live or not ready."""
        dead, unready = self.why_not_live(), self.why_not_ready()
        return {
            "role": self.role,
            "name": self.name,
            "pid": os.getpid(),
            "seconds": round(time.monotonic() - self._began, 1),
            "live": not dead,
            "ready": not unready,
            "why": unready,
        }


# The server of a process's metrics and health: /metrics, /health, /health/live and /health/ready.
#
# It runs in threads of its own, and asks nothing outside the process for a health check. There is no password: it
# listens
# on loopback unless DESK_METRICS_HOST names another address.

log = structlog.get_logger(__name__)

JSON = "application/json"
CLIENT_SECONDS = 5.0  # for a client that sends nothing: its thread ends
POLL_SECONDS = 0.5
# Returns content type and body of the metrics in the format that a client accepts.
Encoded = Callable[[str], tuple[str, bytes]]
# Returns metrics for a scrape, as the client library has them.
Collect = Callable[[], Iterable[Any]]


class WatchServer:
    """The listening server. Raises SettingError when its address cannot be had: a port that is set is the one that
    something else was given to ask."""

    def __init__(self, host: str, port: int, health: ProcessHealth, metrics: Encoded) -> None:
        self._server = _bound(host, port, health, metrics)
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Answer from a thread of its own."""
        threading.Thread(target=self._server.serve_forever, args=(POLL_SECONDS,), name="watch", daemon=True).start()

    def close(self) -> None:
        """Stop answering, and free the address."""
        self._server.shutdown()
        self._server.server_close()


def _bound(host: str, port: int, health: ProcessHealth, metrics: Encoded) -> _Server:
    where = f"DESK_METRICS_HOST={host} and DESK_METRICS_PORT={port}"
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return _Server(family, address, health, metrics)
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise SettingError(
            f"{where}: cannot listen there: {reason or error}",
            remedy="end what listens there, set another one for this process, or DESK_METRICS_PORT=0 for no metrics",
        ) from None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, family: int, address: Any, health: ProcessHealth, metrics: Encoded) -> None:
        self.address_family = family
        self.health, self.metrics = health, metrics
        super().__init__(address[:2], _Handler)

    def server_bind(self) -> None:
        # http.server's own looks for the host's name, which may wait for a name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Drop a client that went away; log anything else, which would only show as a scrape that failed."""
        error = sys.exception()
        if not isinstance(error, OSError):
            log.error("metrics.failed", error=f"{type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "desk", ""
    timeout = CLIENT_SECONDS

    def do_GET(self) -> None:
        path, health = self.path.partition("?")[0], self.server.health
        if path == "/metrics":
            self._send(HTTPStatus.OK, *self.server.metrics(self.headers.get("Accept") or ""))
        elif path in ("/health", "/health/ready"):
            self._show(health.answer(), "ready")
        elif path == "/health/live":
            self._show(health.answer(), "live")
        else:
            there = ["/metrics", "/health", "/health/live", "/health/ready"]
            self._send(HTTPStatus.NOT_FOUND, JSON, _json({"error": f"there is no {path}", "paths": there}))

    do_HEAD = do_GET

    def _show(self, answer: dict[str, Any], wanted: str) -> None:
        status = HTTPStatus.OK if answer[wanted] else HTTPStatus.SERVICE_UNAVAILABLE
        self._send(status, JSON, _json(answer))

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing: a probe comes every few seconds."""


def _json(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer).encode() + b"\n"
