"""What is done to runs in flight through the service, with real workers and a model that waits: a turn is interrupted,
a voice and a run are stopped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlmodel import col, select

from chordesk.models.states import RUN_FINAL, AttemptEnd, RunState
from chordesk.models.tables.runs import Attempt, Run, Step
from tests.parts import needs
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.kit import BY, messages, start
from tests.tasks.web.test_security import problem
from tests.tasks.worker.stopping.stop_kit import SYMBOLS, Desk, desk, nothing_is_left, research, run_of, wait_in_flight

Working = tuple[Desk, httpx.Client]


def client(made: Desk) -> httpx.Client:
    url, token = start(made.processes)
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)


@pytest.fixture(scope="module")
def working() -> Iterator[Working]:
    with desk("research", "ops") as made, client(made) as http:
        yield made, http


def test_a_run_is_started_and_one_of_its_turns_interrupted_and_tried_again(working: Working) -> None:
    made, http = working
    begun = http.post("/runs", json={"kind": "research", "symbols": ["KO"], **BY})
    assert begun.status_code == 201, begun.text
    run_id = begun.json()["id"]
    assert (begun.json()["kind"], begun.json()["params"]["symbols"]) == ("research", ["KO"])
    wait_in_flight(made, run_id, count=1)
    thread, turn = in_flight(http, run_id)
    gone = http.post(f"/threads/{thread}/turns/{run_id}/interrupt", json=BY)
    assert problem(gone, 404) == "not_found"
    done = http.post(f"/threads/{thread}/turns/{turn}/interrupt", json=BY)
    assert (done.status_code, done.json()) == (200, {"thread": thread, "turn": turn})
    wait_for(lambda: bool(unfinished(made, run_id)), "the attempt has ended")
    (outcome, reason) = unfinished(made, run_id)[0]
    assert (outcome, str(reason).partition(":")[0]) == (AttemptEnd.AGAIN, "interrupted")
    assert run_of(made, run_id).state == RunState.RUNNING
    assert "by='Ann Lee'" in made.processes.log("api")
    assert http.post(f"/runs/{run_id}/stop", json=BY).status_code in (200, 202)


def in_flight(http: httpx.Client, run_id: str) -> tuple[str, str]:
    """Thread and turn of the first turn that began, from the run's events."""
    with http.stream("GET", f"/runs/{run_id}/events") as response:
        for message in messages(response):
            if message.data and message.data["turn_id"]:
                return message.data["thread_id"], message.data["turn_id"]
    raise AssertionError("no turn began")


def unfinished(made: Desk, run_id: str) -> list[tuple[str, str | None]]:
    """The outcome and reason of each attempt of a run that ended otherwise than done."""
    with made.processes.app.desk.store.read() as session:
        rows = session.exec(
            select(Attempt).join(Step, col(Step.id) == col(Attempt.step_id)).where(Step.run_id == run_id)
        ).all()
    return [(row.outcome, row.reason) for row in rows if row.outcome != AttemptEnd.DONE]


def test_a_run_with_turns_in_flight_is_stopped_and_its_readers_get_the_event(working: Working) -> None:
    made, http = working
    run_id = research(made)
    wait_in_flight(made, run_id)
    with http.stream("GET", f"/runs/{run_id}/events") as response:
        stopped = http.post(f"/runs/{run_id}/stop", json=BY)
        assert stopped.status_code == 200, stopped.text
        found = stopped.json()
        assert (found["run_id"], found["state"], found["left"]) == (run_id, RunState.STOPPED, 0)
        assert found["interrupted"] == len(SYMBOLS)
        last = list(messages(response))[-1]
        assert (last.data["type"], last.data["payload"]["state"]) == ("run.completed", RunState.STOPPED)
    assert nothing_is_left(made, run_id)
    again = http.post(f"/runs/{run_id}/stop", json=BY)
    assert (again.status_code, again.json()["was"]) == (200, RunState.STOPPED)


@needs("board")
def test_an_episode_is_started_shown_and_one_of_its_voices_stopped(working: Working) -> None:
    made, http = working
    begun = http.post("/runs", json={"kind": "episode", "symbols": ["IBM", "KO"], "rounds": 1, **BY})
    assert begun.status_code == 201, begun.text
    run_id = begun.json()["id"]
    assert begun.json()["params"] == {"symbols": ["IBM", "KO"], "questions": [], "rounds": 1}
    wait_in_flight(made, run_id, count=6)
    assert problem(http.get(f"/runs/{run_id}/episode"), 409) == "usage_error"
    wait_for(lambda: all(row["running"] for row in voices(http, run_id).values()), "all turns are known")
    running = voices(http, run_id)
    assert len(running) == 6
    stopped = http.post(f"/runs/{run_id}/voices/weaver/stop", json=BY)
    assert stopped.status_code == 200, stopped.text
    turn = {"thread": running["weaver"]["thread"], "turn": running["weaver"]["turn"]}
    assert stopped.json() == {"run_id": run_id, "voice": "weaver", "interrupted": [turn], "over": True}
    assert problem(http.post(f"/runs/{run_id}/voices/weaver/stop", json=BY), 404) == "not_found"
    assert problem(http.post(f"/runs/{run_id}/voices/bard/stop", json=BY), 409) == "usage_error"
    made.model.let()
    wait_for(lambda: run_of(made, run_id).state in RUN_FINAL, "the episode ends")
    made.model.let(0)
    assert run_of(made, run_id).state == RunState.DONE
    board = http.get(f"/runs/{run_id}/board").json()
    assert {row["voice"] for row in board["forecasts"]} == running.keys() - {"weaver"}
    assert http.get(f"/runs/{run_id}/episode").json() == board["tally"]
    assert "weaver: no position in round 1: interrupted" in board["tally"]["content"]


def voices(http: httpx.Client, run_id: str) -> dict[str, Any]:
    """The voices of a run's board, by name."""
    return {row["voice"]: row for row in http.get(f"/runs/{run_id}/board").json()["voices"]}


def test_a_run_without_a_worker_ends_at_once_also_without_redis() -> None:
    with desk() as made, client(made) as http:
        run_id = research(made)
        made.processes.end("redis")
        assert http.post(f"/runs/{run_id}/stop", json=BY).json()["state"] == RunState.STOPPED
        assert "workers_not_notified" in made.processes.log("api")
        with made.processes.app.desk.store.read() as session:
            assert session.get_one(Run, run_id).notes == ["stopped on request"]
        for body in ({}, {"by": ""}, {"by": "ann", "seconds": 1}):
            assert problem(http.post(f"/runs/{run_id}/stop", json=body), 422) == "wrong_request"
        assert problem(http.post("/runs/ffff/stop", json=BY), 404) == "not_found"
