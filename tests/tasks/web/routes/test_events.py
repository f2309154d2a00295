"""A run's events over HTTP: stored, then live, each once and in order, for clients that leave, return or do not
read."""

from __future__ import annotations

import asyncio
import datetime as dt
import socket
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from chordesk.models import event_log
from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import Envelope, EventType, event
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tasks.web.routes.events import EventStream, frame
from tests.builders import a_run
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.kit import Message, Service, messages, service
from tests.tasks.web.test_security import problem


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as made:
        yield made


@pytest.fixture
def client(running: Service) -> Iterator[httpx.Client]:
    with running.client() as made:
        yield made


@pytest.fixture
def run(running: Service) -> str:
    """A run that has not ended, with events 1 to 10."""
    with running.store.session() as session:
        run_id = a_run(session).id
    running.add_events(run_id, 10)
    return run_id


def read(client: httpx.Client, run_id: str, last: int | None = None, **params: int) -> list[Message]:
    """All messages until the stream ends."""
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with client.stream("GET", f"/runs/{run_id}/events", params=params, headers=headers) as response:
        assert response.status_code == 200
        return list(messages(response))


def ids(found: list[Message]) -> list[int | None]:
    return [one.id for one in found]


def test_stored_events_come_first_then_new_ones_then_the_end(running: Service, client: httpx.Client, run: str) -> None:
    with client.stream("GET", f"/runs/{run}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-store"
        assert response.headers["x-accel-buffering"] == "no"
        following = messages(response)
        found = [next(following) for _ in range(10)]
        running.add_events(run, 5)
        found += [next(following) for _ in range(5)]
        running.end_run(run)
        found += list(following)
    assert ids(found) == list(range(1, 17))
    envelopes = [Envelope.model_validate(one.data) for one in found]
    assert [one.sequence for one in envelopes] == ids(found)
    assert {one.run_id for one in envelopes} == {run}
    assert envelopes[-1].type is EventType.RUN_COMPLETED
    assert [one.payload["n"] for one in envelopes[:10]] == list(range(10))


def test_a_reader_goes_on_where_it_was(running: Service, client: httpx.Client, run: str) -> None:
    running.end_run(run)
    assert ids(read(client, run, since=4)) == list(range(5, 12))
    assert ids(read(client, run, last=7)) == list(range(8, 12))
    assert ids(read(client, run, last=9, since=2)) == [10, 11], "what the reader has seen is stronger than its address"


def test_when_nothing_follows_a_browser_is_asked_not_to_reconnect(
    running: Service, client: httpx.Client, run: str
) -> None:
    running.end_run(run)
    done = client.get(f"/runs/{run}/events", headers={"Last-Event-ID": "11"})
    assert (done.status_code, done.content) == (204, b"")
    with running.store.session() as session:
        silent = a_run(session, state="done").id
    assert client.get(f"/runs/{silent}/events").status_code == 204


def test_something_follows_a_run_that_waits_for_a_person(running: Service, client: httpx.Client, run: str) -> None:
    keys = {"step_id": "", "attempt": 1, "role": "trader", "kind": "command", "thread_id": "t", "turn_id": "u"}
    with running.store.session() as session:
        asked = RuntimeApproval(run_id=run, state="pending", expires_at=utcnow() + dt.timedelta(minutes=5), **keys)
        session.add(asked)
    running.end_run(run)
    with client.stream("GET", f"/runs/{run}/events", headers={"Last-Event-ID": "11"}) as response:
        assert response.status_code == 200
        with running.store.session() as session:
            approval_requests.expire_request(session, asked.id)
        assert [one.data["type"] for one in messages(response)] == [EventType.APPROVAL_EXPIRED]
    assert client.get(f"/runs/{run}/events", headers={"Last-Event-ID": "12"}).status_code == 204


def test_history_that_is_gone_is_reported(running: Service, client: httpx.Client, run: str) -> None:
    running.end_run(run)
    with running.store.session() as session:
        event_log.trim(session, run, 6)
    for params, headers in (({"since": 0}, {}), ({}, {"Last-Event-ID": "5"})):
        gone = client.get(f"/runs/{run}/events", params=params, headers=headers)
        assert problem(gone, 410) == "history_trimmed"
        assert (gone.json()["trimmed"], gone.json()["last"]) == (6, 11)
    assert ids(read(client, run, since=6)) == [7, 8, 9, 10, 11]


def test_a_position_outside_a_run_is_refused(client: httpx.Client, run: str) -> None:
    assert problem(client.get(f"/runs/{run}/events?since=11"), 409) == "usage_error"
    assert problem(client.get("/runs/ffff/events"), 404) == "not_found"
    for wrong in ("-1", "x", "1.5", "9" * 20):
        assert problem(client.get(f"/runs/{run}/events?since={wrong}"), 422) == "wrong_request"
        assert problem(client.get(f"/runs/{run}/events", headers={"Last-Event-ID": wrong}), 422) == "wrong_request"


def test_events_outside_any_run_have_a_stream_too(running: Service, client: httpx.Client) -> None:
    with client.stream("GET", "/runs/desk/events") as response:
        with running.store.session() as session:
            event_log.append(session, [event(EventType.ORDER_TRADING, "desk", state="halted")])
        assert next(messages(response)).data["payload"] == {"state": "halted"}


def test_readers_that_left_leave_nothing_behind(running: Service, client: httpx.Client, run: str) -> None:
    client.get("/runs")
    before = running.connections()
    for _ in range(2):
        leaving = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(40)]
        for one in leaving:
            head = f"GET /runs/{run}/events?deltas=true HTTP/1.1\r\nHost: localhost\r\n"
            ask = f"{head}Authorization: Bearer {running.token}\r\n\r\n"
            one.sendall(ask.encode())
            assert one.recv(12) == b"HTTP/1.1 200"
        assert running.connections() == before + 40
        wait_for(running.listens, "the service listens")
        for one in leaving:
            one.close()
        wait_for(lambda: running.connections() == before, "their connections are closed")
        wait_for(lambda: not running.listens(), "nobody follows the run any more")


