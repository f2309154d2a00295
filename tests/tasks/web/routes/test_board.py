"""Boards and scores through the service, and what is refused."""

from __future__ import annotations

from sqlmodel import select

from chordesk.models.tables.runs import Run
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import BY
from tests.tasks.web.routes.test_reads import command, get
from tests.tasks.web.test_security import problem
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on


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
