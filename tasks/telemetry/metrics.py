"""Prometheus metrics of one process, and the server of its metrics and health.

Imported by processes with a metrics port alone: the client library takes 50 ms to load.
"""

from __future__ import annotations

import asyncio
import email
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from chordesk.agents.roles import TOOLS
from chordesk.models.answers import Usage, acts
from chordesk.models.errors import SettingError
from chordesk.models.tables.runs import Turn
from chordesk.models.telemetry_events import Canonical, CodexErrorEvent, ReportGrounded, ToolInvocation
from chordesk.tasks.telemetry.process_health import Collect, ProcessHealth

log = structlog.get_logger(__name__)

# Seconds. A turn takes up to DESK_TURN_SECONDS, a run up to DESK_RUN_DEADLINE_MINUTES, a tool up to DESK_TOOL_SECONDS.
_TURN = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 180)
_RUN = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1800, 3600)
_TOOL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_TOKENS = ("input", "cached_input", "output", "reasoning")  # fields of Usage, without their ending


class Metrics:
    """Metrics of this process since its start. dropped: returns the number of events that each queue has dropped;
    health: with its role set; collects: return further metrics, with each scrape."""

    def __init__(
        self, dropped: Callable[[], Mapping[str, int]], health: ProcessHealth, collects: Sequence[Collect] = ()
    ) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        registry.register(_Collected(lambda: _drops(dropped())))
        ready = "1 while the process does its work, else 0; /health has the reason."
        state = Gauge("desk_ready", ready, ("role",), registry=registry).labels(health.role)
        state.set_function(lambda: float(not health.why_not_ready()))
        for collect in collects:
            registry.register(_Collected(collect))
        counter, seconds = partial(Counter, registry=registry), partial(Histogram, registry=registry)
        self._runs = counter("desk_runs", "Runs that ended.", ("kind", "state"))
        self._run_seconds = seconds("desk_run_seconds", "From opening a run to its end.", ("kind",), buckets=_RUN)
        self._turns = counter("desk_turns", "Turns that ended.", ("role", "outcome"))
        self._turn_seconds = seconds("desk_turn_seconds", "Length of turns.", ("role",), buckets=_TURN)
        self._tokens = counter("desk_tokens", "Tokens as the provider counted them.", ("role", "direction"))
        self._uncounted = counter("desk_usage_missing", "Turns without a usable figure.", ("role", "direction"))
        again = "Reports, and shards of screens, that counted again instead of a turn."
        self._reused = counter("desk_reused", again, ("role",))
        self._not_spent = counter("desk_tokens_not_spent", "Tokens of the turns that these had cost.", ("role",))
        self._tools = counter("desk_tool_invocations", "Tool calls that were answered.", ("name", "success"))
        rogue = "Tool calls that no tool of their turn answered."
        self._rogue = counter("desk_rogue_calls", rogue, ("role", "kind", "acts"))
        self._tool_seconds = seconds("desk_tool_seconds", "Length of tool calls.", ("name",), buckets=_TOOL)
        self._errors = counter("desk_codex_errors", "Failures of the provider or the runtime.", ("kind",))
        self._figures = counter("desk_figures", "Figures in the texts of reports.", ("role", "supported"))
        self._orders = counter("desk_orders", "Orders that came into a state.", ("state",))

    def run(self, kind: str, state: str, seconds: float) -> None:
        self._runs.labels(kind, state).inc()
        self._run_seconds.labels(kind).observe(seconds)

    def turn(self, role: str, outcome: str, seconds: float, spent: Usage | Turn) -> None:
        self._turns.labels(role, outcome).inc()
        self._turn_seconds.labels(role).observe(seconds)
        for direction in _TOKENS:
            tokens = getattr(spent, f"{direction}_tokens")
            if tokens is None:
                self._uncounted.labels(role, direction).inc()
            elif tokens:
                self._tokens.labels(role, direction).inc(tokens)

    def reused(self, role: str, tokens: int) -> None:
        self._reused.labels(role).inc()
        self._not_spent.labels(role).inc(tokens)

    def event(self, event: Canonical) -> None:
        """Count a canonical event, if it is one that is counted."""
        match event:
            case ToolInvocation():
                # A model may call an unknown tool by any name: that is not a label.
                name = event.name if event.name in TOOLS else "unknown"
                self._tools.labels(name, str(event.success).lower()).inc()
                self._tool_seconds.labels(name).observe(event.duration_ms / 1000)
                if event.rogue is not None:
                    self._rogue.labels(event.role, event.rogue, str(acts(event.name)).lower()).inc()
            case CodexErrorEvent():
                self._errors.labels(event.kind).inc()
            case ReportGrounded():
                for supported, count in (("true", event.supported), ("false", event.figures - event.supported)):
                    if count:
                        self._figures.labels(event.role, supported).inc(count)

    def order(self, state: str) -> None:
        self._orders.labels(state).inc()


