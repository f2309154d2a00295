"""The feed of all runs over HTTP: live while workers run, cut and resumed, over a restart of the service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from chordesk.models import event_log
from chordesk.models.events import DESK, EventType, event
from tests.builders import a_run
from tests.tasks.web.kit import Service, service, start
from tests.tasks.web.routes.history.conftest import BY, Screened
from tests.tasks.web.test_security import problem


def read(client: httpx.Client, count: int, after: str | None = None, **params: Any) -> list[tuple[str, Any]]:
    """The place that comes first and so many events, each with the place after it; then leave."""
    headers = {} if after is None else {"Last-Event-ID": after}
    found: list[tuple[str, Any]] = []
    with client.stream("GET", "/events", params=params, headers=headers) as response:
        assert response.status_code == 200, response.read()
        fields: dict[str, str] = {}
        for line in response.iter_lines():
            if line:
                name, _, value = line.partition(": ")
                fields[name] = value
                continue
            if "data" in fields:
                found.append((fields.get("id", ""), json.loads(fields["data"])))
            fields = {}
            if len(found) > count:
                break
    return found


def identities(found: list[tuple[str, Any]]) -> list[tuple[str, int]]:
    return [(data["run_id"], data["sequence"]) for _, data in found if "run_id" in data]


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as made:
        yield made


def test_a_stream_is_resumed_after_a_restart_of_the_service_with_no_gap_and_no_repeat(running: Service) -> None:
    with running.store.session() as session:
        runs = [a_run(session).id for _ in range(3)]
    for run_id in runs:
        running.add_events(run_id, 7)
    with running.client() as client:
        first = read(client, 10, after="0")
    running.processes.end("api")
    with running.store.session() as session:
        event_log.append(session, [event(EventType.ORDER_TRADING, DESK, state="halted")])
    running.url, running.token = start(running.processes)
    with running.client() as client:
        second = read(client, 12, after=first[-1][0])
        assert first[0][1] == {"place": first[0][0]}
        assert second[0][0] == first[-1][0]
        got = identities(first) + identities(second)
        expected = {(run_id, number) for run_id in runs for number in range(1, 8)} | {(DESK, 1)}
        assert len(got) == len(expected)
        assert set(got) == expected
        third = read(client, 0, after=second[-1][0])
        assert len(third) == 1


def test_a_live_run_is_followed_among_all_others(screened: Screened) -> None:
    begun = read(screened.client, 0)[0][0]
    posted = screened.client.post("/runs", json={"kind": "research", "symbols": ["KO"], **BY})
    run_id = posted.json()["id"]
    done = read(screened.client, 1, after=begun, type="run.completed")
    assert done[-1][1]["run_id"] == run_id
    last = done[-1][1]["sequence"]
    everything = read(screened.client, last, after=begun, run=run_id)
    assert identities(everything) == [(run_id, number) for number in range(1, last + 1)]


def test_a_filter_saves_bytes_and_keeps_the_places(screened: Screened) -> None:
    items = read(screened.client, 5, after="0", type="item.completed", run=screened.run_id)
    assert {data["type"] for _, data in items[1:]} == {"item.completed"}
    assert any("text" in data["payload"] for _, data in items[1:])
    short = read(screened.client, 5, after="0", type="item.completed", run=screened.run_id, bodies=False)
    assert identities(short) == identities(items)
    assert all("text" not in data["payload"] and "type" in data["payload"] for _, data in short[1:])
    domain = read(screened.client, 4, after=short[2][0], type="item", run=screened.run_id)
    assert domain[1][1]["sequence"] > short[2][1]["sequence"]
    whole = screened.client.get(f"/runs/{screened.run_id}/events", params={"type": "run"})
    assert [line[:9] for line in whole.text.splitlines() if line.startswith("data")] == ['data: {"e'] * 2


def test_a_wrong_place_type_or_run_is_named(screened: Screened) -> None:
    client = screened.client
    assert problem(client.get("/events", params={"after": "nonsense"}), 422) == "wrong_request"
    assert problem(client.get("/events", headers={"Last-Event-ID": "1,x"}), 422) == "wrong_request"
    assert problem(client.get("/events", params={"type": "weather"}), 422) == "wrong_request"
    assert problem(client.get("/events", params={"run": "ffff"}), 404) == "not_found"
    ahead = client.get("/events", params={"after": f"1,{screened.run_id}:999999"})
    assert problem(ahead, 409) == "usage_error"
    with screened.service.store.session() as session:
        run_id = a_run(session).id
    screened.service.add_events(run_id, 40)
    with screened.service.store.session() as session:
        event_log.trim(session, run_id, 30)
    gone = client.get("/events", params={"after": f"1,{run_id}:3"})
    assert problem(gone, 410) == "history_trimmed"
    assert (gone.json()["trimmed"], gone.json()["last"]) == (30, 40)
