"""Boards and scores through the service, and what is refused."""

from __future__ import annotations

from sqlmodel import select

from chordesk.models.tables.runs import Run
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import BY
from tests.tasks.web.test_security import problem


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


def test_a_wrong_filter_is_refused(floor: Floor) -> None:
    assert floor.client.get("/scores", params={"kind": "voice", "name": "nobody-known"}).status_code == 404
    assert floor.client.get("/scores", params={"name": "ada"}).status_code == 409
    assert floor.client.get("/scores", params={"kind": "weather"}).status_code == 422
