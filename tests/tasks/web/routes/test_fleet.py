"""Settings and checks over HTTP: masked, with their origin, and without a trace."""

from __future__ import annotations

import json
from typing import Any

from chordesk.models.database.store import Store
from tests import zygote
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, processes, wait_for
from tests.tasks.web.kit import Service, service, start

SECRET = "sk-secret-of-a-provider"


def command(running: Service, *arguments: str) -> Any:
    done = zygote.run((*arguments, "--json"), running.processes.environ, REPOSITORY)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def test_settings_are_what_the_command_shows_and_hold_no_secret() -> None:
    with service(DESK_PROVIDER_KEY=SECRET, DESK_MAX_CANDIDATES="7") as running, running.client() as client:
        answer = client.get("/settings")
        assert answer.status_code == 200, answer.text
        assert SECRET not in answer.text
        assert running.token not in answer.text
        found = {row["name"]: row for row in answer.json()}
        assert answer.json() == command(running, "config")
        assert (found["max_candidates"]["value"], found["max_candidates"]["source"]) == (
            7, "DESK_MAX_CANDIDATES (environment)",
        )  # fmt: skip
        assert found["provider_key"]["value"] not in (None, SECRET)
        assert (found["trader_live"]["variable"], found["lenses"]["source"]) == ("TRADER_LIVE", "default")


def test_the_doctors_table_has_remedies_and_is_kept_for_a_while() -> None:
    with service() as running, running.client() as client:
        first = client.get("/doctor").json()
        names = [row["name"] for row in first["checks"]]
        assert {"python", "redis", "database", "audit log", "mandate"} <= set(names)
        assert first["left_out"] == ["data", "tools", "server", "model", "litellm"]
        assert not set(first["left_out"]) & set(names)
        assert all(row["remedy"] for row in first["checks"] if row["status"] == "fail")
        redis = next(row for row in first["checks"] if row["name"] == "redis")
        assert redis["status"] != "fail", redis
        again = client.get("/doctor").json()
        assert again["left_out"] == first["left_out"], "nobody asked for them"
        assert (again["checks"], again["age"] > first["age"]) == (first["checks"], True)
        assert not list(running.processes.home.glob(".doctor-*"))


def test_on_request_the_doctors_table_is_that_of_the_command() -> None:
    with processes() as made:
        made.rulebook()
        url, token = start(made)
        running = Service(made, Store(made.settings.database), url, token)
        with running.client() as client:

            def whole() -> bool:
                return not client.get("/doctor", params={"whole": True}).json()["left_out"]

            wait_for(whole, "the dear checks are made", 3 * PATIENCE)
            found = client.get("/doctor").json()
            theirs = command(running, "doctor")
        rows = [(row["name"], row["status"]) for row in theirs["checks"]]
        assert [(row["name"], row["status"]) for row in found["checks"]] == rows
        running.store.close()
