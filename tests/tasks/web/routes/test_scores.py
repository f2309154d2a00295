"""Scores over HTTP: the same that the command shows."""

from __future__ import annotations

from tests.tasks.web.conftest import Floor
from tests.tasks.web.routes.test_reads import command, get
from tests.tools.scoring.records.board import a_forecast, a_question, a_run_on


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
