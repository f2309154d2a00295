"""`desk mcp` as a process, and clients of the SDK that ask it."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, TextContent

from chordesk.agents.program_tools import READ_TOOLS
from chordesk.agents.prompting import instructions
from chordesk.agents.roles import ROLES
from chordesk.models.settings import Settings
from tests.patience import PATIENCE
from tests.tasks.cli.running import environment

COMMAND = (sys.executable, "-P", "-m", "chordesk.tasks.cli.main", "mcp")
SECONDS = timedelta(seconds=PATIENCE)


@contextlib.asynccontextmanager
async def over_stdio(home: Path, *arguments: str, **environ: str) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], *arguments], env=environment(home, **environ), cwd=home
    )
    with (home / "mcp.log").open("w", encoding="utf-8") as log:
        async with stdio_client(parameters, log) as (read, write), ClientSession(read, write, SECONDS) as session:
            await session.initialize()
            yield session


@dataclass(frozen=True, slots=True)
class Listening:
    """A server over HTTP."""

    process: subprocess.Popen[str]
    home: Path
    log: Path
    url: str
    token: str

    @contextlib.asynccontextmanager
    async def session(self) -> AsyncIterator[ClientSession]:
        headers = {"Authorization": f"Bearer {self.token}"}
        async with (
            httpx.AsyncClient(headers=headers, timeout=PATIENCE) as client,
            streamable_http_client(self.url, http_client=client) as (read, write, _),
            ClientSession(read, write, SECONDS) as session,
        ):
            await session.initialize()
            yield session

    def post(self, body: Any, **headers: str) -> httpx.Response:
        """Ask without a client; shows the token and takes JSON unless a header says otherwise."""
        usual = {"Authorization": f"Bearer {self.token}", "Accept": "application/json, text/event-stream"}
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {"Content-Type": "application/json", **usual, **headers}
        return httpx.post(self.url, content=content, headers=given, timeout=PATIENCE)


@contextlib.contextmanager
def over_http(home: Path, *arguments: str, **environ: str) -> Iterator[Listening]:
    command = [*COMMAND, "--http", "0", *arguments]
    env, log = environment(home, **environ), home / "mcp.log"
    with log.open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        url, _, where = line.removeprefix("listening on ").strip().partition(", the token is in ")
        yield Listening(process, home, log, url, Path(where).read_text(encoding="ascii").strip())
    finally:
        process.kill()
        process.wait(PATIENCE)
        process.stdout.close()


def asked_by_second(home: Path, second: dict[str, str], *where: str) -> dict[str, Any]:
    """What a program with the SDK's second major sees, which must be what the desk has; the answer is of its script."""
    command = [sys.executable, "-P", Path(__file__).with_name("second.py"), *where]
    env = environment(home, **second)
    done = subprocess.run(command, cwd=home, env=env, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["tools"] == list(READ_TOOLS)
    assert (found["companies"], found["chart"]) == (["IBM", "KO"], "image/png")
    assert (found["prompts"], found["risk"]) == (list(ROLES), instructions(ROLES["risk"], Settings()))
    for answer, named in (("wrong", "unknown argument 'self'"), ("no_run", "no resource"), ("no_prompt", "'nobody'")):
        assert named in found[answer]
    return found


def payload(result: CallToolResult) -> dict[str, Any]:
    """The JSON of an answer."""
    first = result.content[0]
    assert isinstance(first, TextContent)
    found: dict[str, Any] = json.loads(first.text)
    return found
