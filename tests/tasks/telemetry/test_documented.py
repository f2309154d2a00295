"""The events have the fields of the desk's first documents, and no label is a model's text. That the reference's
tables are those of the code: `tests/docs/test_reference.py`."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import generate_latest

from chordesk.models.telemetry_events import EVENTS, ToolInvocation
from chordesk.tasks.telemetry.health import ProcessHealth
from chordesk.tasks.telemetry.metrics import Metrics

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


def test_the_events_are_the_promised_ones_with_the_promised_fields() -> None:
    fields = {
        str(one.model_fields["event"].default): {each.alias or name for name, each in one.model_fields.items()}
        for one in EVENTS
    }
    assert fields.keys() == PROMISED.keys()
    for name, promised in PROMISED.items():
        assert promised <= fields[name], name


def test_a_tool_that_there_is_not_is_no_label() -> None:
    metrics = Metrics(dict, ProcessHealth("research"))
    for number in range(3):
        about = {"run_id": "1", "mode": "research", "role": "risk", "name": f"made_up_{number}"}
        metrics.event(ToolInvocation(**about, success=False, duration_ms=1.0))
    value = metrics.registry.get_sample_value("desk_tool_invocations_total", {"name": "unknown", "success": "false"})
    assert value == 3
    assert "made_up" not in generate_latest(metrics.registry).decode()
