"""The WebSocket as a program sees it: the real client, a real service and real workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection, connect

from chordesk.models.tables.columns import new_id
from chordesk.tasks import named_tokens
from tests.builders import a_run
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.web.kit import BY, Service, service
from tests.tasks.web.routes.history.conftest import Screened
from tests.tasks.web.routes.history.conftest import screened as screened


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as made:
        yield made


class Program:
    """A program on an open connection."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.seen: list[Any] = []
        self._count = 0

    def send(self, do: str, **fields: Any) -> str:
        self._count += 1
        id_ = f"q{self._count}"
        self.connection.send(json.dumps({"id": id_, "do": do, **fields}))
        return id_

    def receive(self) -> Any:
        return json.loads(self.connection.recv(timeout=PATIENCE))

    def until(self, wanted: Any) -> Any:
        """The first message that meets a condition; those before it are kept in `seen`."""
        while not wanted(message := self.receive()):
            self.seen.append(message)
        return message

    def ask(self, do: str, **fields: Any) -> Any:
        """The answer to a request."""
        id_ = self.send(do, **fields)
        return self.until(lambda message: message.get("id") == id_)

    def events(self, subscription: str, count: int) -> list[Any]:
        found = []
        while len(found) < count:
            message = self.receive()
            if message.get("subscription") == subscription and "event" in message:
                found.append(message)
        return found


@contextmanager
def opened(url: str, token: str | None, **headers: str) -> Iterator[Program]:
    with connect(
        url.replace("http", "ws", 1) + "/ws", additional_headers=headers, open_timeout=PATIENCE, proxy=None
    ) as made:
        program = Program(made)
        if token is not None:
            assert program.ask("hello", token=token)["result"] == {"hello": True}
        yield program


def kind_of(message: Any) -> tuple[int, str]:
    return message["problem"]["status"], message["problem"]["kind"]


def test_a_subscription_begins_after_a_sequence_and_ends_with_its_run(running: Service) -> None:
    with running.store.session() as session:
        run_id = a_run(session).id
    running.add_events(run_id, 10)
    with opened(running.url, running.token) as program:
        asked = program.send("subscribe", run=run_id[:28], since=7)
        assert program.receive() == {"id": asked, "result": {"run": run_id}}
        assert [one["event"]["sequence"] for one in program.events(asked, 3)] == [8, 9, 10]
        running.add_events(run_id, 2)
        assert [one["event"]["sequence"] for one in program.events(asked, 2)] == [11, 12]
        running.end_run(run_id)
        assert [one["event"]["type"] for one in program.events(asked, 1)] == ["run.completed"]
        assert program.receive() == {"subscription": asked, "ended": True}
        gone = program.ask("unsubscribe", subscription=asked)
        assert kind_of(gone) == (409, "usage_error")


def test_all_runs_are_followed_from_a_place_and_resumed(running: Service) -> None:
    with running.store.session() as session:
        run_id = a_run(session).id
    with opened(running.url, running.token) as program:
        asked = program.send("subscribe")
        assert program.receive() == {"id": asked, "result": {"run": None}}
        begun = program.receive()["place"]
        running.add_events(run_id, 4)
        first = program.events(asked, 2)
        assert program.ask("unsubscribe", subscription=asked)["result"] == {"unsubscribed": asked}
    with opened(running.url, running.token) as program:
        asked = program.send("subscribe", after=first[-1]["place"], types=["tool.completed"], bodies=False)
        rest = program.events(asked, 2)
        assert [one["event"]["sequence"] for one in (*first, *rest)] == [1, 2, 3, 4]
        again = program.send("subscribe", after=begun)
        assert [one["event"]["sequence"] for one in program.events(again, 4)] == [1, 2, 3, 4]


def test_without_the_token_first_nothing_is_answered(running: Service) -> None:
    for first in (
        {"do": "hello", "token": "wrong"},
        {"do": "POST /runs/x/stop", "body": {"by": "Ann"}},
        {"nonsense": 1},
    ):
        with opened(running.url, None) as program:
            program.connection.send(json.dumps({"id": "1", **first}))
            answer = program.receive()
            assert (answer["id"], *kind_of(answer)) == ("1", 401, "no_token")
            with pytest.raises(ConnectionClosed):
                program.receive()
    assert "wrong" not in running.processes.log("api")


def test_a_stranger_s_message_in_many_parts_ends_its_connection(running: Service) -> None:
    """At once, with no word; a program that has shown its token may send one so."""
    with opened(running.url, None) as program, pytest.raises(ConnectionClosed) as closed:
        program.connection.send([""] * 1000)
        program.receive()
    assert closed.value.rcvd is None
    with opened(running.url, running.token) as program:
        program.connection.send([*[""] * 1000, json.dumps({"id": "q", "do": "subscribe", "run": "desk"})])
        assert "result" in program.receive()


def test_text_of_a_stranger_that_cannot_be_text_is_logged_nowhere(running: Service) -> None:
    before = len(running.processes.log("api"))
    with opened(running.url, None) as program:
        program.connection.send('{"id": "\\ud800", "do": "hello", "token": "x"}')
        answer = program.receive()
        assert (answer["id"], *kind_of(answer)) == (None, 401, "no_token")
    with opened(running.url, None) as program, pytest.raises(ConnectionClosed) as closed:
        program.connection.send(b"\xff", text=True)
        program.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == CloseCode.INVALID_DATA
    with pytest.raises(InvalidStatus), opened(running.url, None, Origin="http://evil.example"):
        pass
    log = running.processes.log("api")[before:]
    assert "Traceback" not in log
    assert "error" not in log


