"""Malformed input at every door: no traceback, nothing that hangs, no memory that stays.

`make test-deep` takes thousands of inputs, by a fixed seed and by a fresh one, which is in the tests' names and in the
header. MALFORMED_SEED=N repeats it.
"""

from __future__ import annotations

import contextlib
import json
import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import httpx
import psutil
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from chordesk.models.errors import DeskError
from chordesk.tools.market.files.data_folder import check_folder
from tests.agents.codex.server.test_protocol import started
from tests.examples import malformed_count
from tests.patience import PATIENCE
from tests.security.malformed import bent, bent_json
from tests.tasks.cli.running import desk, environment
from tests.tasks.web.kit import Service, service
from tests.tasks.web.mcp.kit import COMMAND, over_http

pytestmark = [pytest.mark.malformed, pytest.mark.process]
GROWTH = 40 * 2**20  # of a process that has imported what it needs with its first requests
TRACEBACK = "Traceback"


@pytest.fixture(scope="module")
def running() -> Iterator[Service]:
    with service() as made:
        yield made


@contextlib.contextmanager
def unharmed(running: Service) -> Iterator[None]:
    """The service answers afterwards, has logged no traceback and has not grown."""
    process = psutil.Process(running.processes.running["api"].pid)
    with running.client() as client:
        for path in ("/runs", "/openapi.json", "/desk", "/orders"):
            client.get(path)
        before, logged = process.memory_info().rss, len(running.processes.log("api"))
        yield
        assert client.get("/runs").status_code == 200
    assert TRACEBACK not in running.processes.log("api")[logged:]
    assert process.memory_info().rss - before < GROWTH


PATHS = (
    b"/runs", b"/runs?limit=5&offset=0&state=done", b"/orders?symbol=IBM&day=2020-01-02", b"/events?after=0",
    b"/runs/x/timeline", b"/approvals/aaaaaaaaaaaa", b"/symbols/IBM", b"/page/app.js", b"/session", b"/accounts/paper",
    b"/threads?limit=1", b"/questions", b"/trading/halt", b"/runs/aaaaaaaaaa/stop",
)  # fmt: skip
BODIES = (
    {"answer": "approve", "by": "ann", "why": "x", "answers": {"a": ["b"]}},
    {"kind": "screen", "symbols": ["IBM"], "lenses": ["technical"], "day": "2020-01-02"},
    {"by": "ann", "code": "x", "why": "y", "account": "paper"},
)


def http(chance: random.Random, token: str) -> bytes:
    method, path, body = chance.choice((b"GET", b"POST")), chance.choice(PATHS), b""
    if method == b"POST":
        body = bent_json(chance, chance.choice(BODIES))
    if chance.random() < 0.5:
        path = bent(chance, path).translate(None, b" \r\n") if chance.random() < 0.8 else bent(chance, path)
    head = b"%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n" % (method, path, token.encode())
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n" % len(body)
    return bent(chance, head) + b"\r\n" + body if chance.random() < 0.3 else head + b"\r\n" + body


def test_http(running: Service, seed: int) -> None:
    chance = random.Random(seed)
    with unharmed(running):
        for _ in range(malformed_count(3300)):
            request = http(chance, running.token)
            answer = b""
            with contextlib.suppress(ConnectionError), socket.create_connection(
                ("127.0.0.1", running.port), timeout=PATIENCE
            ) as connection:  # fmt: skip
                connection.sendall(request)
                with contextlib.suppress(OSError):  # it has closed already
                    connection.shutdown(socket.SHUT_WR)
                answer = connection.recv(4096)
            assert not answer.startswith(b"HTTP/1.1 500"), request[:2000]


MESSAGES = (
    {"id": "1", "do": "subscribe", "run": "aaaa", "since": 0, "types": ["run.completed"], "bodies": True},
    {"id": "2", "do": "subscribe", "after": "0", "deltas": False},
    {"id": "3", "do": "unsubscribe", "subscription": "1"},
    {"id": "4", "do": "POST /approvals/aaaaaaaaaa", "body": BODIES[0], "key": "k" * 20},
    {"id": "5", "do": "hello", "token": "x"},
)


def test_websocket(running: Service, seed: int) -> None:
    chance, left = random.Random(seed), malformed_count(2000)
    with unharmed(running):
        while left > 0:
            with connect(f"ws://127.0.0.1:{running.port}/ws", proxy=None, open_timeout=PATIENCE) as connection:
                if chance.random() < 0.8:
                    connection.send(json.dumps({"id": "0", "do": "hello", "token": running.token}))
                with contextlib.suppress(ConnectionClosed):
                    for _ in range(chance.randint(1, 40)):
                        left -= 1
                        message = bent_json(chance, chance.choice(MESSAGES))
                        text = chance.random() < 0.9
                        connection.send(message.decode(errors="replace") if text else message)
                    connection.send('{"id": "last", "do": "unsubscribe", "subscription": "none"}')
                    while json.loads(connection.recv(timeout=PATIENCE)).get("id") != "last":
                        pass


