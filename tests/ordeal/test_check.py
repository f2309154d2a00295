"""What counts as lost or done twice in a rehearsal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.states import RunKind, RunState, StepState
from chordesk.models.tables.runs import Report, Run, Verdict
from tests.builders import a_candidate, a_run, a_step, a_turn
from tests.ordeal.check import ALL_DONE, ROLES, Findings, check
from tests.ordeal.fleet import NO_DECISION
from tests.ordeal.model import FINAL, Asked, Journal


def researched(session: Session, symbol: str = "IBM") -> Run:
    """A run of research on one symbol that ended, with all that belongs to it."""
    run = a_run(session, kind=RunKind.RESEARCH, state=RunState.DONE, params={"symbols": [symbol]})
    candidate = a_candidate(session, run, symbol)
    for role in ROLES:
        step = a_step(session, run, state=StepState.DONE, subject=symbol, role=role)
        turn = a_turn(session, step, thread_id=f"thread of {role}")
        session.add(
            Report(
                run_id=run.id, step_id=step.id, candidate_id=candidate.id, turn_id=turn.id, symbol=symbol, role=role,
                status="completed", author="a model", market_at=run.market_now,
            )
        )  # fmt: skip
    session.add(
        Verdict(
            run_id=run.id,
            candidate_id=candidate.id,
            symbol=symbol,
            rating="BUY",
            confidence="high",
            summary="",
            market_at=run.market_now,
        )
    )
    return run


def found(store: Store, run: Run, calls: list[Asked] | None = None, expected: Any = NO_DECISION) -> Findings:
    desk: Any = SimpleNamespace(store=store, journal=Journal(asked=calls or []), excused=set())
    return check(desk, [run.id], expected)


def test_research_that_is_whole_has_nothing_to_find(store: Store) -> None:
    with store.session() as session:
        run = researched(session)
    assert found(store, run).clean
    assert found(store, run, expected=ALL_DONE).lost == [f"the decision of run {run.id}"], "a screen would have one"


def test_a_step_that_never_ended_is_lost(store: Store) -> None:
    with store.session() as session:
        run = researched(session)
        run.state = RunState.RUNNING
        a_step(session, run, state=StepState.READY, subject="IBM", role="extra")
    (lost,) = found(store, run).lost
    assert "extra ready" in lost


def test_a_turn_that_was_paid_for_twice_is_doubled(store: Store) -> None:
    with store.session() as session:
        run = researched(session)
    asked = [Asked(0.0, run.id, "step", attempt, "quick", f"turn-{attempt}", FINAL, 1.0) for attempt in (1, 2)]
    assert len(found(store, run, asked).doubled) == 1
    assert not found(store, run, asked[:1]).doubled
