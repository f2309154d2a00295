"""Five hundred hostile clients without a token, against each port in turn: what a good client waits beside them, and
what they cost in memory. A bare uvicorn that says hello is besieged first: no service here can be quicker than that."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
from starlette.types import Receive, Scope, Send

from tests.fakes.hostile import besiege
from tests.stack import REPOSITORY, free_port, wait_for
from tests.tasks.web.kit import service
from tests.tasks.web.mcp.kit import over_http

MOST_MEMORY = 20 * 2**20
MOST_SECONDS = 0.1  # of 95 of 100 requests
FILES = 4096
BARE_NAME = "bare uvicorn"
BARE = ("--http", "h11", "--ws", "none", "--lifespan", "off", "--log-level", "error", "--timeout-keep-alive", "60")

Place = tuple[str, int, str, dict[str, str]]  # name, process, URL, headers


def places(stack: ExitStack) -> Iterator[Place]:
    port = free_port()
    yield BARE_NAME, _bare(stack, port), f"http://127.0.0.1:{port}/", {}
    port = free_port()
    served = stack.enter_context(service())
    token = {"Authorization": f"Bearer {served.token}"}
    yield "API and page", served.processes.running["api"].pid, f"{served.url}/openapi.json", token
    served.processes.workers("ops", environ={"DESK_METRICS_PORT": str(port)})
    yield "metrics and health", served.processes.running["ops"].pid, f"http://127.0.0.1:{port}/health/live", {}
    home = Path(stack.enter_context(TemporaryDirectory()))
    tools = stack.enter_context(over_http(home))
    # The path takes POST alone, so any other one is asked for: the answer is 404, behind the same guard.
    token = {"Authorization": f"Bearer {tools.token}"}
    yield "MCP", tools.process.pid, tools.url.removesuffix("/mcp") + "/", token


def _bare(stack: ExitStack, port: int) -> int:
    """Start it; it ends with the stack."""
    command = [sys.executable, "-m", "uvicorn", "tests.ordeal.siege:hello", "--port", str(port), *BARE]
    process = stack.enter_context(subprocess.Popen(command, cwd=REPOSITORY))
    stack.callback(process.kill)

    def answers() -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(f"http://127.0.0.1:{port}/").is_success
        return False

    wait_for(answers, "uvicorn answers")
    return process.pid


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"hello"})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ordeal.siege")
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=15.0)
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = True
    with ExitStack() as stack:
        for name, pid, url, headers in places(stack):
            print(f"{name}: besieged", flush=True)
            found = besiege(pid, url, headers, given.clients, given.seconds)
            p95 = found.percentile(0.95)
            held &= name == BARE_NAME or (found.grown <= MOST_MEMORY and p95 < MOST_SECONDS)
            print(
                f"{name}: {len(found.seconds)} good requests, p50 {found.percentile(0.5) * 1000:.0f} ms, p95 "
                f"{p95 * 1000:.0f} ms; memory +{found.grown / 2**20:.1f} MB; at most {found.most} connections, "
                f"{found.closed} closed; {found.busy:.1f} s of a processor, they {found.theirs:.1f} s",
                flush=True,
            )
    return 0 if held else 1


if __name__ == "__main__":
    raise SystemExit(main())
