"""What counts as lost or done twice in a rehearsal, how turns a second are counted, and that a miss is an exit code."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.states import RunKind, RunState, StepState
from chordesk.models.tables.runs import Report, Run, Verdict
from tests.builders import a_candidate, a_run, a_step, a_turn
from tests.examples import examples
from tests.ordeal.check import ALL_DONE, ROLES, Findings, check
from tests.ordeal.fleet import NO_DECISION, Cost, Counters, rate_of
from tests.ordeal.model import FINAL, Asked, Journal
from tests.ordeal.sheet import Sheet


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
        Verdict(run_id=run.id, candidate_id=candidate.id, symbol=symbol, rating="BUY", confidence="high", summary="")
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


@given(st.integers(1, 8), st.floats(0.5, 3.0), st.integers(10, 40), st.floats(0.0, 1.0))
@settings(max_examples=examples(100))
def test_turns_that_end_in_batches_count_at_their_true_rate(
    batch: int, cycle: float, cycles: int, phase: float
) -> None:
    times = np.repeat((np.arange(cycles) + phase) * cycle, batch)
    assert rate_of(times.tolist(), cycles * cycle) == pytest.approx(batch / cycle, rel=0.05)


def test_one_batch_is_no_rate_of_its_moment() -> None:
    assert rate_of([], 10.0) == 0.0
    assert rate_of([5.0, 5.01, 5.02], 10.0) == pytest.approx(0.45, abs=0.05), "three in ten seconds, and not in 0.02"


def test_costs_are_differences_a_turn() -> None:
    before = Counters(100, 10, 0, 0, 0, 0, Counter(get=5), 0, Counter(redis=1.0), 3, 4)
    after = Counters(300, 30, 40, 20, 4096, 8192, Counter(get=45, set=20), 2048, Counter(redis=3.0), 5, 6)
    lines = dict(Cost(after.since(before), 20).lines("turns"))
    assert lines["database transactions a turn"] == "11.0 (1.0 only read)"
    assert lines["Redis commands a turn"] == "3.0 (get 2.0, set 1.0)"
    assert lines["processor ms a turn"] == "100.0 (redis 100.0)"
    assert lines["connections"] == "5 to the database, 6 to Redis"


def test_a_missed_bound_is_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    sheet = Sheet()
    sheet.head("work: done")
    sheet.most("steps lost", 0, 0, form="d")
    assert sheet.missed == []
    sheet.least("faster with 4", 3.5, 3.6, "x", ".2f")
    sheet.close()
    assert sheet.missed == ["work: faster with 4: 3.50x, at least 3.60x"]
    assert "1 of 2 bounds are met" in capsys.readouterr().out
