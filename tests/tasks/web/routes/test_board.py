"""The board of a run through the service, and an episode that is started with it."""

from __future__ import annotations

from typing import Any

import httpx
from sqlmodel import select

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run
from tests.stack import wait_for
from tests.tasks.web.conftest import Floor
from tests.tasks.web.routes.test_reads import command, get
from tests.tasks.web.routes.test_stop import BY, client
from tests.tasks.web.test_security import problem
from tests.tasks.worker.stopping.stop_kit import desk, run_of, wait_in_flight
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on


def test_an_episode_is_started_shown_and_one_of_its_voices_stopped() -> None:
    with desk("research", "ops") as made, client(made) as http:
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
        wait_for(lambda: run_of(made, run_id).state in RUN_FINAL, "the episode ends", 120.0)
        assert run_of(made, run_id).state == RunState.DONE
        board = http.get(f"/runs/{run_id}/board").json()
        assert {row["voice"] for row in board["forecasts"]} == running.keys() - {"weaver"}
        assert http.get(f"/runs/{run_id}/episode").json() == board["tally"]
        assert "weaver: no position in round 1: interrupted" in board["tally"]["content"]
        assert "by='Ann Lee'" in made.processes.log("api")


def voices(http: httpx.Client, run_id: str) -> dict[str, Any]:
    """The voices of a run's board, by name."""
    return {row["voice"]: row for row in http.get(f"/runs/{run_id}/board").json()["voices"]}


def test_wrong_requests_start_no_episode(floor: Floor) -> None:
    for body in (
        {"kind": "episode", "symbols": ["NOPE"], **BY},
        {"kind": "episode", "questions": ["ffffffff"], **BY},
        {"kind": "episode", "rounds": 3, **BY},
        {"kind": "episode"},
    ):
        answer = floor.client.post("/runs", json=body)
        assert answer.status_code in (404, 409, 422), answer.text
    with floor.service.store.read() as session:
        assert session.exec(select(Run).where(Run.kind == "episode")).all() == []


def test_a_run_without_rounds_has_no_board(floor: Floor) -> None:
    begun = floor.client.post("/runs", json={"kind": "research", "symbols": ["IBM"], **BY}).json()["id"]
    for part in ("board", "episode"):
        assert problem(floor.client.get(f"/runs/{begun}/{part}"), 409) == "usage_error"
    assert floor.client.get(f"/runs/{begun}").json()["voices"] == []


def test_scores_are_what_the_command_shows(floor: Floor) -> None:
    with floor.service.store.session() as session:
        for day in range(3):
            a_forecast(session, a_run_on(session, day), a_question(session, f"s{day}", 1.0, day), "ada", 0.7)
    found = get(floor, "/scores", kind="voice", name="ada")
    assert found == command(floor, "scores", "--voice", "ada")
    assert found["rows"][0]["brier"]["n"] == 3
    assert get(floor, "/scores") == command(floor, "scores")
    other = get(floor, "/scores", account="other")
    assert (other["account"], other["rows"]) == ("other", [])


def test_a_wrong_filter_is_refused(floor: Floor) -> None:
    assert floor.client.get("/scores", params={"kind": "voice", "name": "nobody-known"}).status_code == 404
    assert floor.client.get("/scores", params={"name": "ada"}).status_code == 409
    assert floor.client.get("/scores", params={"kind": "weather"}).status_code == 422
