"""Lines of the file and counts of the metrics for a run that has ended, against the database."""

from __future__ import annotations

from collections import Counter
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from sqlmodel import col, select

from chordesk.models.answers import Usage
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, ScreenHit, ToolCall, Turn, Verdict
from chordesk.models.telemetry_events import EVENTS
from tests.stack import wait_for
from tests.tasks.telemetry.asking import ask
from tests.tasks.telemetry.runs import TelemetryDesk


def complete_lines(desk: TelemetryDesk, run: Run, last: str) -> list[dict[str, Any]]:
    """The lines of a run, once the one that comes last is there."""
    wait_for(lambda: last in {line["event"] for line in desk.lines(run)}, f"{last} is recorded")
    return desk.lines(run)


def spent(turns: list[Turn]) -> dict[str, int]:
    return {name: sum(getattr(turn, name) for turn in turns) for name in Usage.model_fields}


def test_a_screen_that_fills_records_its_three_modes_once(desk: TelemetryDesk, screen: Run) -> None:
    lines = complete_lines(desk, screen, "trader.run.completed")
    assert {line["event"] for line in lines} <= {str(event.model_fields["event"].default) for event in EVENTS}
    ends = {line["event"]: line for line in lines if line["event"].endswith(".run.completed")}
    assert [line["event"] for line in lines if line["event"] in ends] == list(ends), "each once"
    with desk.store.read() as session:
        candidates = session.exec(
            select(Candidate).where(Candidate.run_id == screen.id).order_by(col(Candidate.rank))
        ).all()
        turns = session.exec(select(Turn).where(Turn.run_id == screen.id)).all()
        reports = session.exec(select(Report).where(Report.run_id == screen.id)).all()
        ratings = session.exec(select(Verdict.rating).where(Verdict.run_id == screen.id)).all()
        hits = session.exec(select(ScreenHit.id).where(ScreenHit.run_id == screen.id)).all()
        orders = session.exec(select(Order.state).where(Order.run_id == screen.id)).all()
        (decision,) = session.exec(select(Decision).where(Decision.run_id == screen.id)).all()
    symbols = [candidate.symbol for candidate in candidates]
    for end in ends.values():
        assert (end["state"], end["errors"], end["candidateCount"]) == ("done", [], 4)
        assert 0 < end["duration_ms"] < screen.summary["seconds"] * 1000
    screener, research, trader = ends.values()
    assert (screener["mode"], research["mode"], trader["mode"]) == ("screener", "research", "trader")
    assert screener["symbols"] == research["symbols"] == symbols
    assert [one["symbol"] for one in screener["candidates"]] == symbols
    assert (screener["universe"], screener["hits"]) == (30, len(hits))
    assert screener["screenerType"] == "technical,fundamental,catalyst,options"
    ran = {(report.symbol, report.role) for report in reports}
    assert {(symbol, role) for symbol, roles in research["rolesRun"].items() for role in roles} == ran
    assert (research["skippedRoles"], research["verdicts"]) == ({}, Counter(ratings))
    assert trader["symbols"] == [action["symbol"] for action in decision.actions]
    assert trader["actions"] == Counter(action["action"] for action in decision.actions)
    assert trader["orders"] == Counter(orders)
    assert "submitted" in trader["orders"]
    by_mode: dict[str, list[Turn]] = {end["mode"]: [] for end in ends.values()}
    for turn in turns:
        mode = "trader" if turn.role == "trader" else "screener" if turn.role.startswith("screener_") else "research"
        by_mode[mode].append(turn)
    for end in ends.values():
        own = by_mode[end["mode"]]
        assert (end["turns"], end["tokens"]) == (len(own), spent(own))


def test_each_tool_call_is_recorded_with_its_turn(desk: TelemetryDesk, screen: Run) -> None:
    lines = complete_lines(desk, screen, "trader.run.completed")
    with desk.store.read() as session:
        rows = session.exec(
            select(ToolCall, Turn).join(Turn, col(Turn.id) == col(ToolCall.turn_id)).where(Turn.run_id == screen.id)
        ).all()
    calls = [line for line in lines if line["event"] == "tool.invocation"]
    names = ("name", "success", "duration_ms", "role", "thread_id", "turn_id")
    assert Counter(tuple(line[name] for name in names) for line in calls) == Counter(
        (call.tool, call.success, round(call.seconds * 1000, 3), turn.role, turn.thread_id, turn.codex_turn_id)
        for call, turn in rows
    )
    assert all(("symbol" in line) == (line["mode"] == "research") for line in calls)


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
