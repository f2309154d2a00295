"""Prometheus metrics of one process.

Imported by processes with a metrics port alone: the client library takes 50 ms to load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from chordesk.agents.roles import TOOLS
from chordesk.models.answers import Usage
from chordesk.models.tables.runs import Turn
from chordesk.models.telemetry_events import CodexErrorEvent, ReportGrounded, ToolInvocation
from chordesk.tasks.telemetry.health import Collect, ProcessHealth

# Seconds. A turn takes up to DESK_TURN_SECONDS, a run up to DESK_RUN_DEADLINE_MINUTES, a tool up to DESK_TOOL_SECONDS.
_TURN = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 180)
_RUN = (1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640, 1800, 3600)
_TOOL = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20)
_TOKENS = ("input", "cached_input", "output", "reasoning")  # fields of Usage, without their ending


class Metrics:
    """Metrics of this process since its start. dropped: returns the number of events that each queue has dropped;
    collects: return further metrics, with each scrape."""

    def __init__(
        self, dropped: Callable[[], Mapping[str, int]], health: ProcessHealth, collects: Sequence[Collect] = ()
    ) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.registry.register(_Dropped(dropped))
        self.registry.register(_State(health))
        for collect in collects:
            self.registry.register(_Others(collect))
        self._runs = self._counter("desk_runs", "Runs that ended.", "kind", "state")
        self._run_seconds = self._histogram("desk_run_seconds", "From opening a run to its end.", _RUN, "kind")
        self._turns = self._counter("desk_turns", "Turns that ended.", "role", "outcome")
        self._turn_seconds = self._histogram("desk_turn_seconds", "Length of turns.", _TURN, "role")
        self._tokens = self._counter("desk_tokens", "Tokens as the provider counted them.", "role", "direction")
        self._uncounted = self._counter("desk_usage_missing", "Turns without a usable figure.", "role", "direction")
        self._tools = self._counter("desk_tool_invocations", "Tool calls that were answered.", "name", "success")
        self._tool_seconds = self._histogram("desk_tool_seconds", "Length of tool calls.", _TOOL, "name")
        self._errors = self._counter("desk_codex_errors", "Failures of the provider or the runtime.", "kind")
        self._figures = self._counter("desk_figures", "Figures in the texts of reports.", "role", "supported")
        self._orders = self._counter("desk_orders", "Orders that came into a state.", "state")

    def run(self, kind: str, state: str, seconds: float) -> None:
        self._runs(kind, state).inc()
        self._run_seconds(kind).observe(seconds)

    def turn(self, role: str, outcome: str, seconds: float, spent: Usage | Turn) -> None:
        self._turns(role, outcome).inc()
        self._turn_seconds(role).observe(seconds)
        for direction in _TOKENS:
            tokens = getattr(spent, f"{direction}_tokens")
            if tokens is None:
                self._uncounted(role, direction).inc()
            elif tokens:
                self._tokens(role, direction).inc(tokens)

    def tool(self, called: ToolInvocation) -> None:
        # A model may call an unknown tool by any name: that is no label.
        name = called.name if called.name in TOOLS else "unknown"
        self._tools(name, str(called.success).lower()).inc()
        self._tool_seconds(name).observe(called.duration_ms / 1000)

    def grounded(self, report: ReportGrounded) -> None:
        for supported, count in (("true", report.supported), ("false", report.figures - report.supported)):
            if count:
                self._figures(report.role, supported).inc(count)

    def codex_error(self, error: CodexErrorEvent) -> None:
        self._errors(error.kind).inc()

    def order(self, state: str) -> None:
        self._orders(state).inc()

    def encoded(self, accept: str) -> tuple[str, bytes]:
        """Return content type and text of all metrics, in the format that a client accepts best."""
        encode, kind = choose_encoder(accept)
        return kind, encode(self.registry)

    # Cached by the values of the labels: `labels` takes a lock and several times as long as counting.

    def _counter(self, name: str, what: str, *labels: str) -> Callable[..., Counter]:
        return cache(Counter(name, what, labels, registry=self.registry).labels)

    def _histogram(self, name: str, what: str, buckets: Iterable[float], *labels: str) -> Callable[..., Histogram]:
        return cache(Histogram(name, what, labels, buckets=tuple(buckets), registry=self.registry).labels)


class _Dropped(Collector):
    """Collector of the queues' own counts."""

    def __init__(self, dropped: Callable[[], Mapping[str, int]]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily("desk_events_dropped", "Events that a full queue dropped.", labels=["queue"])
        for queue, count in self._dropped().items():
            family.add_metric([queue], count)
        yield family


class _State(Collector):
    """Collector of the state of this process."""

    def __init__(self, health: ProcessHealth) -> None:
        self._health = health

    def collect(self) -> Iterable[GaugeMetricFamily]:
        what = "1 while the process does its work, else 0; /health has the reason."
        ready = GaugeMetricFamily("desk_ready", what, labels=["role"])
        ready.add_metric([self._health.role], float(not self._health.why_not_ready()))
        yield ready


class _Others(Collector):
    """Collector of what another part of the process shows."""

    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Return nothing: without it the registry would collect once when it takes this collector."""
        return ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._collect()
