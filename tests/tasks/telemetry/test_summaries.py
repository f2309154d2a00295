"""Summaries of runs that went wrong, commits that become telemetry, and the fields that events promise."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from prometheus_client import generate_latest
from structlog.testing import capture_logs

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.telemetry_events import EVENTS, ToolInvocation
from chordesk.tasks.engine import graph
from chordesk.tasks.telemetry.commits import emitted
from chordesk.tasks.telemetry.metrics import Metrics
from chordesk.tasks.telemetry.process_health import ProcessHealth
from chordesk.tasks.telemetry.run_summaries import completed
from tests.builders import a_run, a_step

NOW = utcnow()


def at(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def test_a_mode_that_did_not_begin_has_no_summary(store: Store) -> None:
    with store.session() as session:
        run = a_run(session, state=RunState.STOPPED, params={"symbols": ["AAPL"], "lenses": ["technical"]})
        a_step(session, run, kind=StepKind.SCREEN, state=StepState.DONE, started_at=at(0), finished_at=at(1))
        a_step(session, run, kind=StepKind.MERGE, state=StepState.DONE, started_at=at(2), finished_at=at(2.5))
        a_step(session, run, kind=StepKind.REPORT, state=StepState.STOPPED, role="quick", started_at=at(3))
        a_step(session, run, kind=StepKind.DECIDE, state=StepState.STOPPED)
        screener, research = completed(session, run)
    assert (screener.mode, screener.state, screener.duration_ms) == ("screener", "stopped", 2500.0)
    assert (research.mode, research.duration_ms) == ("research", 0.0)


def test_a_failed_summary_costs_a_line_in_the_log_and_nothing_else(store: Store, tmp_path: Path) -> None:
    file = tmp_path / "telemetry.jsonl"
    settings = load_settings({"DESK_HOME": str(tmp_path), "DESK_TELEMETRY_FILE": str(file)}, tmp_path)
    with store.session() as session:
        run = a_run(session, kind=RunKind.RESEARCH)
    with capture_logs() as logged, emitted(settings, store, "test"):
        with store.session() as session:
            event_log.append(session, [event(EventType.TURN_ERROR, run.id), event(EventType.RUN_COMPLETED, "gone")])
        with suppress(RuntimeError), store.session() as session:
            graph.close_run(session, run.id, RunState.STOPPED, {}, [])
            raise RuntimeError("rolled back, so that nothing is recorded")
        with store.session() as session:
            graph.close_run(session, run.id, RunState.DONE, {}, [])
    lost = [row for row in logged if row["event"] == "telemetry.lost"]
    assert [row["about"] for row in lost] == ["turn.error", "run.completed"]
    (line,) = file.read_text().splitlines()
    summary = json.loads(line)
    assert (summary["event"], summary["run_id"], summary["state"]) == ("research.run.completed", run.id, "done")


def test_a_run_that_was_stopped_before_it_began_is_recorded_with_its_kind(store: Store) -> None:
    with store.session() as session:
        run = a_run(session, kind=RunKind.TRADE, state=RunState.STOPPED, params={"source_run": "gone"})
        a_step(session, run, kind=StepKind.DECIDE, state=StepState.STOPPED)
        (summary,) = completed(session, run)
        assert completed(session, a_run(session, kind=RunKind.FLATTEN, state=RunState.DONE)) == [], "a person's"
    assert (summary.mode, summary.duration_ms, summary.turns, summary.candidate_count) == ("trader", 0.0, 0, 0)


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
