"""The desk at a glance over HTTP: what runs, what waits, the account, and the workers as they were last asked."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from sqlmodel import Session

from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import EquityMark
from chordesk.tasks.engine.kinds import run_kinds
from chordesk.tasks.workflows.runs import request_of
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.orders import audit
from tests import zygote
from tests.builders import a_run, a_step
from tests.stack import REPOSITORY, wait_for
from tests.tasks.web.kit import Service, service
from tests.tasks.web.routes.test_approvals import asked

SECRET = "sk-secret-of-a-provider"


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service(DESK_PROVIDER_KEY=SECRET, DESK_MAX_CANDIDATES="7") as made:
        yield made


@pytest.fixture
def client(running: Service) -> Iterator[httpx.Client]:
    with running.client() as made:
        yield made


def look(client: httpx.Client, path: str = "/desk") -> Any:
    response = client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


def mark(session: Session, day: dt.date, opening: float, last: float, high: float) -> None:
    session.add(EquityMark(account="paper", day=day, opening=opening, last=last, high_water=high))


def test_a_first_look_waits_for_no_worker(running: Service, client: httpx.Client) -> None:
    found = look(client)
    fleet = found["fleet"]
    assert found["database"]["equity"] is None
    assert (fleet["age"], fleet["workers"], fleet["refreshing"]) == (None, None, True)
    wait_for(lambda: look(client)["fleet"]["workers"] == [], "the workers were asked")
    assert "workers" in look(client)["fleet"]["trouble"]


def test_running_and_waiting_and_scheduled_work_is_shown_at_once(running: Service, client: httpx.Client) -> None:
    day = running.processes.settings.replay_date
    with running.store.session() as session:
        run = a_run(session, kind="research", params={"symbols": ["KO", "<b>"]})
        a_step(session, run, state=StepState.READY, role="risk")
        a_run(session, state=RunState.DONE)
        mark(session, day - dt.timedelta(days=1), 100.0, 120.0, 120.0)
        mark(session, day, 120.0, 90.0, 120.0)
    asked(running, "request-1", 60)
    found = look(client)
    assert found["kinds"] == [*run_kinds()], "the page's filters are of what is on"
    (first, second) = found["runs"]
    assert (second["run"]["id"], second["run"]["kind"], second["symbols"]) == (run.id, "research", ["KO", "<b>"])
    assert (second["progress"]["steps"], second["progress"]["final"]) == ({"report": [0, 1]}, False)
    assert (first["run"]["id"] != run.id, found["all_runs"]) == (True, 2)
    (waits,) = found["waiting"]
    assert (waits["kind"], waits["approval"]["id"]) == ("request", "request-1")
    equity = found["database"]["equity"]
    assert (equity["equity"], equity["change"], equity["change_share"], equity["drawdown"]) == (
        90,
        -30,
        -0.25,
        0.25,
    )
    assert (equity["day"], equity["current"]) == (day.isoformat(), True)
    assert (found["standing"]["live"], found["running"], found["database"]["trading"]) == (False, False, "active")
    oldest = found["database"]["oldest"]["step"]
    assert (oldest["role"], oldest["run_id"]) == ("risk", run.id)
    assert (found["queues"]["queued"]["research"], found["queues"]["parked"]) == (0, [])
    assert [row["name"] for row in found["scheduled"]].count("premarket") == 1
    for row in found["scheduled"]:
        at = dt.datetime.fromisoformat(row["at"])
        assert at > utcnow()
        assert exchange_hours().is_session(at.date())


def test_a_worker_that_answers_is_shown_with_its_queues(running: Service, client: httpx.Client) -> None:
    running.processes.workers("ops")
    wait_for(lambda: bool(look(client, "/status")["status"]["workers"]), "the workers were asked again")
    (worker,) = look(client, "/status")["status"]["workers"]
    assert (worker["queues"], worker["steps_held"]) == (["ops"], 0)
    for _ in range(3):  # the service keeps one app for it: looking again makes no further connection each time
        look(client, "/status")
    assert "Traceback" not in running.processes.log("api")
    running.processes.end("ops")


def command(running: Service, *arguments: str) -> Any:
    done = zygote.run((*arguments, "--json"), running.processes.environ, REPOSITORY)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_settings_are_what_the_command_shows_and_hold_no_secret(running: Service, client: httpx.Client) -> None:
    answer = client.get("/settings")
    assert answer.status_code == 200, answer.text
    assert SECRET not in answer.text
    assert running.token not in answer.text
    found = {row["name"]: row for row in answer.json()}
    assert [{**row, "in_force": None} for row in command(running, "config")] == answer.json()
    assert (found["max_candidates"]["value"], found["max_candidates"]["source"]) == (
        7, "DESK_MAX_CANDIDATES (environment)",
    )  # fmt: skip
    assert found["provider_key"]["value"] not in (None, SECRET)
    assert (found["trader_live"]["variable"], found["lenses"]["source"]) == ("TRADER_LIVE", "default")


def test_the_doctors_table_has_remedies_and_is_kept_for_a_while(running: Service, client: httpx.Client) -> None:
    first = client.get("/doctor").json()
    names = [row["name"] for row in first["checks"]]
    assert {"python", "redis", "database", "audit log", "mandate"} <= set(names)
    assert first["left_out"] == ["soundness", "data", "tools", "server", "model", "litellm"]
    assert not set(first["left_out"]) & set(names)
    assert all(row["remedy"] for row in first["checks"] if row["status"] == "fail")
    redis = next(row for row in first["checks"] if row["name"] == "redis")
    assert redis["status"] != "fail", redis
    again = client.get("/doctor").json()
    assert again["left_out"] == first["left_out"], "nobody asked for them"
    assert (again["checks"], again["age"] > first["age"]) == (first["checks"], True)
    assert not list(running.processes.home.glob(".doctor-*"))

    def whole() -> bool:
        return not client.get("/doctor", params={"whole": True}).json()["left_out"]

    wait_for(whole, "the slow checks are made on request")


def test_a_halt_and_a_lost_redis_are_shown(running: Service, client: httpx.Client) -> None:
    assert client.post("/halt", json={"by": "Ann Lee", "why": "fire"}).status_code == 200
    assert look(client)["database"]["trading"] == "halted"
    assert look(client)["database"]["why"].startswith("fire (Ann Lee via the API")
    running.processes.end("redis")  # no test after this one asks the service
    found = look(client)
    assert (found["queues"], bool(found["redis_trouble"])) == (None, True)
    whole = look(client, "/status")
    assert set(whole["status"]["trouble"]) == {"redis", "workers"} or whole["age"] > 0


def test_the_schedule_is_edited_with_the_command_lines_checks(running: Service, client: httpx.Client) -> None:
    def entries() -> dict[str, Any]:
        return {one["name"]: one for one in client.get("/schedule").json()["entries"]}

    found = client.get("/schedule").json()
    assert (bool(found["beat"]), bool(found["why"])) == (False, True)  # no beat runs
    body = {"by": "ann", "name": "late", "kind": "screen", "at": "15:05"}
    assert client.post("/schedule", json=body).status_code == 201
    assert client.post("/schedule", json=body).status_code == 409
    for wrong, status in (({"at": "25:00"}, 422), ({"name": "../x"}, 422), ({"kind": "trade", "name": "x"}, 409)):
        assert client.post("/schedule", json=body | wrong).status_code == status, wrong
    asked = {"name": "weekly", "kind": "research", "days": "mon", "given": ["symbols=AAPL"]}
    assert client.post("/schedule", json=body | asked | {"days": "sun"}).status_code == 409
    assert client.post("/schedule", json=body | asked).json()["request"] == {"symbols": ["AAPL"]}
    change = {"by": "ann", "given": ["symbols=AAPL,IBM"], "days": "week-first"}
    assert client.post("/schedule/weekly", json=change).status_code == 200
    assert (weekly := entries()["weekly"])["said"] == "research symbols=AAPL,IBM"
    assert request_of(weekly["asked"]).kind == "research"  # what `GET /spending` takes
    assert client.post("/schedule/weekly/remove", json={"by": "ann"}).json() == {"entry": None}
    assert client.post("/schedule/midday", json={"by": "ann", "enabled": False}).status_code == 200
    assert (entries()["midday"]["enabled"], entries()["midday"]["next"]) == (False, None)
    assert entries()["late"]["by"] == "ann via the API"
    listed = {one["name"]: one["enabled"] for one in command(running, "schedule", "list")}
    assert listed == {"premarket": True, "midday": False, "late": True}
    assert client.post("/schedule/nightly", json={"by": "ann", "enabled": False}).status_code == 404
    assert client.post("/schedule/late/remove", json={"by": "ann"}).json() == {"entry": None}
    assert client.post("/schedule/midday/remove", json={"by": "ann"}).json()["entry"]["at"] == "12:30"
    recorded = audit.log_path(running.processes.settings).read_text(encoding="utf-8")
    assert ("schedule_changed" in recorded, "schedule_removed" in recorded) == (True, True)
