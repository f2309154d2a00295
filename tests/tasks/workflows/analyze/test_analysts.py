"""The analysts beside the validators, in whole runs through real workers: the rulebook, on both runtimes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import Session, col, select

from chordesk.models.analysis import ChartAnalysis, OptionsAnalysis
from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Analysis, Artifact, Report, Run, ToolCall, Turn, Verdict, VerdictReport
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.workflows.research import open_research
from tests.stack import Processes, processes, wait_for
from tests.tasks.worker.steps import get_run

CHOSEN, REJECTED = "AFL", "BBT"  # the chart of the second falls
ROLES = ("quick", "fundamentals", "chart", "options", "research")


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(
        DESK_RESEARCH_ROLES=",".join(ROLES),
        DESK_REQUIRED_ROLES="chart",
        DESK_ROLE_MODELS="chart=litellm:rulebook;research=litellm:rulebook",
        DESK_REPLAY_OPTIONS="modelled",
        DESK_STOCK_ONLY="false",
        DESK_OPTIONS_MODE="both",
    ) as found:
        found.rulebook()
        found.workers("research", "ops")
        yield found


@pytest.fixture(scope="module")
def run(desk: Processes) -> Run:
    store = desk.app.desk.store
    opened = open_research(desk.app, [CHOSEN, REJECTED])
    wait_for(lambda: get_run(store, opened.id).state in RUN_FINAL, "the run ends", 120.0)
    ended = get_run(store, opened.id)
    assert ended.state == RunState.DONE
    return ended


@pytest.fixture
def session(desk: Processes) -> Iterator[Session]:
    store: Store = desk.app.desk.store
    with store.read() as found:
        yield found


def runtimes(session: Session, run: Run) -> dict[str, str]:
    """The runtime of each role, as stored by now."""
    session.rollback()
    query = select(RuntimeConversation).where(RuntimeConversation.run_id == run.id)
    return {one.role: one.runtime_kind for one in session.exec(query).all()}


def reports(session: Session, run: Run, symbol: str) -> dict[str, Report]:
    rows = session.exec(select(Report).where(Report.run_id == run.id, Report.symbol == symbol)).all()
    return {row.role: row for row in rows}


def calls(session: Session, report: Report) -> list[ToolCall]:
    chosen = select(ToolCall).where(ToolCall.turn_id == report.turn_id).order_by(col(ToolCall.ordinal))
    return list(session.exec(chosen).all())


def verdict(session: Session, run: Run, symbol: str) -> tuple[Verdict, set[str]]:
    found = session.exec(select(Verdict).where(Verdict.run_id == run.id, Verdict.symbol == symbol)).one()
    links = select(Report.role).join(VerdictReport).where(VerdictReport.verdict_id == found.id)
    return found, set(session.exec(links).all())


def test_each_analyst_reports_with_the_figures_of_code(run: Run, session: Session) -> None:
    found = reports(session, run, CHOSEN)
    assert {role: row.status for role, row in found.items()} == {
        "quick": "completed", "fundamentals": "no_data", "chart": "completed", "options": "completed",
        "research": "no_data",
    }  # fmt: skip
    schemas = {"chart": "ChartAnalysis", "options": "OptionsAnalysis", "research": "ResearchAnalysis"}
    assert {role: found[role].answer_schema for role in schemas} == schemas
    chart = ChartAnalysis.model_validate(found["chart"].answer)
    options = OptionsAnalysis.model_validate(found["options"].answer)
    assert (found["chart"].verdict, found["chart"].confidence) == (chart.verdict, chart.confidence)
    assert chart.support_levels
    assert all(level.price <= (chart.close or 0.0) for level in chart.support_levels)
    assert options.contract is not None
    assert options.best_strike is not None
    assert (options.strategy, options.source) == ("csp", "modelled")
    assert options.best_strike < (chart.close or 0.0)


def test_the_options_analyst_has_the_charts_answer(run: Run, session: Session) -> None:
    """Its first call asks for contracts near the very levels that the chart's report has."""
    found = reports(session, run, CHOSEN)
    chart = ChartAnalysis.model_validate(found["chart"].answer)
    levels = {level.price for level in (*chart.support_levels, *chart.confluence)}
    chain, *_ = calls(session, found["options"])
    assert (chain.tool, chain.arguments["kind"]) == ("option_chain_get", "put")
    assert chain.arguments["near"]
    assert set(chain.arguments["near"]) <= levels


def test_the_chart_was_seen_on_the_runtime_that_its_role_names(run: Run, session: Session) -> None:
    found = reports(session, run, CHOSEN)
    pictures = session.exec(select(Artifact).where(Artifact.run_id == run.id)).all()
    assert found["chart"].turn_id in {one.turn_id for one in pictures}
    turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
    expected = {
        "quick": "codex", "fundamentals": "codex", "chart": "litellm", "options": "codex", "research": "litellm"
    }  # fmt: skip
    # A worker writes conversations beside its work: the last may come after the end of the run.
    wait_for(lambda: runtimes(session, run).keys() >= expected.keys(), "all conversations are stored")
    assert runtimes(session, run) == expected
    assert {one.kept for one in turns if one.role in ("chart", "options", "research")} == {False}


def test_a_rejected_chart_ends_its_analysis_and_no_other_role(run: Run, session: Session) -> None:
    found = reports(session, run, REJECTED)
    assert set(found) == {"quick", "fundamentals", "chart"}
    assert found["chart"].verdict == "REJECT"
    rated, linked = verdict(session, run, REJECTED)
    assert (rated.rating, linked) == ("PASS", set(found))


def test_the_verdict_counts_analysts_of_the_share_and_the_options_report_makes_the_plan(
    run: Run, session: Session
) -> None:
    rated, linked = verdict(session, run, CHOSEN)
    found = reports(session, run, CHOSEN)
    assert linked == set(ROLES)
    assert rated.completed == ["quick", "chart"]
    plan = session.exec(select(Analysis).where(Analysis.verdict_id == rated.id)).one()
    assert (plan.strategy, plan.recommendation, plan.contract) == (
        "csp",
        "incomplete",
        found["options"].answer["contract"],
    )  # type: ignore[index]
    assert any("--across-earnings" in why for why in plan.reasons)
    missing: list[Any] = [line.split(":")[0] for line in rated.missing]
    assert missing == ["fundamentals", "research"]
    cautions = [one for one in ("quick", "chart") if found[one].verdict == "CAUTION"]
    # Without a completed report of a role that looks beyond the price a BUY is of low confidence.
    assert rated.rating == ("CAUTION" if cautions else "BUY")
    assert rated.confidence == "low"
