"""`desk stop` with real workers: how soon a run ends, and that nothing of it goes on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator

import psutil
import pytest
from sqlmodel import select

from models.states import RunState, StepState
from models.tables import Run, Turn
from tasks.bootstrap import desk_of
from tests.stack import Processes
from tests.tasks.stopping.kit import (
    FOREVER,
    SYMBOLS,
    app_servers,
    attempts,
    desk,
    nothing_is_left,
    research,
    run_of,
    steps,
    stop,
    wait_ended,
    wait_held,
)

LEASE = 3.0


@pytest.fixture(scope="module")
def made() -> Iterator[Processes]:
    """One research worker whose turns never end, and the worker for the rest."""
    with desk(FOREVER, "research", "ops", DESK_LEASE_SECONDS=str(LEASE)) as processes:
        yield processes


def test_a_stopped_run_ends_at_once_with_all_its_turns(made: Processes) -> None:
    run_id = research(made)
    wait_held(made, run_id)
    code, (found,), seconds = stop(made, run_id)
    assert (code, found["state"], found["left"]) == (0, "stopped", 0)
    assert found["interrupted"] == len(SYMBOLS)
    assert found["seconds"] < 3
    assert seconds < 8
    assert nothing_is_left(made, run_id)
    assert {step.state for step in steps(made, run_id)} == {StepState.STOPPED}
    assert attempts(made, run_id) == {"stopped": len(SYMBOLS)}
    run = run_of(made, run_id)
    assert run.finished_at is not None
    assert run.notes == ["stopped on request"]


def test_the_interrupted_turns_are_on_record(made: Processes) -> None:
    run_id = research(made, "AAPL")
    wait_held(made, run_id, 1)
    stop(made, run_id)
    with desk_of(made.app).store.read() as session:
        turn = session.exec(select(Turn).where(Turn.run_id == run_id)).one()
    assert (turn.status, turn.outcome) == ("interrupted", "interrupted")
    assert turn.thread_id
    assert turn.codex_turn_id


def test_all_stops_every_run_and_a_second_stop_says_that_it_had_ended(made: Processes) -> None:
    first, second = research(made, "AAPL"), research(made, "MSFT")
    wait_held(made, first, 1)
    wait_held(made, second, 1)
    code, found, _ = stop(made, "--all")
    assert code == 0
    assert {each["run_id"]: each["state"] for each in found} == {first: "stopped", second: "stopped"}
    code, (again,), _ = stop(made, first)
    assert (code, again["was"], again["interrupted"]) == (0, "stopped", 0)


def test_without_redis_the_worker_finds_out_by_its_lease(made: Processes) -> None:
    run_id = research(made, "AAPL")
    wait_held(made, run_id, 1)
    redis = psutil.Process(made.running["redis"].pid)
    redis.suspend()
    try:
        code, (found,), _ = stop(made, run_id)
    finally:
        redis.resume()
    assert (code, found["state"]) == (0, "stopped")
    assert found["seconds"] < 10


def test_an_app_server_that_does_not_answer_is_killed(made: Processes) -> None:
    run_id = research(made, "AAPL")
    wait_held(made, run_id, 1)
    frozen = app_servers(made, "research")
    for process in frozen:
        process.suspend()
    code, (found,), _ = stop(made, run_id)
    assert (code, found["state"]) == (0, "stopped")
    assert found["seconds"] < 10
    gone, _ = psutil.wait_procs(frozen, timeout=3)
    assert gone
    for process in frozen:
        if process.is_running():
            process.resume()


def test_a_stop_whose_asker_is_gone_is_ended_by_the_sweep(made: Processes) -> None:
    run_id = research(made, "AAPL")
    wait_held(made, run_id, 1)
    with desk_of(made.app).store.session() as session:
        session.get_one(Run, run_id).state = RunState.STOPPING
    time.sleep(LEASE / 3 + 1)
    assert run_of(made, run_id).state == RunState.STOPPING
    made.desk("beat", "beat")
    assert wait_ended(made, run_id, 20).state == RunState.STOPPED
    assert nothing_is_left(made, run_id)
    made.end("beat")


def test_steps_of_a_dead_worker_end_with_their_leases(made: Processes) -> None:
    """The last with these workers: one of them is gone afterwards."""
    run_id = research(made, "AAPL")
    wait_held(made, run_id, 1)
    made.end("research", signal.SIGKILL)
    code, (found,), _ = stop(made, run_id)
    assert (code, found["state"]) == (0, "stopped")
    assert found["seconds"] < LEASE + 2
    assert attempts(made, run_id) == {"lost": 1}


def test_a_run_that_no_worker_has_taken_up_is_stopped_at_once() -> None:
    with desk(FOREVER) as made:
        run_id = research(made)
        code, (found,), _ = stop(made, run_id)
        assert (code, found["state"], found["interrupted"]) == (0, "stopped", 0)
        assert found["waiting"] == 2 * len(SYMBOLS) + 1
        assert found["seconds"] < 2