def test_the_end_of_the_server_ends_the_streams_and_the_readers_know_it(running: Service, client: httpx.Client) -> None:
    """A stream that was cut off would be an error of the transfer; the last chunk of one that was ended is there. No
    test after this one asks the service."""
    before = len(running.processes.log("api"))
    with running.store.session() as session:
        run_id = a_run(session).id
    running.add_events(run_id, 3)
    opened = [client.send(client.build_request("GET", f"/runs/{run_id}/events"), stream=True) for _ in range(20)]
    following = [messages(response) for response in opened]
    for one in following:
        assert [next(one).id for _ in range(3)] == [1, 2, 3]
    process = running.processes.running.pop("api")
    process.terminate()
    assert [list(one) for one in following] == [[]] * 20
    assert process.wait(PATIENCE) == 143
    log = running.processes.log("api")[before:]
    assert "Traceback" not in log
    assert "rror" not in log, log


def sent_by(stream: EventStream[Envelope]) -> list[bytes]:
    """Return the pieces that a stream sends to a reader that stays."""
    sent: list[bytes] = []

    async def send(message: dict[str, object]) -> None:
        sent.append(bytes(message.get("body", b"")))  # type: ignore[call-overload]

    async def receive() -> dict[str, object]:
        await asyncio.Event().wait()
        raise AssertionError

    asyncio.run(stream({"type": "http", "asgi": {"spec_version": "2.3"}}, receive, send))  # type: ignore[arg-type]
    return sent


def test_a_stream_in_which_nothing_happens_shows_that_it_stands() -> None:
    async def quiet() -> AsyncIterator[Envelope]:
        await asyncio.sleep(0.25)
        yield event(EventType.RUN_COMPLETED, "r").model_copy(update={"sequence": 1})

    sent = sent_by(EventStream(quiet(), frame, quiet_seconds=0.1))
    assert [one for one in sent if one.startswith(b":")] == [b": ping\n\n"] * 2
    assert b"id: 1\n" in b"".join(sent)


@pytest.mark.parametrize(
    ("error", "kind", "detail"),
    [
        (HistoryTrimmed("r", 3, 7, 9), "history_trimmed", '"trimmed":7,"last":9'),
        (ZeroDivisionError("a secret-word"), "internal_error", "ZeroDivisionError"),
    ],
)
def test_an_error_that_ends_a_stream_is_sent_in_it(error: Exception, kind: str, detail: str) -> None:
    """A slow reader's history is trimmed meanwhile, or the server has a fault: there is no status left to say it."""

    async def failing() -> AsyncIterator[Envelope]:
        yield event(EventType.TOOL_COMPLETED, "r").model_copy(update={"sequence": 1})
        raise error

    text = b"".join(sent_by(EventStream(failing(), frame))).decode()
    assert text.startswith('data: {"event_id"')
    _, problem_text, _ = text.split("\n\n")
    assert problem_text.startswith("event: problem\ndata: {")
    assert f'"kind":"{kind}"' in problem_text
    assert detail in problem_text
    assert "secret-word" not in text
    assert "id:" not in problem_text, "the reader goes on after the last event that it has"


def test_a_delta_has_no_id() -> None:
    """A reader that comes back goes on from the last stored event."""
    assert b"id:" not in frame(event(EventType.ITEM_DELTA, "r", text="a\nb"))
    assert frame(event(EventType.ITEM_DELTA, "r", text="a\nb")).count(b"\n") == 2
