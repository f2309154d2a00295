"""The documented tables of events and metrics are those of the code, and the events have the fields of the desk's first
documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from chordesk.models.answers import Usage
from chordesk.models.telemetry_events import EVENTS, Canonical, CodexErrorEvent, ReportGrounded, ToolInvocation
from chordesk.tasks.telemetry.gauges import DESK_GAUGES as OF_DESK
from chordesk.tasks.telemetry.gauges import NOTIFICATION_GAUGES as OF_NOTIFICATIONS
from chordesk.tasks.telemetry.gauges import WORKER_GAUGES as OWN
from chordesk.tasks.telemetry.health import ProcessHealth
from chordesk.tasks.telemetry.metrics import Metrics
from tests.stack import REPOSITORY

_CODE = re.compile(r"`([^`]+)`")
COMMON = {"event", "at", "run_id"}
# What the first documents name for each event.
PROMISED: Mapping[str, set[str]] = {
    "screener.run.completed": {
        "mode", "duration_ms", "symbols", "candidateCount", "errors", "candidates", "screenerType",
    },
    "research.run.completed": {
        "mode", "duration_ms", "symbols", "candidateCount", "errors", "rolesRun", "skippedRoles",
    },
    "trader.run.completed": {"mode", "duration_ms", "symbols", "candidateCount", "errors"},
    "codex.error": set(),
    "codex.turn.failed": {"mode", "symbol", "error"},
    "codex.usage.missing": {"fields"},
    "tool.invocation": {"name", "success", "duration_ms"},
    "report.grounded": {"figures", "supported", "share", "unsupported"},
}  # fmt: skip


def rows(header: str) -> Iterator[list[str]]:
    """The cells of the reference's table that begins with this header."""
    lines = iter((REPOSITORY / "docs" / "reference" / "telemetry.md").read_text().split("\n"))
    for line in lines:
        if line.startswith(f"| {header} |"):
            break
    next(lines)
    for line in lines:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def name_of(event: type[Canonical]) -> str:
    return str(event.model_fields["event"].default)


def fields_of(event: type[Canonical]) -> list[str]:
    return [field.alias or name for name, field in event.model_fields.items() if name not in COMMON]


def test_every_event_is_documented_field_by_field() -> None:
    documented = {_CODE.findall(cells[0])[0]: _CODE.findall(cells[2]) for cells in rows("event")}
    assert documented == {name_of(event): fields_of(event) for event in EVENTS}


def test_the_events_are_the_promised_ones_with_the_promised_fields() -> None:
    assert {name_of(event) for event in EVENTS} == set(PROMISED)
    for event in EVENTS:
        assert PROMISED[name_of(event)] <= set(fields_of(event)), name_of(event)


def test_every_metric_is_documented_with_its_labels() -> None:
    documented = {_CODE.findall(cells[0])[0]: set(_CODE.findall(cells[2])) for cells in rows("metric")}
    gauges = {gauge.name: set(gauge.labels) for gauge in (*OWN, *OF_DESK, *OF_NOTIFICATIONS)}
    assert documented == shown(used()) | gauges
    assert not shown(used()).keys() & gauges.keys()


def used() -> Metrics:
    """The metrics of a process in which each thing happened once."""
    metrics = Metrics(lambda: {"telemetry": 1}, ProcessHealth("research"))
    metrics.run("screen", "done", 1.0)
    metrics.turn("risk", "completed", 0.5, Usage(input_tokens=9, output_tokens=1, total_tokens=10))
    about = {"run_id": "1", "mode": "research", "role": "risk"}
    metrics.turn("risk", "completed", 0.5, Usage.unknown())
    metrics.tool(ToolInvocation(**about, name="signals_get", success=True, duration_ms=2.0))
    metrics.codex_error(CodexErrorEvent(**about, kind="overloaded", error="it is", will_retry=True))
    metrics.order("filled")
    metrics.grounded(ReportGrounded(**about, figures=3, supported=2, share=0.6667, unsupported=["12.3"]))
    return metrics


def shown(metrics: Metrics) -> dict[str, set[str]]:
    """The desk's own metrics, as they are named when they are asked for, and their labels."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        if not family.name.startswith("desk_"):
            continue
        name = f"{family.name}_total" if family.type == "counter" else family.name
        if not name.endswith("_created"):
            found[name] = {label for sample in family.samples for label in sample.labels} - {"le"}
    return found


def test_a_tool_that_there_is_not_is_no_label() -> None:
    metrics = used()
    for number in range(3):
        wrong = ToolInvocation(
            run_id="1", mode="research", role="risk", name=f"made_up_{number}", success=False, duration_ms=1.0
        )
        metrics.tool(wrong)
    value = metrics.registry.get_sample_value("desk_tool_invocations_total", {"name": "unknown", "success": "false"})
    assert value == 3
    assert "made_up" not in generate_latest(metrics.registry).decode()
