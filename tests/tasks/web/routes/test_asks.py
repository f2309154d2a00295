"""Questions over HTTP: answered from rows or given to a run, kept once, by who may start runs."""

from __future__ import annotations

from typing import Any

from chordesk.tasks.named_tokens import Scope, scope_of
from tests.parts import needs
from tests.tasks.web.conftest import Floor

pytestmark = needs("asking")


def test_a_question_is_kept_with_its_answer_and_a_dialogue_goes_on(floor: Floor) -> None:
    def post(question: str, key: str | None = None, **more: Any) -> Any:
        headers = {"Idempotency-Key": key} if key else {}
        return floor.client.post("/asks", json={"by": "ann", "question": question, **more}, headers=headers)

    first = post("verdict on \u202eACME\0", "key-of-a-question")
    assert first.status_code == 201
    found = first.json()
    assert (found["intent"], found["state"], found["question"]) == ("verdict", "answered", "verdict on ACME")
    assert "ACME: BUY" in found["text"]
    assert post("verdict on \u202eACME\0", "key-of-a-question").json()["id"] == found["id"], "it is asked once"
    second = post("orders", dialogue=found["dialogue"][:12]).json()
    entries = floor.client.get(f"/dialogues/{found['dialogue']}").json()
    assert [one["id"] for one in entries] == [found["id"], second["id"]]
    assert floor.client.get(f"/asks/{found['id']}").json() == entries[0]
    (listed,) = [one for one in floor.client.get("/dialogues").json() if one["id"] == found["dialogue"]]
    assert (listed["entries"], listed["person"]) == (2, "ann")


def test_a_model_is_asked_in_a_run_that_lists_leave_out(floor: Floor) -> None:
    asked = floor.client.post("/asks", json={"by": "ann", "question": "status", "model": True})
    assert asked.status_code == 202, asked.text
    entry = asked.json()
    assert (entry["state"], entry["text"]) == ("asked", "")
    assert entry["run_id"] not in [one["run"]["id"] for one in floor.client.get("/runs").json()]
    (run,) = [one["run"] for one in floor.client.get("/runs", params={"kind": "ask"}).json()]
    assert (run["id"], run["params"]["question"]) == (entry["run_id"], "status")
    assert run["settings"]["budget_run_tokens"] == 60_000
    assert floor.client.post(f"/runs/{run['id']}/stop", json={"by": "ann"}).status_code == 200
    assert floor.client.get(f"/asks/{entry['id']}").json()["state"] == "stopped"


def test_a_question_that_cannot_be_asked_is_refused_in_one_line(floor: Floor) -> None:
    for body, status in (
        ({"question": "x" * 20_001}, 422), ({"question": "\0\u202e"}, 409), ({"question": ""}, 422),
        ({"question": "status", "dialogue": "nosuchdialogue"}, 404), ({"question": "status", "account": "nobody"}, 404),
        ({"question": "status", "by": "a\u202eb"}, 422),
    ):  # fmt: skip
        found = floor.client.post("/asks", json={"by": "ann", **body})
        assert (found.status_code, "\n" in found.json()["detail"]) == (status, False), body
    assert scope_of("POST", "/asks") == Scope.START
    assert scope_of("GET", "/dialogues") == Scope.READ