def test_a_connection_ends_soon_after_its_token_is_revoked(running: Service) -> None:
    settings = running.processes.settings
    with running.store.session() as session:
        token = named_tokens.add(session, settings, "reader", [named_tokens.Scope.READ], "Ann")
    with opened(running.url, token) as program, opened(running.url, running.token) as other:
        assert program.ask("subscribe")["result"] == {"run": None}
        with running.store.session() as session:
            named_tokens.revoke(session, settings, "reader", "Ann")
        assert kind_of(program.until(lambda message: "problem" in message)) == (401, "no_token")
        with pytest.raises(ConnectionClosed):
            program.receive()
        assert other.ask("subscribe")["result"] == {"run": None}


def test_a_foreign_page_and_another_host_are_refused_at_the_handshake(running: Service) -> None:
    cases = (
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": f"http://127.0.0.1:{running.port + 1}"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": "evil.example"}, 400),  # the second of two
    )
    for headers, status in cases:
        with pytest.raises(InvalidStatus) as refused, opened(running.url, None, **headers):
            pass
        assert refused.value.response.status_code == status, headers
    with opened(running.url, running.token, Origin=running.url) as program:
        assert kind_of(program.ask("POST /runs/ffff/stop", body={"by": "Ann"})) == (404, "not_found")


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"do": "dance"}, "dance"),
    ({"do": "subscribe", "run": "a b"}, "run"),
    ({"do": "subscribe", "since": -1}, "since"),
    ({"do": "subscribe", "after": "x"}, "after"),
    ({"do": "GET /runs"}, "GET /runs"),
    ({"do": "POST /runs/x/stop", "body": []}, "body"),
    ({"do": "POST /runs/x/stop", "by": "Ann"}, "by"),
    ({"do": "POST /runs/x/stop", "key": "short"}, "key"),
)


def test_each_wrong_request_is_named_under_its_id_and_the_connection_goes_on(running: Service) -> None:
    with opened(running.url, running.token) as program:
        for number, (body, named) in enumerate(WRONG):
            program.connection.send(json.dumps({"id": f"w{number}", **body}))
            answer = program.receive()
            assert (answer["id"], *kind_of(answer)) == (f"w{number}", 422, "wrong_request")
            assert named in answer["problem"]["detail"]
        for odd in ("{", "[]", b"\x00", "[" * 30_000):
            program.connection.send(odd)
            answer = program.receive()
            assert (answer["id"], *kind_of(answer)) == (None, 422, "wrong_request")
        asked = program.send("subscribe", run="ffff")
        assert program.receive()["id"] == asked
        assert "Traceback" not in running.processes.log("api")
        body = {"answer": "approve", "by": "Ann Lee"}
        assert kind_of(program.ask("POST /approvals/nothing-here", body=body)) == (404, "not_found")
        assert kind_of(program.ask("POST /nowhere", body=body)) == (404, "not_found")
        assert kind_of(program.ask("DELETE /approvals/x")) == (405, "method_not_allowed")
        wrong = program.ask("POST /approvals/x", body={"answer": "approve"})
        assert kind_of(wrong) == (422, "wrong_request")
        assert "by" in wrong["problem"]["detail"]
        assert kind_of(program.ask("hello", token=running.token)) == (409, "usage_error")


def test_messages_and_subscriptions_are_bounded(running: Service) -> None:
    with opened(running.url, running.token) as program:
        for _ in range(20):
            assert "result" in program.ask("subscribe", run="desk", deltas=True)
        wait_for(running.listens, "the service listens")
        refused = program.ask("subscribe", run="desk")
        assert kind_of(refused) == (409, "usage_error")
        assert "20 subscriptions" in refused["problem"]["detail"]
        with pytest.raises(ConnectionClosed) as closed:
            program.ask("POST /threads/x/ask", body={"by": "Ann Lee", "text": "a" * 70_000})
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009
    wait_for(lambda: not running.listens(), "no stream is read any more")


def test_a_turn_that_is_sent_twice_runs_once(screened: Screened) -> None:
    thread = next(row["thread"] for row in screened.get("/threads", role="trader") if row["turns"] and row["current"])
    fork = screened.client.post(f"/threads/{thread['thread_id']}/fork", json={"before_turn": 2, **BY}).json()
    turn, key = f"POST /threads/{fork['thread_id']}/ask", new_id()
    body = {"text": "Once more.", **BY}
    with opened(screened.service.url, screened.service.token) as program:
        program.send(turn, key=key, body=body)  # it leaves before the answer
    with opened(screened.service.url, screened.service.token) as program:
        answer = program.ask(turn, key=key, body=body)["result"]
        assert program.ask(turn, key=key, body=body)["result"] == answer
        other = program.ask(turn, key=key, body={**body, "text": "Something else."})
        assert kind_of(other) == (409, "key_reused")
        assert kind_of(program.ask(turn, key="short", body=body)) == (422, "wrong_request")
    turns = screened.get(f"/threads/{fork['thread_id']}")["lines"]
    assert [row["turn_id"] for row in turns[1:]] == [answer["turn_id"]]
