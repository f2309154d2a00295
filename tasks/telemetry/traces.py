"""Spans of runs, steps, turns, tool calls and orders, sent by OTLP/HTTP, in one trace with Celery's own.

Imported only where a trace URL is set: it needs the extra `otel` and takes 200 ms to load.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from urllib.parse import urlsplit, urlunsplit

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, Status, StatusCode, TraceFlags

from chordesk.models.states import RunState, StepState
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Run, ToolCall, Turn
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.telemetry.run_summaries import trace_of

EXPORT_SECONDS = 5.0
EVERY_SECONDS = 1.0
QUEUED = 8192  # spans; more are dropped while the collector is away
CLOSE_SECONDS = 2.0
_WHY_CHARS = 500

Value = str | int | float | bool | None
Ended = Callable[[str, str | None], None]


class Spans:
    """Tracer of one process. instance: its name among the desk's processes."""

    def __init__(self, url: str, instance: str) -> None:
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "chordesk", "service.instance.id": instance}),
            sampler=ParentBased(ALWAYS_ON),
            id_generator=self._ids,
            shutdown_on_exit=False,
        )
        exporter = OTLPSpanExporter(endpoint=endpoint(url), timeout=EXPORT_SECONDS)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, max_queue_size=QUEUED, schedule_delay_millis=EVERY_SECONDS * 1000)
        )
        self._tracer = self._provider.get_tracer("chordesk")

    def join_celery(self) -> None:
        """Give each message that this process sends or receives a span from now on."""
        instrumentor = CeleryInstrumentor()  # type: ignore[no-untyped-call]
        if instrumentor.is_instrumented_by_opentelemetry:  # by the parent of a forked process
            instrumentor.uninstrument()
        instrumentor.instrument(tracer_provider=self._provider)

    @contextmanager
    def within(self, run_id: str) -> Iterator[None]:
        token = contexts.attach(_parent(run_id) or contexts.get_current())
        try:
            yield
        finally:
            contexts.detach(token)

    @contextmanager
    def step(self, step: ClaimedStep) -> Iterator[Ended]:
        about: dict[str, Value] = {
            "desk.run": step.run_id,
            "desk.step": step.id,
            "desk.role": step.role,
            "desk.subject": step.subject,
            "desk.attempt": step.attempt,
        }
        with (
            self.within(step.run_id),
            self._tracer.start_as_current_span(f"step {step.kind}", attributes=about) as span,
        ):

            def ended(state: str, why: str | None) -> None:
                _outcome(span, state, why, failed=state == StepState.FAILED)

            yield ended

    def turn(self, turn: Turn, calls: Sequence[tuple[ToolCall, dt.datetime]]) -> None:
        about: dict[str, Value] = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": turn.provider,
            "gen_ai.request.model": turn.model,
            "gen_ai.usage.input_tokens": turn.input_tokens,
            "gen_ai.usage.output_tokens": turn.output_tokens,
            "desk.role": turn.role,
            "desk.subject": turn.subject,
            "gen_ai.conversation.id": turn.thread_id,
            "desk.turn": turn.codex_turn_id,
        }
        span = self._begin(f"turn {turn.role}", _parent(turn.run_id), turn.started_at, about)
        under = trace.set_span_in_context(span)
        for call, answered_at in calls:
            self._tool(call, answered_at, under)
        _outcome(span, turn.outcome, turn.failure_kind, failed=turn.outcome == "failed")
        span.end(_nanoseconds(turn.finished_at))

    def _tool(self, call: ToolCall, answered_at: dt.datetime, parent: Context) -> None:
        about: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.tool}
        began = answered_at - dt.timedelta(seconds=call.seconds)
        span = self._begin(f"execute_tool {call.tool}", parent, began, about)
        _outcome(span, "answered" if call.success else "failed", None, failed=not call.success)
        span.end(_nanoseconds(answered_at))

    def submission(self, order: Order, answered_at: dt.datetime, state: str, near: Context | None) -> None:
        span = self._begin("order submit", _parent(order.run_id, near), order.sent_at or answered_at, _about(order))
        _outcome(span, state, order.message, failed=state in ("rejected", "unknown"))
        span.end(_nanoseconds(answered_at))

    def fill(self, order: Order, fill: Fill, near: Context | None) -> None:
        about = {**_about(order), "order.fill.quantity": fill.quantity, "order.fill.price": fill.price}
        span = self._begin("order fill", _parent(order.run_id, near), order.sent_at or fill.created_at, about)
        span.end(_nanoseconds(fill.created_at))

    def run(self, run: Run) -> None:
        found, ended_at = trace_of(run.id), run.finished_at
        if found is None or ended_at is None:
            return
        about: dict[str, Value] = {"desk.run": run.id, "desk.account": run.account, "desk.market": run.market}
        with self._ids.forced(*found):
            span = self._begin(f"run {run.kind}", Context(), run.created_at, about)
        _outcome(span, run.state, "; ".join(run.notes) or None, failed=run.state == RunState.FAILED)
        span.end(_nanoseconds(ended_at))

    def close(self) -> None:
        # The SDK's own shutdown waits half a minute for a collector that is away.
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)

    def _begin(self, name: str, parent: Context | None, at: dt.datetime, about: Mapping[str, Value]) -> Span:
        known = {key: value for key, value in about.items() if value is not None}
        return self._tracer.start_span(name, parent, attributes=known, start_time=_nanoseconds(at))


class _Ids(RandomIdGenerator):
    """Generator of random ids, except for a span with given ids."""

    def __init__(self) -> None:
        self._given: ContextVar[tuple[int, int] | None] = ContextVar("given", default=None)

    @contextmanager
    def forced(self, trace_id: int, span_id: int) -> Iterator[None]:
        token = self._given.set((trace_id, span_id))
        try:
            yield
        finally:
            self._given.reset(token)

    def generate_trace_id(self) -> int:
        given = self._given.get()
        return given[0] if given is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        given = self._given.get()
        return given[1] if given is not None else super().generate_span_id()


def endpoint(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path="/v1/traces")) if parts.path in ("", "/") else url


def _parent(run_id: str, near: Context | None = None) -> Context | None:
    found = trace_of(run_id)
    if found is None:
        return near
    current = trace.get_current_span(near).get_span_context()
    if current.is_valid and current.trace_id == found[0]:
        return near
    above = SpanContext(found[0], found[1], is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
    return trace.set_span_in_context(NonRecordingSpan(above), Context())


def _about(order: Order) -> dict[str, Value]:
    symbol = order.contract or order.symbol
    return {"order.id": order.id, "order.symbol": symbol, "order.side": order.side, "order.quantity": order.quantity}


def _outcome(span: Span, outcome: str, why: str | None, *, failed: bool) -> None:
    span.set_attribute("desk.outcome", outcome)
    if why:
        span.set_attribute("desk.why", why[:_WHY_CHARS])
    if failed:
        span.set_status(Status(StatusCode.ERROR, (why or outcome)[:_WHY_CHARS]))


def _nanoseconds(at: dt.datetime) -> int:
    return round(at.timestamp() * 1_000_000) * 1000