def _drops(dropped: Mapping[str, int]) -> Iterable[Metric]:
    family = CounterMetricFamily("desk_events_dropped", "Events that a full queue dropped.", labels=["queue"])
    for queue, count in dropped.items():
        family.add_metric([queue], count)
    yield family


class _Collected(Collector):
    """Collector that asks another part of the process."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()


CLIENT_SECONDS = 5.0  # for a client to send its request, and to take its answer
HEAD_BYTES = 8 * 1024
CLIENTS = 512  # at once; the one that is there longest makes room
_REMEDY = "end what listens there, set another one for this process, or DESK_METRICS_PORT=0 for no metrics"
_HEALTH = {"/health": "ready", "/health/ready": "ready", "/health/live": "live"}  # what of it each path is about
_JSON = "application/json"


class WatchServer:
    """Server of /metrics and the paths of health, without a password. It answers from a loop of its own, and asks
    nothing outside the process for a health check. Raises SettingError when its address cannot be had: a port that is
    set is the one that something else was given to ask."""

    def __init__(self, host: str, port: int, health: ProcessHealth, metrics: Metrics) -> None:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listening = socket.create_server((str(address[0]), port), family=family)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            where = f"DESK_METRICS_HOST={host} and DESK_METRICS_PORT={port}"
            raise SettingError(f"{where}: cannot listen there: {reason or error}", remedy=_REMEDY) from None
        self._health, self._registry = health, metrics.registry
        self._clients: dict[asyncio.StreamWriter, None] = {}
        self.url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=[listening], name="watch", daemon=True)
        self._thread.start()

    def _run(self, listening: socket.socket) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(listening))

    async def _serve(self, listening: socket.socket) -> None:
        server = await asyncio.start_server(self._answered, sock=listening, limit=HEAD_BYTES)
        await self._ended.wait()
        server.close()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(CLIENT_SECONDS)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request, and drop a client that goes away, sends too much or nothing."""
        if len(self._clients) >= CLIENTS:
            next(iter(self._clients)).transport.abort()
        self._clients[writer] = None
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(await self._answer(head.decode("latin-1")))
                await writer.drain()
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass
        finally:
            self._clients.pop(writer, None)
            writer.close()

    async def _answer(self, head: str) -> bytes:
        first, _, rest = head.partition("\r\n")
        method, _, target = first.partition(" ")
        path = target.partition(" ")[0].partition("?")[0]
        status, kind, body = HTTPStatus.OK, _JSON, b""
        try:
            if path == "/metrics":
                kind, body = await _in_thread(partial(self._scrape, email.message_from_string(rest).get("accept", "")))
            else:
                status, found = self._state(method, path)
                body = json.dumps(found).encode() + b"\n"
        except Exception as error:
            log.error("metrics.failed", error=f"{type(error).__name__}: {error}")
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, b'{"error": "it failed: the log has the reason"}\n'
        lines = (
            f"HTTP/1.1 {status.value} {status.phrase}", f"Content-Type: {kind}", f"Content-Length: {len(body)}",
            "Cache-Control: no-store", "Connection: close", "", "",
        )  # fmt: skip
        return "\r\n".join(lines).encode() + (b"" if method == "HEAD" else body)

    def _scrape(self, accept: str) -> tuple[str, bytes]:
        write, kind = choose_encoder(accept)
        return kind, write(self._registry)

    def _state(self, method: str, path: str) -> tuple[HTTPStatus, Mapping[str, Any]]:
        found = self._health.answer()
        if path not in _HEALTH:
            return HTTPStatus.NOT_FOUND, {"error": f"there is no {path}", "paths": ["/metrics", *_HEALTH]}
        if method not in ("GET", "HEAD"):
            return HTTPStatus.METHOD_NOT_ALLOWED, {"error": f"{method} is not for {path}"}
        return HTTPStatus.OK if found[_HEALTH[path]] else HTTPStatus.SERVICE_UNAVAILABLE, found


T = TypeVar("T")


async def _in_thread(function: Callable[[], T]) -> T:
    """In a thread of no pool, which would hold up the end of this process."""
    loop, done = asyncio.get_running_loop(), Future[T]()

    def run() -> None:
        try:
            done.set_result(function())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, name="scrape", daemon=True).start()
    return await asyncio.wrap_future(done, loop=loop)
