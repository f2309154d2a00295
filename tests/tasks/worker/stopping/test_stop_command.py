"""`desk stop` with real workers: how soon a run ends, and that nothing of it goes on."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import psutil
import pytest
from sqlmodel import select

from chordesk.models.states import RunState, StepState
from chordesk.models.tables.runs import Run, Turn
from tests.constants import constants
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.worker.stopping.stop_kit import (
    SYMBOLS,
    Desk,
    app_servers,
    attempts,
    desk,
    held,
    nothing_is_left,
    research,
    run_of,
    steps,
    stop,
    wait_ended,
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


def test_all_stops_every_run_and_a_second_stop_reports_that_it_had_ended(made: Desk) -> None:
    first, second = research(made, "AAPL"), research(made, "MMM")
    wait_in_flight(made, first, second, count=2)
    code, found, _ = stop(made, "--all")
    assert code == 0
    assert {each["run_id"]: each["state"] for each in found} == {first: "stopped", second: "stopped"}
    code, (again,), _ = stop(made, first)
    assert (code, again["was"], again["interrupted"]) == (0, "stopped", 0)


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


def test_a_stop_without_its_command_is_ended_by_the_sweep(made: Desk) -> None:
    run_id = research(made, "AAPL")
    wait_in_flight(made, run_id, count=1)
    with made.processes.app.desk.store.session() as session:
        session.get_one(Run, run_id).state = RunState.STOPPING
    wait_for(lambda: not held(made, run_id), "the worker finds the mark when it renews its lease")
    assert attempts(made, run_id) == {"stopped": 1}
    assert wait_ended(made, run_id, 20).state == RunState.STOPPED
    assert nothing_is_left(made, run_id)


def test_steps_of_a_lost_worker_end_with_their_leases(made: Desk) -> None:
    """Afterwards the research worker is gone."""
    run_id = research(made, "AAPL")
    wait_in_flight(made, run_id, count=1)
    made.processes.end("research", signal.SIGKILL)
    code, (found,), _ = stop(made, run_id)
    assert (code, found["state"]) == (0, "stopped")
    assert attempts(made, run_id) == {"lost": 1}


def test_a_run_that_no_worker_has_taken_up_is_stopped_at_once(made: Desk) -> None:
    if "research" in made.processes.running:
        made.processes.end("research", signal.SIGKILL)
    run_id = research(made)
    code, (found,), _ = stop(made, run_id)
    assert (code, found["state"], found["interrupted"]) == (0, "stopped", 0)
    assert found["waiting"] == 2 * len(SYMBOLS) + 1
    assert attempts(made, run_id) == {}
