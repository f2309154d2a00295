"""Starting runs through the service, and what is refused."""

from __future__ import annotations

import fcntl
import json

import httpx
import pytest

from chordesk.models.settings import running_desk
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.settings.sources import load
from chordesk.models.states import RunState
from chordesk.models.tables.runs import Run
from tests.tasks.web.conftest import Floor
from tests.tasks.web.kit import BY
from tests.tasks.web.test_security import problem


def test_every_kind_of_run_can_be_started(floor: Floor) -> None:
    asked = {"kind": "screen", "symbols": ["IBM", "KO"], "lenses": ["technical"], "most": 3, **BY}
    screen = floor.client.post("/runs", json=asked)
    assert screen.status_code == 201, screen.text
    params = screen.json()["params"]
    assert (params["symbols"], params["lenses"], params["max_candidates"]) == (["IBM", "KO"], ["technical"], 3)
    with floor.service.store.read() as session:
        assert session.get_one(Run, screen.json()["id"]).state == RunState.RUNNING
    asked = {"kind": "analyze", "symbols": ["IBM", "KO"], "strategy": "equity", "depth": "deep", **BY}
    analysis = floor.client.post("/runs", json=asked)
    assert analysis.status_code == 201, analysis.text
    params = analysis.json()["params"]
    assert (params["roles"], params["depth"], params["max_delta"]) == (["chart", "risk"], "deep", 0.3)
    assert analysis.json()["settings"]["depth"] == "deep"
    assert floor.client.get(f"/runs/{analysis.json()['id']}").json()["analyses"] == []
    given = {"kind": "screen", "symbols": ["IBM", "KO"], "lenses": ["technical"], "most": 3}
    assert floor.client.get(f"/runs/{screen.json()['id']}/request").json() == given, "no more than was given"
    again = floor.client.get(f"/runs/{analysis.json()['id']}/request").json()
    assert floor.client.post("/runs", json={**again, **BY}).json()["params"] == params
    for body in (
        {"kind": "research", "symbols": ["NOSUCH"]},
        {"kind": "trade", "run": screen.json()["id"]},
        {"kind": "analyze", "symbols": ["IBM"], "strategy": "csp"},  # the replay has no chains
    ):
        assert floor.client.post("/runs", json={**body, **BY}).status_code == 409, body


def test_what_a_run_would_cost_is_said_without_starting_it(floor: Floor) -> None:
    before = len(floor.client.get("/runs?limit=1000").json())

    def asked(**body: object) -> httpx.Response:
        return floor.client.get("/spending", params={"asked": json.dumps({**body, **BY})})

    found = asked(kind="screen", symbols=["IBM", "KO"], lenses=["technical"])
    assert found.json()["said"] == "at most 10 turns of rules, which are no model: no cost"
    assert problem(asked(kind="trade", run="none"), 404) == "not_found"
    assert problem(asked(kind="research", symbols=["NOSUCH"]), 409) == "usage_error"
    refused = asked(kind="screen", budget_tokens=0)
    assert problem(refused, 409) == "usage_error"
    assert refused.json()["detail"] == "budget_tokens: Input should be greater than or equal to 1"
    assert problem(floor.client.get("/spending?asked={"), 409) == "usage_error"
    assert len(floor.client.get("/runs?limit=1000").json()) == before
    budgeted = floor.client.post("/runs", json={"kind": "screen", "symbols": ["KO"], "budget_tokens": 1_000_000, **BY})
    assert budgeted.json()["settings"]["budget_run_tokens"] == 1_000_000


def test_a_service_from_before_the_desk_shows_the_desks_settings_and_starts_no_run_with_its_own(floor: Floor) -> None:
    processes = floor.service.processes
    own = {"DESK_MAX_CANDIDATES": "8", "TRADER_LIVE": "1"}
    desk_up = load({**processes.environ, **own}, processes.home, join=False).settings
    asked = {"kind": "screen", "symbols": ["IBM"], **BY}
    before = len(floor.client.get("/runs?limit=1000").json())
    with running_desk.lock_path(processes.home).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            running_desk.write(processes.home, snapshot(desk_up))
            found = floor.client.get("/").json()
            refused = floor.client.post("/runs", json=asked)
        finally:
            running_desk.services_path(processes.home).unlink()
    assert (found["running"], found["standing"]["live"], found["settings"]["max_candidates"]) == (True, True, 8)
    assert found["differs"] == {"trader_live": False, "max_candidates": 20}
    assert problem(refused, 409) == "usage_error"
    assert "max_candidates=20, and the running desk has 8" in refused.json()["detail"]
    assert "trader_live=False, and the running desk has True" in refused.json()["detail"]
    assert len(floor.client.get("/runs?limit=1000").json()) == before
    assert floor.client.get("/").json()["running"] is False
    assert floor.client.post("/runs", json=asked).status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "screen"},
        {"kind": "dream", **BY},
        {"kind": "screen", "symbols": ["universe.txt"], **BY},
        {"kind": "screen", "symbols": ["/etc/passwd"], **BY},
        {"kind": "screen", "symbols": [], **BY},
        {"kind": "screen", "lenses": ["tea leaves"], **BY},
        {"kind": "research", "symbols": ["KO"], "nonsense": 1, **BY},
        {"kind": "trade", **BY},
        {"kind": "analyze", "symbols": ["KO"], "strategy": "straddle", **BY},
        {"kind": "analyze", "symbols": ["KO"], "max_delta": 1.5, **BY},
        {"kind": "analyze", "symbols": ["IBM"], "min_days": 30, "max_days": 20, **BY},
        {"kind": "analyze", "symbols": ["IBM"], "strategy": "equity", "chart": False, **BY},
    ],
)
def test_an_invalid_run_starts_nothing(floor: Floor, body: dict[str, object]) -> None:
    before = len(floor.client.get("/runs?limit=1000").json())
    assert floor.client.post("/runs", json=body).json()["kind"] in ("wrong_request", "usage_error")
    assert len(floor.client.get("/runs?limit=1000").json()) == before
