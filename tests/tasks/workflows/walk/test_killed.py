"""A walk with killed workers comes to the same as an undisturbed one: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlmodel import col, select

from chordesk.models.states import RUN_FINAL, AttemptEnd, RunKind, RunState, StepState
from chordesk.models.tables.runs import Attempt, Decision, Run, Step
from tests.constants import constants
from tests.stack import processes, wait_for
from tests.tasks.workflows.walk.kit import SECONDS, WalkingDesk, outline

pytestmark = pytest.mark.long
WORKERS = ("research-1", "research-2")


@pytest.fixture
def crew() -> Iterator[WalkingDesk]:
    # The rules take their time, so that a kill meets turns.
    with processes(DESK_LEASE_SECONDS="3", **constants(SWEEP_SECONDS=1, ANSWER_SECONDS=0.3)) as found:
        found.rulebook()
        found.workers(*WORKERS, "ops", "trade", concurrency=16)
        yield WalkingDesk(found)


def kill(desk: WalkingDesk, name: str) -> None:
    """SIGKILL to a worker, and a new one in its place."""
    process = desk.processes.running.pop(name)
    process.kill()
    process.wait()
    slots = ("--concurrency", "16") if name.startswith("research") else ()
    desk.processes.desk(name, "worker", name.partition("-")[0], "--name", name, *slots)


def holds(desk: WalkingDesk, name: str) -> bool:
    """Return whether a worker is at work on a step."""
    with desk.store.read() as session:
        held = select(Step.id).where(Step.state == StepState.RUNNING, col(Step.owner).startswith(f"{name}@"))
        return session.exec(held).first() is not None


def test_a_walk_survives_its_workers(crew: WalkingDesk, walked: Run, desk: WalkingDesk) -> None:
    run = crew.open()
    wait_for(lambda: holds(crew, WORKERS[0]), "the first turns are at work", SECONDS)
    kill(crew, WORKERS[0])
    for sessions, victims in enumerate((("trade", WORKERS[1]), ("ops", WORKERS[0])), start=1):
        wait_for(lambda n=sessions: len(crew.rows(run)) >= n, f"{sessions} sessions are done", SECONDS)
        assert crew.run(run.id).state not in RUN_FINAL
        for victim in victims:
            kill(crew, victim)
    done = crew.ended(run.id)
    assert (done.state, done.notes) == (RunState.DONE, [])
    assert outline(crew, done) == outline(desk, walked), "as if nothing had happened"
    with crew.store.read() as session:
        decided = session.exec(select(Decision.account, Run.market_now).join(Run)).all()
        lost = session.exec(select(Attempt).where(Attempt.outcome == AttemptEnd.LOST)).all()
        open_ones = session.exec(select(Step.id).join(Run).where(Run.state == RunState.RUNNING)).all()
    assert set(Counter(decided).values()) == {1}, "one decision a session"
    assert lost, "no kill met a step at work"
    assert open_ones == []
    assert len(crew.runs(done, RunKind.SCREEN)) == len(crew.runs(done, RunKind.TRADE)) == len(crew.rows(done))
