"""Telemetry of one process: canonical events, metrics and spans go where the settings say; its file."""

from __future__ import annotations

import datetime as dt
import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from io import TextIOWrapper
from logging.handlers import WatchedFileHandler
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import structlog

from chordesk.agents.turn_answers import fault
from chordesk.models.answers import Failed, Grounding, Usage
from chordesk.models.errors import SettingError
from chordesk.models.home import make_folder
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
from chordesk.tasks.telemetry.process_health import Collect, ProcessHealth
from chordesk.tasks.telemetry.run_summaries import headers_of, role_fields

if TYPE_CHECKING:
    from chordesk.agents.runner import RoleRun
    from chordesk.tasks.telemetry.metrics import Metrics, WatchServer
    from chordesk.tasks.telemetry.traces import Ended, Spans

log = structlog.get_logger(__name__)

# Kinds of failures for which the runtime itself is to blame; the provider's own arrive as events while a turn runs.
_OF_THE_RUNTIME = frozenset(
    {"process_died", "rpc_timeout", "rpc_error", "codex_error", "binary_missing", "login_missing", "model_missing"}
)


class EventFile(WatchedFileHandler):
    """File of events, one line each: they go to its end by one write, so that processes can share it. Lines that cannot
    be written are lost with one warning, until one can be; the work never fails."""

    _failed = _failed_before = False

    def __init__(self, path: Path) -> None:
        super().__init__(path, delay=True)

    def check(self) -> None:
        try:
            self._open().close()
        except OSError as error:
            remedy = "name a file in a folder that may be written to, or leave it unset"
            raise SettingError(f"DESK_TELEMETRY_FILE={self.baseFilename}: {error.strerror}", remedy=remedy) from None

    def append(self, event: Canonical) -> None:
        self.handle(logging.makeLogRecord({"msg": event.model_dump_json(by_alias=True, exclude_none=True)}))

    def emit(self, record: logging.LogRecord) -> None:
        self._failed_before, self._failed = self._failed, False
        try:
            super().emit(record)
        except OSError:  # a file that cannot be opened; of one that cannot be written to `handleError` is told
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Log the first failure of a row; logging's own would print the line."""
        self._failed = True
        if not self._failed_before:
            log.warning("telemetry.not_written", file=self.baseFilename, error=str(sys.exception()))

    def _open(self) -> TextIOWrapper:
        make_folder(Path(self.baseFilename).parent)
        return open(self.baseFilename, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600))


class Telemetry:
    """Sink of canonical events, metrics and spans. When off, as by default, it costs a comparison and loads nothing.

    A file or a collector that fails raises nothing here: telemetry that is lost is one line in the log. Threads share
    it. instance: returns the name of this process among the desk's.
    """

    def __init__(self, settings: Settings, instance: Callable[[], str]) -> None:
        self._settings, self._instance = settings, instance
        self._file = EventFile(settings.telemetry_file) if settings.telemetry_file is not None else None
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
        self, health: ProcessHealth, dropped: Callable[[], Mapping[str, int]], collects: Sequence[Collect] = ()
    ) -> WatchServer | None:
        """None when no port is set. Raises SettingError when the address cannot be had."""
        host, port = self._settings.metrics_host, self._settings.metrics_port
        if not port:
            return None
        module = importlib.import_module("chordesk.tasks.telemetry.metrics")
        self.metrics = module.Metrics(dropped, health, collects)
        server: WatchServer = module.WatchServer(host, port, health, self.metrics)
        log.info("metrics.shown", url=f"{server.url}/metrics")
        if not is_loopback(host):
            log.warning("metrics.open", url=server.url, note="whatever reaches this address reads them: no password")
        return server

    def begin(self) -> None:
        if (spans := self.spans()) is not None:
            spans.join_celery()

    @property
    def counts(self) -> bool:
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
        if self._file is not None:
            self._file.append(event)
        if self.metrics is not None:
            self.metrics.event(event)

    def step(self, step: ClaimedStep) -> AbstractContextManager[Ended]:
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
        answered = list(zip(run.calls, (one.at for one in run.recorded), strict=True))
        for turn in run.turns:
            own = [(call, at) for call, at in answered if call.turn_id == turn.id]
            if self.counts:
                self._emit_turn(turn, own, run)
            if spans is not None:
                spans.turn(turn, own)
        if not run.turns and isinstance(run.outcome, Failed):
            self._emit_cancelled(step, role, subject, run.outcome)

    def record_grounding(self, step: ClaimedStep, grounding: Grounding) -> None:
        event = ReportGrounded(
            run_id=step.run_id,
            mode="research",
            role=step.role,
            symbol=step.subject,
            figures=grounding.figures,
            supported=grounding.supported,
            share=grounding.share,
            unsupported=[one.figure for one in grounding.unsupported],
        )
        self.emit(event)

    def record_reused(self, role: str, tokens: int) -> None:
        """Count a turn that was not run. tokens: of the earlier one."""
        if self.metrics is not None:
            self.metrics.reused(role, tokens)

    def close(self) -> None:
        if self._spans is not None:
            self._spans.close()
        if self._file is not None:
            with suppress(OSError):
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
                    **about,
                    at=at,
                    name=call.tool,
                    success=call.success,
                    duration_ms=round(call.seconds * 1000, 3),
                    rogue=call.rogue,
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
