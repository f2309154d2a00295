"""Clients that hold connections without a token: endless heads, silence, half requests, half bodies, and a good client
beside them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import httpx
import psutil

from tests.patience import PATIENCE
from tests.stack import REPOSITORY

HOST = b"Host: 127.0.0.1\r\n"
HALF_BODY = b"POST /session HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
CHUNK = b"1f40\r\n" + b" " * 8000 + b"\r\n"
PART = b"X-Filler: " + b"x" * 8000 + b"\r\n"
UNREAD = b"GET /page/vendor/lightweight-charts.mjs HTTP/1.1\r\n" + HOST + b"\r\n"
# What each kind sends first, and then again and again; some of it every so many seconds.
KINDS: Sequence[tuple[bytes, bytes, float]] = (
    (b"GET / HTTP/1.1\r\n", PART, 0.0),  # a head without an end
    (b"", b"", 1.0),  # silence
    (b"GET /runs HTTP/1.1\r\n" + HOST, b"a: b\r\n", 1.0),  # half a request, drop by drop
    (HALF_BODY, b" ", 1.0),
    (b"GET /runs HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HOST + b"\r\n", CHUNK, 0.01),  # an endless body
    (UNREAD, UNREAD, 0.0),  # answers that nobody reads
    (
        b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" + HOST + b"\r\n",
        b"\x01\x80\0\0\0\0" + b"\x00\x80\0\0\0\0" * 1000,  # parts of a message that does not end
        0.01,
    ),
)


@dataclass(frozen=True, slots=True)
class Besieged:
    """seconds: of each request of the good client. grown: bytes of memory at most above those before. most: the most
    connections that were open. closed: how many hostile ones the server closed. busy, theirs: seconds of a processor
    that the server and the hostile clients took."""

    seconds: list[float]
    grown: int
    most: int
    closed: int
    busy: float
    theirs: float

    def percentile(self, share: float) -> float:
        return sorted(self.seconds)[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


def besiege(pid: int, url: str, headers: dict[str, str], count: int, seconds: float) -> Besieged:
    """So many hostile connections of another process for so long, each opened again when it is closed, and a good
    client that asks for a page, over a new connection every second time."""
    process, grown, most, times, theirs = psutil.Process(pid), 0, 0, list[float](), 0.0
    with httpx.Client(headers=headers, timeout=PATIENCE) as kept:
        for _ in range(20):
            _asked(kept, url)
        before, began = process.memory_info().rss, _spent(process)
        command = [sys.executable, "-m", __name__, str(httpx.URL(url).port), str(count), str(seconds)]
        with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as hostile:
            assert hostile.stdout is not None
            hostile.stdout.readline()  # they have begun
            attackers = psutil.Process(hostile.pid)
            while hostile.poll() is None:
                with contextlib.suppress(psutil.NoSuchProcess):
                    theirs = max(theirs, _spent(attackers))
                times.append(_asked(kept, url))
                with httpx.Client(headers=headers, timeout=PATIENCE, verify=False) as fresh:
                    times.append(_asked(fresh, url))
                grown = max(grown, process.memory_info().rss - before)
                most = max(most, sum(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections("tcp")))
                time.sleep(0.01)
            closed = int(hostile.stdout.read())
        assert hostile.returncode == 0
    return Besieged(times, grown, most, closed, _spent(process) - began, theirs)


def _spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _asked(client: httpx.Client, url: str) -> float:
    began = time.perf_counter()
    assert client.get(url).status_code in (200, 404)
    return time.perf_counter() - began


class Hostile:
    def __init__(self, port: int) -> None:
        self._port, self.closed = port, 0

    async def attack(self, count: int, seconds: float) -> None:
        tasks = [asyncio.create_task(self._hold(*KINDS[number % len(KINDS)])) for number in range(count)]
        print("begun", flush=True)
        await asyncio.wait(tasks, timeout=seconds)

    async def _hold(self, first: bytes, again: bytes, pause: float) -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1024)
                reading = asyncio.create_task(_read(reader)) if again is not UNREAD else asyncio.create_task(_never())
                try:
                    writer.write(first)
                    while not reading.done():
                        writer.write(again)
                        await writer.drain()
                        await asyncio.sleep(pause)
                finally:
                    self.closed += 1
                    reading.cancel()
                    writer.transport.abort()
            await asyncio.sleep(0.05)


async def _read(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(1024):
            pass


async def _never() -> None:
    await asyncio.Event().wait()


async def _main() -> None:
    os.nice(10)  # theirs would be other machines
    hostile = Hostile(int(sys.argv[1]))
    await hostile.attack(int(sys.argv[2]), float(sys.argv[3]))
    print(hostile.closed, flush=True)


if __name__ == "__main__":
    asyncio.run(_main())
