"""Lines of the file for a run that has ended, against the database; and for a run of one mode alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from sqlmodel import col, select

from chordesk.agents.roles import default_roles
from chordesk.models.answers import Usage
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, ScreenHit, ToolCall, Turn, Verdict
from chordesk.models.telemetry_events import EVENTS
from chordesk.tasks.workflows.research import open_research
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.telemetry.runs import TelemetryDesk

REJECTED = "APC"  # the rulebook's quick role turns it down on the replay's day


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


def test_a_candidate_that_is_rejected_at_once_skips_the_other_roles(desk: TelemetryDesk) -> None:
    run = desk.ended(open_research(desk.desk.app, [REJECTED]))
    (end,) = [
        line for line in complete_lines(desk, run, "research.run.completed") if line["event"].endswith(".run.completed")
    ]
    assert end["rolesRun"] == {REJECTED: ["quick"]}
    assert end["skippedRoles"] == {REJECTED: [role for role in default_roles() if role != "quick"]}
    assert (end["symbols"], end["verdicts"], end["turns"]) == ([REJECTED], {"PASS": 1}, 1)


def test_a_run_that_a_person_stops_is_recorded_by_the_command_that_ends_it(desk: TelemetryDesk) -> None:
    with desk.held_up("research"):
        run = open_research(desk.desk.app, ["KO"])
        assert desk.desk.desk("stop", "stop", run.id).wait(PATIENCE) == 0
        desk.desk.running.pop("stop")
    (end,) = complete_lines(desk, run, "research.run.completed")
    assert (end["state"], end["turns"], end["symbols"]) == ("stopped", 0, ["KO"])
    assert (end["rolesRun"], end["skippedRoles"]) == ({}, {"KO": list(default_roles())})
    (root,) = [span for span in desk.trace(run) if not span.parent]
    assert (root.name, root.about["desk.outcome"]) == ("run research", "stopped")
    assert root.service.startswith("stop@")
