"""Metrics of workers for Prometheus: the same counts as in the database."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families
from sqlmodel import col, select

from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run, ToolCall, Turn
from tests.stack import wait_for
from tests.tasks.telemetry.asking import ask
from tests.tasks.telemetry.runs import TelemetryDesk

Counted = Counter[tuple[str, tuple[str, ...]]]


def totals(desk: TelemetryDesk) -> Counted:
    """Every counter of the desk and the count of every histogram, over all workers; labels by name."""
    found: Counted = Counter()
    for port in desk.ports.values():
        for family in text_string_to_metric_families(ask(port, "/metrics")[1]):
            for sample in family.samples:
                if sample.name.startswith("desk_") and sample.name.endswith(("_total", "_count")):
                    labels = tuple(value for _, value in sorted(sample.labels.items()))
                    found[sample.name, labels] += int(sample.value)
    return found


def expected(desk: TelemetryDesk) -> Counted:
    """The same, of all that is in the database."""
    found: Counted = Counter()
    with desk.store.read() as session:
        for run in session.exec(select(Run)).all():
            found["desk_runs_total", (run.kind, run.state)] += 1
            found["desk_run_seconds_count", (run.kind,)] += 1
        for turn in session.exec(select(Turn)).all():
            found["desk_turns_total", (turn.outcome, turn.role)] += 1
            found["desk_turn_seconds_count", (turn.role,)] += 1
            found["desk_tokens_total", ("input", turn.role)] += turn.input_tokens
            found["desk_tokens_total", ("output", turn.role)] += turn.output_tokens
        for call in session.exec(select(ToolCall)).all():
            found["desk_tool_invocations_total", (call.tool, str(call.success).lower())] += 1
            found["desk_tool_seconds_count", (call.tool,)] += 1
        for report in session.exec(select(Report).where(col(Report.grounding).is_not(None))).all():
            assert report.grounding is not None
            found["desk_figures_total", (report.role, "true")] += report.grounding["supported"]
            found["desk_figures_total", (report.role, "false")] += (
                report.grounding["figures"] - report.grounding["supported"]
            )
        for order in session.exec(select(Order)).all():
            found["desk_orders_total", (order.state,)] += 1
            found["desk_orders_total", ("submitting",)] += order.sent_at is not None
    return +found


def test_everything_is_counted_as_the_database_has_it(desk: TelemetryDesk, screen: Run) -> None:
    wanted = expected(desk)
    assert wanted["desk_orders_total", ("submitted",)] > 0
    runs = {key: count for key, count in wanted.items() if key[0] == "desk_runs_total"}
    wait_for(lambda: {key: totals(desk)[key] for key in runs} == runs, "all runs are counted")
    found = totals(desk)
    assert {key: found[key] for key in wanted} == dict(wanted)
    beyond = {name for name, _ in found.keys() - wanted.keys()}
    assert beyond <= {"desk_orders_total", "desk_events_dropped_total"}, (
        "orders come by states on their way to the last"
    )
    assert all(count == 0 for (name, _), count in found.items() if name == "desk_events_dropped_total")