CALLS = (
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}},
    {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "news_list", "arguments": {"symbols": ["A"]}},
    },
    {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "page_read", "arguments": {"url": "x"}}},
    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
)
BEGIN = (
    {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
)  # fmt: skip


def test_mcp(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = [json.dumps(one).encode() for one in BEGIN]
    lines += [bent_json(chance, chance.choice(CALLS)).replace(b"\n", b" ") for _ in range(malformed_count(1500))]
    lines.append(b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}')
    log = tmp_path / "log"
    with log.open("wb") as errors, subprocess.Popen(
        COMMAND, env=environment(tmp_path / "home"), cwd=tmp_path, stdin=PIPE, stdout=PIPE, stderr=errors
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n".join(lines) + b"\n")
        process.stdin.flush()
        while (line := process.stdout.readline()) and json.loads(line).get("id") != "last":
            pass
        assert line, "it answers to the end"
        process.stdin.close()
        assert process.wait(PATIENCE) == 0
    assert TRACEBACK not in log.read_text(errors="replace")


def test_mcp_over_http(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with over_http(tmp_path) as served:
        asked = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        with httpx.Client(headers={"Authorization": f"Bearer {served.token}", **asked}, timeout=PATIENCE) as client:
            for _ in range(malformed_count(1000)):
                found = client.post(served.url, content=bent_json(chance, chance.choice(CALLS)))
                assert found.status_code < 500, found.text
            assert client.post(served.url, json={"jsonrpc": "2.0", "id": "last", "method": "ping"}).is_success
    assert TRACEBACK not in served.log.read_text(errors="replace")


def bar_file(chance: random.Random) -> bytes:
    rows = [b"date,open,high,low,close,volume"]
    rows += [b"2020-01-%02d,10,11,9,10.5,1000" % day for day in (2, 3, 6, 7, 8, 9, 10)]
    return bent(chance, b"\n".join(rows) + b"\n")


def test_data_files(tmp_path: Path, seed: int) -> None:
    chance, memory = random.Random(seed), psutil.Process()
    folder = tmp_path / "own"
    (folder / "bars").mkdir(parents=True)
    (folder / "news.jsonl").touch()
    before = None
    for number in range(malformed_count(1500)):
        (folder / "bars" / "A.csv").write_bytes(bar_file(chance))
        headline = {"symbol": "A", "published": "2020-01-02T10:00:00Z", "title": "x", "url": "https://a.example"}
        (folder / "news.jsonl").write_bytes(bent_json(chance, headline) + b"\n")
        with contextlib.suppress(DeskError):
            check_folder(folder, "auto", 20)
        if number == 20:
            before = memory.memory_info().rss
    assert before is None or memory.memory_info().rss - before < GROWTH


NOTES = (
    {
        "method": "item/completed",
        "params": {"threadId": "t", "turnId": "u", "item": {"type": "agentMessage", "id": "1"}},
    },
    {"id": "a", "method": "item/tool/call", "params": {"tool": "x", "arguments": {}, "callId": "c", "threadId": "t"}},
    {"id": 99, "result": {"thread": {"id": "t"}}},
    {"id": 99, "error": {"code": -32001, "message": "overloaded"}},
)


async def test_app_server_lines(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lines = [bent_json(chance, chance.choice(NOTES)).replace(b"\n", b" ") for _ in range(malformed_count(1500))]
    (tmp_path / "lines").write_bytes(b"\n".join(lines) + b"\n")
    made = await started("fed", str(tmp_path / "lines"))
    assert await made.client.request("thread/list", {}) == {"fed": True}
    await made.client.close(1)


ARGUMENTS = (
    ["runs", "show", "aaaa"], ["orders", "list", "--symbol", "IBM", "--limit", "5"], ["screen", "--symbols", "IBM,KO"],
    ["approve", "aaaaaaaa", "--why", "x"], ["events", "aaaa", "--since", "0"], ["report", "--day", "2020-01-02"],
    ["data", "check", "folder"], ["config", "--json"], ["mcp", "--http", "127.0.0.1:0x"], ["backtest", "--from", "20"],
)  # fmt: skip


def test_command_line(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(malformed_count(200)):
        good = chance.choice(ARGUMENTS)
        at = chance.randrange(len(good))
        text = bent(chance, good[at].encode()).replace(b"\0", b"").decode(errors="replace")
        given = [*good[:at], text[:20_000], *good[at + 1 :]]
        if given[0] in ("mcp", "up", "demo") or not text:
            continue
        done = desk(tmp_path / "home", *given)
        assert TRACEBACK not in done.stderr, given
        assert done.returncode in (0, 1, 2, 130), given
