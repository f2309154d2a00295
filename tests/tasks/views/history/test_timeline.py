"""The timeline of a run whose worker was lost, and of one that waits."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.states import AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Attempt
from chordesk.tasks.reading.run_details import timeline
from tests.builders import a_run, a_step, a_turn

NOW = utcnow()


def at(seconds: float) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


def test_an_attempt_after_a_lost_one_is_a_takeover_and_waited_since_then(session: Session) -> None:
    run = a_run(session)
    step = a_step(
        session, run, created_at=at(0), state=StepState.RUNNING, attempt=2, owner="b", started_at=at(1),
        claimed_at=at(50),
    )  # fmt: skip
    lost = Attempt(
        step_id=step.id, attempt=1, owner="a", started_at=at(1), ended_at=at(40), outcome=AttemptEnd.LOST, reason="gone"
    )
    session.add(lost)
    a_turn(session, step, attempt=1, started_at=at(2), finished_at=at(3))
    found = timeline(session, run)
    first, second = found.steps[0].attempts
    assert (first.worker, first.outcome, first.waited, first.taken_over) == ("a", "lost", 1.0, False)
    assert (second.worker, second.outcome, second.waited, second.taken_over) == ("b", "running", 10.0, True)
    assert (second.ended_at, len(first.turns), second.turns) == (None, 1, [])
    assert found.workers == ["a", "b"]


def test_the_steps_of_the_last_whole_run_of_its_kind_are_expected(session: Session) -> None:
    whole = a_run(session, kind="research", state=RunState.DONE, finished_at=NOW)
    for kind in ("report", "conclude", "decide"):
        a_step(session, whole, kind=kind, state=StepState.DONE)
    failed = a_run(session, kind="research", state=RunState.FAILED, finished_at=NOW)
    a_step(session, failed, kind="toy", state=StepState.FAILED)
    run = a_run(session, kind="research")
    a_step(session, run, kind="report")
    assert timeline(session, run).expected == ["conclude", "decide"]
    assert timeline(session, whole).expected == []
    assert timeline(session, a_run(session, kind="analyze")).expected == []
