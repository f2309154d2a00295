"""Routes of alerts: written, switched and removed with the terminal's checks, by who may start runs."""

from __future__ import annotations

from typing import Any

from chordesk.tasks.named_tokens import Scope, scope_of
from tests.parts import needs
from tests.tasks.web.conftest import Floor

pytestmark = needs("alerts")


def test_alerts_and_watch_lists_are_edited_with_the_command_lines_checks(floor: Floor) -> None:
    def post(path: str, **body: Any) -> Any:
        return floor.client.post(path, json={"by": "ann", **body})

    assert post("/alerts/watchlists/tech", symbols=["IBM", "ko", "IBM"]).json()["symbols"] == ["IBM", "KO"]
    dip = {"name": "dip", "when": "price below 100", "on": "IBM", "action": "research", "given": ["force=true"]}
    made = post("/alerts", **dip)
    assert (made.status_code, made.json()["state"]) == (201, "not looked at yet")
    for wrong, status in (
        ({}, 409), ({"name": "x\u202e"}, 422), ({"name": "x", "when": "price below"}, 409),
        ({"name": "x", "on": "NOSUCH"}, 409), ({"name": "x", "action": "trade"}, 409),
        ({"name": "x", "expires": "2020-01-01"}, 409), ({"name": "x", "expires": "9999-12-31"}, 409),
        ({"name": "x", "when": "price\0 below 1"}, 409),
    ):  # fmt: skip
        assert post("/alerts", **dip | wrong).status_code == status, wrong
    assert post("/alerts", name="all", when="move 5%", on="watchlist:tech").status_code == 201
    assert post("/alerts/watchlists/tech/remove").status_code == 409, "an alert is on it"
    assert post("/alerts/dip", enabled=False).json()["state"] == "off"
    found = floor.client.get("/alerts").json()
    assert [one["name"] for one in found["alerts"]] == ["all", "dip"]
    assert {one["name"] for one in found["conditions"]} >= {"price", "failed"}
    assert found["actions"][:4] == ["notify", "analyze", "research", "screen"], "and what features start"
    for name in ("dip", "all"):
        assert post(f"/alerts/{name}/remove").status_code == 200
    assert post("/alerts/watchlists/tech/remove").json() is None
    assert floor.client.get("/alerts/firings").json() == []
    assert floor.client.get("/alerts").json()["alerts"] == []


def test_who_may_start_runs_may_write_alerts_and_a_package_lowers_nothing() -> None:
    paths = ("/alerts", "/alerts/dip/remove", "/runs", "/approvals/1", "/halt", "/alertsx", "/toy/add")
    found = [scope_of("POST", path) for path in paths]
    assert found == [Scope.START] * 3 + [Scope.DECIDE] + [Scope.OPERATE] * 3
    assert scope_of("GET", "/alerts") == Scope.READ
