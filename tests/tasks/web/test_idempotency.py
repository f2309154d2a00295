"""Writes that are sent again: they act once, and have one answer."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import redis
from sqlalchemy import update
from sqlmodel import col

from chordesk.models.states import RunState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import KeptAnswer
from tests.tasks.web.kit import Service, service
from tests.tasks.web.test_security import problem

BY = {"by": "Ann Lee"}
# A login's code is of one use, and its answer is a secret that is not kept; to log out twice is harmless.
LOGINS = {"/session", "/session/end"}
SCREEN = {"kind": "screen", "symbols": ["IBM"], **BY}


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as made:
        yield made


@pytest.fixture
def client(running: Service) -> Iterator[httpx.Client]:
    with running.client() as made:
        yield made


def send(client: httpx.Client, key: str, body: Any = SCREEN, path: str = "/runs") -> httpx.Response:
    return client.post(path, json=body, headers={"Idempotency-Key": key})


def runs(client: httpx.Client) -> int:
    return len(client.get("/runs", params={"limit": 1000}).json())


def change(running: Service, key: str, **values: Any) -> None:
    with running.store.session() as session:
        session.connection().execute(update(KeptAnswer).where(col(KeptAnswer.key) == key).values(**values))


def test_a_write_that_is_sent_again_acts_once_and_has_the_same_answer(client: httpx.Client) -> None:
    before, key = runs(client), new_id()
    first = send(client, key)
    shuffled = {name: SCREEN[name] for name in reversed(SCREEN)}
    again = send(client, key, shuffled)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again.headers["content-type"] == first.headers["content-type"]
    assert ("Idempotency-Replayed" in first.headers, again.headers["Idempotency-Replayed"]) == (False, "true")
    assert runs(client) == before + 1
    assert send(client, new_id()).json()["id"] != first.json()["id"]
    assert client.post("/runs", json=SCREEN).status_code == 201, "without a key each request acts"


def test_of_many_at_once_one_acts(client: httpx.Client) -> None:
    before, key = runs(client), new_id()
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: send(client, key), range(8)))
    assert {found.status_code for found in answers} == {201}
    assert len({found.json()["id"] for found in answers}) == 1
    assert sum("Idempotency-Replayed" in found.headers for found in answers) == len(answers) - 1
    assert runs(client) == before + 1


def test_a_key_belongs_to_one_request(client: httpx.Client) -> None:
    key = new_id()
    run_id = send(client, key).json()["id"]
    before = runs(client)
    assert problem(send(client, key, {**SCREEN, "symbols": ["KO"]}), 409) == "key_reused"
    assert problem(send(client, key, BY, f"/runs/{run_id}/stop"), 409) == "key_reused"
    assert runs(client) == before
    assert client.get(f"/runs/{run_id}").json()["state"] == RunState.RUNNING


def test_a_refusal_is_an_answer_too_and_a_wrong_request_uses_no_key_up(client: httpx.Client) -> None:
    key, other = new_id(), new_id()
    refused = send(client, key, {**SCREEN, "kind": "research", "symbols": ["NOSUCH"]})
    again = send(client, key, {**SCREEN, "kind": "research", "symbols": ["NOSUCH"]})
    assert problem(refused, 409) == problem(again, 409) == "usage_error"
    assert again.json() == refused.json()
    assert problem(send(client, other, {"kind": "screen"}), 422) == "wrong_request"
    assert send(client, other).status_code == 201


@pytest.mark.parametrize("key", ["", "short", "a" * 65, "a b c d e", "ä" * 8, "1234567/"])
def test_a_key_that_is_none_is_refused(client: httpx.Client, key: str) -> None:
    before = runs(client)
    response = client.post("/runs", json=SCREEN, headers=[("Idempotency-Key", key.encode())])
    assert problem(response, 422) == "wrong_request"
    assert runs(client) == before


def test_after_a_service_died_before_its_answer_the_write_is_not_done_again(
    running: Service, client: httpx.Client
) -> None:
    key = new_id()
    send(client, key)
    before = runs(client)
    change(running, key, status=None)
    assert problem(send(client, key), 409) == "still_answering"
    assert runs(client) == before
    change(running, key, claimed_at=utcnow() - dt.timedelta(days=1))
    assert send(client, key).status_code == 201, "a key is kept for a day"
    assert runs(client) == before + 1


def test_every_write_takes_a_key(client: httpx.Client) -> None:
    described = client.get("/openapi.json").json()["paths"]
    for path, operations in described.items():
        for method, operation in operations.items():
            names = [row["name"] for row in operation.get("parameters", ())]
            takes = method != "get" and path not in LOGINS
            assert ("Idempotency-Key" in names) == takes, f"{method} {path}"


def test_a_redis_that_forgets_or_is_gone_lets_nothing_be_done_twice(running: Service, client: httpx.Client) -> None:
    """Last in this file: the service loses its Redis."""
    before, key = runs(client), new_id()
    first = send(client, key)
    with redis.Redis.from_url(running.processes.environ["DESK_REDIS_URL"]) as server:
        server.flushall()
    assert send(client, key).json() == first.json()
    running.processes.end("redis")
    assert send(client, key).json() == first.json()
    assert runs(client) == before + 1
    assert send(client, new_id(), BY, "/halt").status_code == 200
    assert (running.processes.home / "HALT").exists()
    assert send(client, new_id(), BY, f"/runs/{first.json()['id']}/stop").status_code == 200
    with running.store.read() as session:
        assert session.get_one(Run, first.json()["id"]).state == RunState.STOPPED
