"""The telemetry of one process: what happened is told once here, and goes where the settings say."""

from __future__ import annotations

import datetime as dt
import importlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

import structlog

from agents.roles import mode_of
from agents.runner import RoleRun, fault
from models.errors import SettingError
from models.research import Failed, Usage
from models.settings import Settings
from models.tables import ToolCall, Turn
from models.telemetry import Canonical, CodexError, CodexTurnFailed, ToolInvocation
from tasks.graph import Claimed
from tasks.telemetry.file import JsonLines
from tasks.telemetry.modes import symbol_of
from tasks.telemetry.trace_ids import headers_of

if TYPE_CHECKING:
    from tasks.telemetry.metrics import Metrics
    from tasks.telemetry.traces import Spans

log = structlog.get_logger(__name__)

Ended = Callable[[str, str | None], None]

# Kinds of failures for which the runtime itself is to blame; the provider's own arrive as events while a turn runs.
_OF_THE_RUNTIME = frozenset(
    {"process_died", "rpc_timeout", "rpc_error", "codex_error", "binary_missing", "login_missing", "model_missing"}
)


class Telemetry:
    """Where canonical events, metrics and spans go. Off, which is the default, it costs a comparison and loads nothing.

    Nothing here raises because of what it writes to: telemetry that is lost costs a line in the log. Threads share it.
    instance: this process's name among the desk's.
    """

    def __init__(self, settings: Settings, instance: Callable[[], str]) -> None:
        self._settings, self._instance = settings, instance
        self._file = JsonLines(settings.telemetry_file) if settings.telemetry_file is not None else None
        self._lock = threading.Lock()
        self._spans: Spans | None = None
        self.metrics: Metrics | None = None

    def check(self) -> None:
        """Raises SettingError when what the settings ask for cannot be had; a worker asks before it begins."""
        if self._file is not None:
            self._file.check()
        if self._settings.trace_url is not None:
            _traces()

    def begin(self, dropped: Callable[[], Mapping[str, int]]) -> None:
        """In a worker: show the metrics, and give each task a span. dropped: see `Metrics`."""
        if port := self._settings.metrics_port:
            metrics = importlib.import_module("tasks.telemetry.metrics")
            self.metrics = metrics.Metrics(dropped)
            try:
                log.info("metrics.shown", url=f"http://{metrics.LOOPBACK}:{self.metrics.serve(port)}/metrics")
            except SettingError as error:
                log.error("metrics.not_shown", error=str(error))
        if (spans := self.spans()) is not None:
            spans.join_celery()

    @property
    def wanted(self) -> bool:
        """Whether the settings ask for any of it."""
        return bool(self._settings.telemetry_file or self._settings.metrics_port or self._settings.trace_url)

    @property
    def counts(self) -> bool:
        """Whether anybody is told of canonical events."""
        return self._file is not None or self.metrics is not None

    def spans(self) -> Spans | None:
        """This process's tracer, made with the first span; None when spans go nowhere."""
        if self._settings.trace_url is None:
            return None
        with self._lock:
            if self._spans is None:
                self._spans = _traces().Spans(self._settings.trace_url, self._instance())
            return self._spans

    def emit(self, event: Canonical) -> None:
        """Writes a canonical event, and counts it."""
        if self._file is not None:
            self._file.append(event.line())
        if self.metrics is not None:
            if isinstance(event, ToolInvocation):
                self.metrics.tool(event)
            elif isinstance(event, CodexError):
                self.metrics.codex_error(event)

    @contextmanager
    def step(self, step: Claimed) -> Iterator[Ended]:
        """The span of an attempt at a step; yields what takes how it ended, and why."""
        spans = self.spans()
        if spans is None:
            yield _nobody
            return
        with spans.step(step) as ended:
            yield ended

    @contextmanager
    def within(self, run_id: str) -> Iterator[None]:
        """What is sent in the block belongs to the run's trace. A process without spans says so by `headers` alone."""
        if self._spans is None:
            yield
            return
        with self._spans.within(run_id):
            yield

    def headers(self, run_id: str) -> dict[str, str]:
        """What a message of the run carries; nothing when spans go nowhere."""
        return headers_of(run_id) if self._settings.trace_url is not None else {}

    def here(self) -> Any:
        """The tracing context of the caller, for a span that another thread makes; None without spans."""
        return _traces().here() if self._spans is not None else None

    def turned(self, step: Claimed, role: str, subject: str, run: RoleRun) -> None:
        """A role's assignment has ended, with its turns and their tool calls."""
        spans = self.spans()
        if not self.counts and spans is None:
            return
        answered = list(zip(run.calls, run.called_at, strict=True))
        for turn in run.turns:
            own = [(call, at) for call, at in answered if call.turn_id == turn.id]
            if self.counts:
                self._turn(turn, own, run)
            if spans is not None:
                spans.turn(turn, own)
        if not run.turns and isinstance(run.outcome, Failed):
            self._cancelled(step, role, subject, run.outcome)

    def close(self) -> None:
        if self._spans is not None:
            self._spans.close()
        if self._file is not None:
            self._file.close()

    def _turn(self, turn: Turn, calls: Sequence[tuple[ToolCall, dt.datetime]], run: RoleRun) -> None:
        about = {
            "run_id": turn.run_id,
            "mode": mode_of(turn.role),
            "role": turn.role,
            "symbol": symbol_of(turn.role, turn.subject),
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
        if turn.outcome != "failed":
            return
        kind = turn.failure_kind or "unknown"
        # The words of a first answer that had to be repaired are not kept: its kind says it.
        why = fault(run.outcome) if turn is run.turns[-1] and isinstance(run.outcome, Failed) else kind
        if kind in _OF_THE_RUNTIME:
            self.emit(CodexError(**about, kind=kind, error=why, will_retry=False))
        self.emit(
            CodexTurnFailed(**about, kind=kind, error=why, attempt=turn.attempt, duration_ms=round(seconds * 1000, 3))
        )

    def _cancelled(self, step: Claimed, role: str, subject: str, outcome: Failed) -> None:
        """A turn that its step's deadline has cut off leaves no row."""
        seconds = self._settings.step_deadline_seconds
        if self.metrics is not None:
            self.metrics.turn(role, outcome.outcome, seconds, Usage())
        self.emit(
            CodexTurnFailed(
                run_id=step.run_id,
                mode=mode_of(role),
                role=role,
                symbol=symbol_of(role, subject),
                kind=outcome.kind,
                error=fault(outcome),
                attempt=step.attempt,
                duration_ms=seconds * 1000,
            )
        )


def _nobody(state: str, why: str | None) -> None:
    """Takes how a step ended when nobody is told of it."""


def _traces() -> ModuleType:
    """The module of spans. Raises SettingError when its libraries are not installed."""
    try:
        return importlib.import_module("tasks.telemetry.traces")
    except ModuleNotFoundError as error:
        if not str(error.name).startswith("opentelemetry"):
            raise
        remedy = "pip install 'chordesk[otel]', or leave it unset"
        raise SettingError(f"DESK_TRACE_URL needs the package {error.name}", remedy=remedy) from None
