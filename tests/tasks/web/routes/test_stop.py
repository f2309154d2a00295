"""Stopping a run through the service, with turns in flight and without workers."""

from __future__ import annotations

import httpx

from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.kit import messages, start
from tests.tasks.web.test_security import problem
from tests.tasks.worker.stopping.stop_kit import SYMBOLS, Desk, desk, nothing_is_left, research, run_of, wait_in_flight

BY = {"by": "Ann Lee"}


def client(made: Desk) -> httpx.Client:
    url, token = start(made.processes)
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE)


def test_a_run_with_turns_in_flight_is_stopped_and_its_readers_get_the_event() -> None:
    with desk("research", "ops") as made, client(made) as http:
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
        assert "by='Ann Lee'" in made.processes.log("api")


def test_a_run_with_a_held_step_is_accepted_to_be_stopped() -> None:
    """Its worker is frozen: the mark is there, nothing more of it is claimed, and its lease is waited for."""
    with desk("research", "ops") as made, client(made) as http:
        run_id = research(made)
        wait_in_flight(made, run_id)
        worker = made.processes.running["research"]
        worker.send_signal(19)
        try:
            stopped = http.post(f"/runs/{run_id}/stop", json=BY)
            assert stopped.status_code == 202, stopped.text
            assert (stopped.json()["state"], stopped.json()["left"]) == (RunState.STOPPING, len(SYMBOLS))
            assert run_of(made, run_id).state == RunState.STOPPING
        finally:
            worker.send_signal(18)
        # The sweep would go on with it; here is none, and a second request does.
        wait_for(lambda: http.post(f"/runs/{run_id}/stop", json=BY).status_code == 200, "the stop is over")
        assert run_of(made, run_id).state == RunState.STOPPED


def test_a_run_without_a_worker_ends_at_once_also_without_redis() -> None:
    with desk() as made, client(made) as http:
        run_id = research(made)
        made.processes.end("redis")
        assert http.post(f"/runs/{run_id}/stop", json=BY).json()["state"] == RunState.STOPPED
        assert "workers_not_notified" in made.processes.log("api")
        with desk_of(made.processes.app).store.read() as session:
            assert session.get_one(Run, run_id).notes == ["stopped on request"]
        for body in ({}, {"by": ""}, {"by": "ann", "seconds": 1}):
            assert problem(http.post(f"/runs/{run_id}/stop", json=body), 422) == "wrong_request"
        assert problem(http.post("/runs/ffff/stop", json=BY), 404) == "not_found"
