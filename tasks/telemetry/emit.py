"""Telemetry of one process: canonical events, metrics and spans go where the settings say; its file and its watch."""

from __future__ import annotations

import datetime as dt
import importlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import structlog

from chordesk.agents.answers import fault
from chordesk.agents.runner import RoleRun
from chordesk.models.answers import Failed, Usage
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import ToolCall, Turn
from chordesk.models.telemetry_events import (
    Canonical,
    CodexErrorEvent,
    CodexTurnFailed,
    ReportGrounded,
    ToolInvocation,
    UsageMissing,
)
from chordesk.models.urls import is_loopback
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.telemetry.health import Collect, ProcessHealth, WatchServer
from chordesk.tasks.telemetry.runs import headers_of, role_fields

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_MODE = 0o640
CHECK_SECONDS = 1.0  # between two checks whether the file was moved away


class JsonLines:
    """Writer of one line a write at the file's current end: the kernel lets no other writer in between.

    A file that cannot be written loses its lines and logs one warning; it never fails the work.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file: int | None = None
        self._checked_at = 0.0
        self._lost = 0

    def check(self) -> None:
        """Raise SettingError when the file cannot be appended to."""
        try:
            os.close(self._open())
        except OSError as error:
            remedy = "name a file in a folder that may be written to, or leave it unset"
            raise SettingError(f"DESK_TELEMETRY_FILE={self.path}: {error.strerror}", remedy=remedy) from None

    def append(self, line: bytes) -> None:
        """Append a line, its newline included."""
        with self._lock:
            try:
                self._write(line)
            except OSError as error:
                self._close()
                if not self._lost:
                    log.warning("telemetry.not_written", file=str(self.path), error=error.strerror)
                self._lost += 1
                return
            if self._lost:
                log.warning("telemetry.written_again", file=str(self.path), lines_lost=self._lost)
                self._lost = 0

    def close(self) -> None:
        with self._lock:
            self._close()

    def _write(self, line: bytes) -> None:
        self._check()
        if self._file is None:
            self._file = self._open()
            line = b"\n" + line if _torn(self._file) else line
        if os.write(self._file, line) != len(line):
            raise OSError(0, "the disk took a part of a line")

    def _check(self) -> None:
        """Close a file that is no longer the one of this name, as after a rotation."""
        now = time.monotonic()
        if self._file is None or now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        try:
            same = os.path.samestat(os.stat(self.path), os.fstat(self._file))
        except FileNotFoundError:
            same = False
        if not same:
            self._close()

    def _open(self) -> int:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self.path, _FLAGS, _MODE)

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _torn(file: int) -> bool:
    """Return whether a full disk has left a part of a line at the end, which the next line must not join."""
    try:
        size = os.fstat(file).st_size
        return size > 0 and os.pread(file, 1, size - 1) != b"\n"
    except OSError:  # a pipe has no end to look at
        return False


if TYPE_CHECKING:
    from chordesk.tasks.telemetry.metrics import Metrics
    from chordesk.tasks.telemetry.traces import Ended, Spans

log = structlog.get_logger(__name__)

# Kinds of failures for which the runtime itself is to blame; the provider's own arrive as events while a turn runs.
_OF_THE_RUNTIME = frozenset(
    {"process_died", "rpc_timeout", "rpc_error", "codex_error", "binary_missing", "login_missing", "model_missing"}
)


class Telemetry:
    """Sink of canonical events, metrics and spans. When off, as by default, it costs a comparison and loads nothing.

    A file or a collector that fails raises nothing here: telemetry that is lost is one line in the log. Threads share
    it. instance: returns the name of this process among the desk's.
    """

    def __init__(self, settings: Settings, instance: Callable[[], str]) -> None:
        self._settings, self._instance = settings, instance
        self._file = JsonLines(settings.telemetry_file) if settings.telemetry_file is not None else None
        self._lock = threading.Lock()
        self._spans: Spans | None = None
        self.metrics: Metrics | None = None

    def check(self) -> None:
        """Raise SettingError when the settings cannot be met; a worker checks before it starts."""
        if self._file is not None:
            self._file.check()
        if self._settings.trace_url is not None:
            _traces()

    def serve(
        self,
        health: ProcessHealth,
        dropped: Callable[[], Mapping[str, int]],
        collects: Sequence[Collect] = (),
    ) -> WatchServer | None:
        """Serve metrics and health, and return the server; None when no port is set. Raises SettingError when the
        address cannot be had. dropped, collects: see `Metrics`."""
        host, port = self._settings.metrics_host, self._settings.metrics_port
        if not port:
            return None
        self.metrics = importlib.import_module("chordesk.tasks.telemetry.metrics").Metrics(dropped, health, collects)
        server = WatchServer(host, port, health, self.metrics.encoded)
        server.start()
        log.info("metrics.shown", url=f"{server.url}/metrics")
        if not is_loopback(host):
            log.warning("metrics.open", url=server.url, note="whatever reaches this address reads them: no password")
        return server

    def begin(self) -> None:
        """Start to give each task a span, in a worker."""
        if (spans := self.spans()) is not None:
            spans.join_celery()

    @property
    def wanted(self) -> bool:
        """Return whether the settings turn any of it on."""
        return bool(self._settings.telemetry_file or self._settings.metrics_port or self._settings.trace_url)

    @property
    def counts(self) -> bool:
        """Return whether canonical events are written or counted."""
        return self._file is not None or self.metrics is not None

    def spans(self) -> Spans | None:
        """Return this process's tracer, made with the first span; None when spans are off."""
        if self._settings.trace_url is None:
            return None
        with self._lock:
            if self._spans is None:
                self._spans = _traces().Spans(self._settings.trace_url, self._instance())
            return self._spans

    def emit(self, event: Canonical) -> None:
        """Write a canonical event, and count it."""
        if self._file is not None:
            self._file.append(event.line())
        if self.metrics is not None:
            if isinstance(event, ToolInvocation):
                self.metrics.tool(event)
            elif isinstance(event, CodexErrorEvent):
                self.metrics.codex_error(event)
            elif isinstance(event, ReportGrounded):
                self.metrics.grounded(event)

    def step(self, step: ClaimedStep) -> AbstractContextManager[Ended]:
        """Return the span of an attempt at a step, which yields a callback for its end and the reason."""
        spans = self.spans()
        return spans.step(step) if spans is not None else nullcontext(lambda _state, _why: None)

    def within(self, run_id: str) -> AbstractContextManager[None]:
        """Return a block whose messages join the run's trace. In a process without spans `headers` alone does that."""
        return self._spans.within(run_id) if self._spans is not None else nullcontext()

    def headers(self, run_id: str) -> dict[str, str]:
        """Return the trace headers of a run's message; none when spans are off."""
        return headers_of(run_id) if self._settings.trace_url is not None else {}

    def current_context(self) -> Any:
        """Return the tracing context of the caller, for a span that another thread makes; None without spans."""
        return _traces().contexts.get_current() if self._spans is not None else None

    def record_turns(self, step: ClaimedStep, role: str, subject: str, run: RoleRun) -> None:
        """Emit the turns and tool calls of a role's assignment that has ended."""
        spans = self.spans()
        if not self.counts and spans is None:
            return
        answered = list(zip(run.calls, run.called_at, strict=True))
        for turn in run.turns:
            own = [(call, at) for call, at in answered if call.turn_id == turn.id]
            if self.counts:
                self._emit_turn(turn, own, run)
            if spans is not None:
                spans.turn(turn, own)
        if not run.turns and isinstance(run.outcome, Failed):
            self._emit_cancelled(step, role, subject, run.outcome)

    def close(self) -> None:
        if self._spans is not None:
            self._spans.close()
        if self._file is not None:
            self._file.close()

    def _emit_turn(self, turn: Turn, calls: Sequence[tuple[ToolCall, dt.datetime]], run: RoleRun) -> None:
        about = {
            "run_id": turn.run_id,
            **role_fields(turn.role, turn.subject),
            "thread_id": turn.thread_id,
            "turn_id": turn.codex_turn_id or None,
        }
        for call, at in calls:
            self.emit(
                ToolInvocation(
                    **about, at=at, name=call.tool, success=call.success, duration_ms=round(call.seconds * 1000, 3)
                )
            )
        seconds = (turn.finished_at - turn.started_at).total_seconds()
        if self.metrics is not None:
            self.metrics.turn(turn.role, turn.outcome, seconds, turn)
        if missing := [name for name in Usage.model_fields if getattr(turn, name) is None]:
            self.emit(UsageMissing(**about, fields=missing))
        if turn.outcome != "failed":
            return
        kind = turn.failure_kind or "unknown"
        # The error of a first answer that had to be repaired is not kept: only its kind is.
        why = fault(run.outcome) if turn is run.turns[-1] and isinstance(run.outcome, Failed) else kind
        if kind in _OF_THE_RUNTIME:
            self.emit(CodexErrorEvent(**about, kind=kind, error=why, will_retry=False))
        self.emit(
            CodexTurnFailed(**about, kind=kind, error=why, attempt=turn.attempt, duration_ms=round(seconds * 1000, 3))
        )

    def _emit_cancelled(self, step: ClaimedStep, role: str, subject: str, outcome: Failed) -> None:
        """Emit a turn that its step's deadline has cut off, which leaves no row."""
        seconds = self._settings.step_deadline_seconds
        if self.metrics is not None:
            self.metrics.turn(role, outcome.outcome, seconds, Usage())
        self.emit(
            CodexTurnFailed(
                run_id=step.run_id,
                **role_fields(role, subject),
                kind=outcome.kind,
                error=fault(outcome),
                attempt=step.attempt,
                duration_ms=seconds * 1000,
            )
        )


def _traces() -> ModuleType:
    """Return the module of spans. Raises SettingError when its libraries are not installed."""
    try:
        return importlib.import_module("chordesk.tasks.telemetry.traces")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        remedy = "pip install 'chordesk[otel]', or leave it unset"
        raise SettingError(f"DESK_TRACE_URL needs the package {error.name}", remedy=remedy) from None


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
