"""Roles that start beside the quick one, and what becomes of them when it rejects: whole runs through real workers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from sqlmodel import Session, select

from chordesk.agents.roles import after, beside, ends_all
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.runs import Report, Step, Turn, Verdict, VerdictReport
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.research import open_research, spare_turns
from tests.builders import a_run, a_step, a_turn
from tests.fakes.responses import FakeResponses, Slow, Text
from tests.stack import processes
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import Scripted

LATER = ("fundamentals", "risk", "catalyst")
ALL = ("quick", *LATER)


@pytest.fixture(scope="module")
def eager() -> Iterator[Floor]:
    model = Scripted()
    with (
        FakeResponses(model, log=False) as served,
        processes(
            DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=served.url, DESK_CODEX_TURNS="24", DESK_SPECULATE="on"
        ) as running,
    ):  # fmt: skip
        running.workers("research", "ops")
        store = Store(running.settings.database)
        yield Floor(running, served, model, store)
        store.close()


@pytest.fixture
def floor(eager: Floor) -> Floor:
    eager.model.reset()
    return eager


def reports(floor: Floor, run_id: str) -> dict[str, Step]:
    with floor.store.read() as session:
        found = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.REPORT)).all()
    return {step.role: step for step in found}


def reported(floor: Floor, symbol: str) -> set[str]:
    with floor.store.read() as session:
        return set(session.exec(select(Report.role).where(Report.symbol == symbol)).all())


def verdict(floor: Floor, run_id: str) -> tuple[str, list[str], list[str], set[str]]:
    """Rating, roles it rests on, roles it misses, and the roles of the reports it is linked with."""
    with floor.store.read() as session:
        found = session.exec(select(Verdict).where(Verdict.run_id == run_id)).one()
        links = select(Report.role).join(VerdictReport).where(VerdictReport.verdict_id == found.id)
        return found.rating, found.completed, found.missing, set(session.exec(links).all())


def test_all_roles_start_at_once_and_count_when_none_rejects(floor: Floor) -> None:
    floor.model.until["quick"] = lambda: reported(floor, "IBM") == set(LATER)
    run_id = floor.research("IBM")
    found = reports(floor, run_id)
    assert tuple(sorted(found)) == tuple(sorted(ALL))
    assert {(step.state, step.attempt, step.sends) for step in found.values()} == {(StepState.DONE, 1, 1)}
    rating, _, _, linked = verdict(floor, run_id)
    assert (rating, linked) == ("BUY", set(ALL))


def test_a_rejection_interrupts_the_others_and_their_turns_are_kept(floor: Floor) -> None:
    """The run ends long before the model would have answered them."""
    floor.model.stances["AAPL", "quick"] = "REJECT"
    for role in LATER:
        floor.model.instead[role] = Slow(100, Text("{}"))
    run = open_research(floor.processes.app, ["AAPL"])
    floor.model.until["quick"] = lambda: all(
        step.state == StepState.RUNNING for step in reports(floor, run.id).values()
    )
    assert floor.ended(run.id) == "done"
    found = reports(floor, run.id)
    assert {role: (step.state, step.error) for role, step in found.items()} == {
        "quick": (StepState.DONE, None), **dict.fromkeys(LATER, (StepState.STOPPED, "quick rejected it"))
    }  # fmt: skip
    assert verdict(floor, run.id) == ("PASS", ["quick"], [], {"quick"})
    with floor.store.read() as session:
        turns = session.exec(select(Turn.role, Turn.outcome).where(Turn.run_id == run.id)).all()
    assert set(turns) - {("quick", "completed")} <= {(role, "interrupted") for role in LATER}


@pytest.fixture
def analysing(floor: Floor) -> Iterator[Celery]:
    """An app whose runs have analysts beside the risk role."""
    roles = ("quick", "risk", "chart", "options")
    app = create_app(floor.processes.settings.model_copy(update={"research_roles": roles}), "with-analysts")
    yield app
    app.desk.close()


def test_a_chart_that_rejects_beside_the_quick_report_ends_neither_it_nor_the_others(
    floor: Floor, analysing: Celery
) -> None:
    floor.model.stances["WMT", "chart"] = "REJECT"
    floor.model.until["quick"] = lambda: reported(floor, "WMT") == {"risk", "chart"}
    run = open_research(analysing, ["WMT"])
    assert floor.ended(run.id) == "done"
    found = reports(floor, run.id)
    assert {role: step.state for role, step in found.items()} == dict.fromkeys(
        ("quick", "risk", "chart"), StepState.DONE
    )
    rating, completed, missing, linked = verdict(floor, run.id)
    assert (rating, completed, missing, linked) == ("PASS", ["quick", "risk", "chart"], [], set(completed))


def test_the_roles_that_may_start_early_are_those_that_only_a_rejection_would_skip() -> None:
    assert beside(ALL) == LATER
    assert beside(LATER) == ()
    assert after(ALL, "quick") == set(LATER)
    assert after(ALL, "risk") == set()


def test_an_analyst_that_reads_another_one_never_starts_beside_it() -> None:
    analysts = ("chart", "options", "research")
    assert beside(analysts) == ()
    assert beside((*ALL, *analysts)) == (*LATER, "chart")
    assert beside(("quick", "options", "research")) == ("research",), "without a chart it reads none"
    assert after((*ALL, *analysts), "chart") == {"options", "research"}


def test_only_a_role_that_all_others_follow_ends_them_all() -> None:
    """A chart's rejection beside a quick report that still runs would end that too, and the other roles."""
    assert ends_all(ALL, "quick")
    assert ends_all(("chart", "options", "research"), "chart")
    assert not ends_all((*ALL, "chart", "options"), "chart")
    assert not ends_all(("chart", "risk"), "chart")


@pytest.fixture
def session(eager: Floor) -> Iterator[Session]:
    with eager.store.session() as found:
        yield found
        found.rollback()


def test_turns_are_spare_beyond_those_that_are_due_and_while_half_a_budget_is_left(
    eager: Floor, session: Session
) -> None:
    settings: Settings = eager.processes.settings
    run = a_run(session)
    assert spare_turns(session, settings, run.id) == 24
    step = a_step(session, run)
    a_step(session, run, kind=StepKind.MERGE)
    assert spare_turns(session, settings, run.id) == 23
    assert spare_turns(session, settings.model_copy(update={"model_turns": 1}), run.id) == 0
    assert spare_turns(session, settings.model_copy(update={"speculate": False}), run.id) == 0
    a_turn(session, step, total_tokens=50)
    assert spare_turns(session, settings.model_copy(update={"budget_run_tokens": 101}), run.id) == 23
    assert spare_turns(session, settings.model_copy(update={"budget_run_tokens": 100}), run.id) == 0
