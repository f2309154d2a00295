"""`desk stop` with real workers: how soon a run ends, and that nothing of it goes on."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from sqlmodel import select

from chordesk.models.states import StepState
from chordesk.models.tables.runs import Turn
from tests.constants import constants
from tests.patience import PATIENCE
from tests.tasks.worker.stopping.stop_kit import (
    SYMBOLS,
    Desk,
    app_servers,
    attempts,
    desk,
    nothing_is_left,
    research,
    run_of,
    steps,
    stop,
    wait_in_flight,
)


@pytest.fixture(scope="module")
def made() -> Iterator[Desk]:
    """Yield one research worker with turns that never end, and the worker for the rest."""
    with desk("research", "ops", DESK_LEASE_SECONDS="3", **constants(SWEEP_SECONDS=1)) as found:
        yield found


def test_a_stopped_run_ends_at_once_with_all_its_turns_on_record(made: Desk) -> None:
    run_id = research(made)
    wait_in_flight(made, run_id)
    code, (found,), seconds = stop(made, run_id)
    assert (code, found["state"], found["left"]) == (0, "stopped", 0)
    assert found["interrupted"] == len(SYMBOLS)
    assert found["seconds"] <= seconds
    assert nothing_is_left(made, run_id)
    assert {step.state for step in steps(made, run_id)} == {StepState.STOPPED}
    assert attempts(made, run_id) == {"stopped": len(SYMBOLS)}
    run = run_of(made, run_id)
    assert run.finished_at is not None
    assert run.notes == ["stopped on request"]
    with made.processes.app.desk.store.read() as session:
        turns = session.exec(select(Turn).where(Turn.run_id == run_id)).all()
    assert [(turn.status, turn.outcome) for turn in turns] == [("interrupted", "interrupted")] * len(SYMBOLS)
    assert all(turn.thread_id and turn.codex_turn_id for turn in turns)


def test_without_redis_the_worker_finds_out_by_its_lease(made: Desk) -> None:
    run_id = research(made, "AAPL")
    wait_in_flight(made, run_id, count=1)
    redis = psutil.Process(made.processes.running["redis"].pid)
    redis.suspend()
    try:
        code, (found,), _ = stop(made, run_id)
    finally:
        redis.resume()
    assert (code, found["state"]) == (0, "stopped")


def test_an_app_server_that_does_not_answer_is_killed(made: Desk) -> None:
    run_id = research(made, "AAPL")
    wait_in_flight(made, run_id, count=1)
    frozen = app_servers(made, "research")
    for process in frozen:
        process.suspend()
    code, (found,), _ = stop(made, run_id)
    assert (code, found["state"]) == (0, "stopped")
    gone, _ = psutil.wait_procs(frozen, timeout=PATIENCE)
    assert gone
    for process in frozen:
        if process.is_running():
            process.resume()
