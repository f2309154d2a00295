"""Limits of connections: what a client without a token can cost, and that a good one is answered beside it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from chordesk.tasks.web import connection_limits
from chordesk.tasks.web.app import bind
from chordesk.tasks.web.connection_limits import MOST_DEPTH, NEXT_SECONDS, LimitedServer, is_too_deep, let_in
from tests.fakes.hostile import HALF_BODY, besiege
from tests.patience import PATIENCE
from tests.tasks.web.conftest import Floor


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Knows whoever sends an Authorization, and says how long a body was."""
    request = Request(scope, receive)
    if "authorization" in request.headers:
        let_in(scope)
    await Response(str(len(await request.body())))(scope, receive, send)


@contextlib.contextmanager
def served() -> Iterator[int]:
    """A server with the front door, and its port."""
    ready, listening = threading.Event(), bind("127.0.0.1", 0)
    server = LimitedServer(app, ready.set, programs=True, lifespan=False)
    thread = threading.Thread(target=server.run, args=[[listening]])
    thread.start()
    assert ready.wait(PATIENCE)
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(PATIENCE)


def came(connection: socket.socket) -> bytes:
    """All that the server sends until it closes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := connection.recv(4096):
            found += part
    return found


@pytest.fixture
def opened() -> Iterator[Callable[[int], socket.socket]]:
    with contextlib.ExitStack() as stack:
        yield lambda port: stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))


Opened = Callable[[int], socket.socket]


def test_one_that_is_silent_or_ends_neither_head_nor_body_is_let_go(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("HEAD_SECONDS", "BODY_SECONDS"):
        monkeypatch.setattr(connection_limits, limit, 0.3)
    with served() as port:
        silent, half, body = opened(port), opened(port), opened(port)
        half.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        body.sendall(HALF_BODY)
        assert (came(silent), came(half)) == (b"", b"")
        assert came(body).startswith(b"HTTP/1.1 408 ")


def test_of_too_many_strangers_the_oldest_goes_and_none_that_is_known(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_limits, "SPARED_SECONDS", 0.0)
    monkeypatch.setattr(connection_limits, "CLIENT_WAITS", 2)
    with served() as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=PATIENCE) as known:
        kept = known.get("/", headers={"Authorization": "Bearer x"}).extensions["network_stream"]
        first, *_, last = [opened(port) for _ in range(3)]
        assert came(first) == b""
        last.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert came(last).startswith(b"HTTP/1.1 200 ")
        assert known.get("/").extensions["network_stream"] is kept


def test_a_stranger_waits_for_each_answer_to_a_packet_of_requests_and_one_that_is_known_for_none(
    opened: Opened,
) -> None:
    head, last = b"GET / HTTP/1.1\r\nHost: a\r\n", b"Connection: close\r\n\r\n"
    with served() as port:
        stranger, known = opened(port), opened(port)
        began = time.monotonic()
        stranger.sendall((head + b"\r\n") * 5 + head + last)
        assert came(stranger).count(b"HTTP/1.1 200 ") == 6
        assert time.monotonic() - began > 4 * NEXT_SECONDS
        began = time.monotonic()
        known.sendall((head + b"Authorization: Bearer x\r\n\r\n") * 1000 + head + last)
        assert came(known).count(b"HTTP/1.1 200 ") == 1001
        assert time.monotonic() - began < 1000 * NEXT_SECONDS


def test_a_handshake_that_is_none_is_answered(opened: Opened) -> None:
    head = b"GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    with served() as port:
        stranger = opened(port)
        stranger.sendall(head + b"X: " + b"x" * 9000 + b"\r\n\r\n")  # more than the parser of handshakes takes
        assert came(stranger).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("text", "deep"),
    [
        ("[" * MOST_DEPTH + "]" * MOST_DEPTH, False),
        ("[" * (MOST_DEPTH + 1), True),
        ('{"a":' * (MOST_DEPTH + 1), True),
        ("[]" * 1000, False),
        (f'{{"a": "{"[" * 1000}"}}', False),
        (r'["\"' + "[" * 1000 + '"]', False),
        ('"' + r"\"" * 200_000 + "\\", False),
    ],
)
def test_json_is_bounded_in_depth_and_brackets_of_texts_are_none(text: str, deep: bool) -> None:
    assert is_too_deep(text) is deep


@pytest.mark.process
def test_sixty_hostile_clients_cost_little_memory_and_hold_up_nobody(floor: Floor) -> None:
    pid, before = floor.service.processes.running["api"].pid, len(floor.service.processes.log("api"))
    headers = {"Authorization": f"Bearer {floor.service.token}"}
    found = besiege(pid, f"{floor.service.url}/runs", headers, count=60, seconds=3.0)
    assert found.closed > 0
    assert found.grown < 20 * 2**20
    assert "Traceback" not in floor.service.processes.log("api")[before:]


def test_deep_json_is_refused_and_logged_nowhere(floor: Floor) -> None:
    before = len(floor.service.processes.log("api"))
    content = b'{"by":' + b"[" * 30_000 + b"]" * 30_000 + b"}"
    response = floor.client.post("/approvals/x", content=content, headers={"Content-Type": "application/json"})
    assert (response.status_code, response.json()["kind"]) == (422, "too_deep")
    assert "Traceback" not in floor.service.processes.log("api")[before:]
