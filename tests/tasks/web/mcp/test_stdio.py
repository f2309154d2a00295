"""`desk mcp` over stdio: a run's day, several calls at once, hostile lines, and its end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import json
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import McpError
from mcp.types import BlobResourceContents, ImageContent, TextContent, TextResourceContents
from pydantic import AnyUrl

from chordesk.agents.program_tools import READ_TOOLS
from chordesk.agents.prompting import instructions
from chordesk.agents.roles import ROLES
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.text import NEW_YORK
from chordesk.tasks.cli.processes import McpClient, server_of, write_entry
from chordesk.tools.ledger import ensure_account
from tests.databases import make_database
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk, environment
from tests.tasks.web.mcp.kit import COMMAND, asked_by_second, over_stdio, payload
from tests.tools.ledger_rows import add_run

pytestmark = pytest.mark.process
PING = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
EARLY = dt.datetime(2010, 3, 10, 15, 55, tzinfo=NEW_YORK)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def a_run(home: Path) -> str:
    """A run of a day in March, in the database of a desk that does not run."""
    url = f"sqlite:///{home / 'desk.db'}"
    make_database(url)
    store = Store(url)
    try:
        with store.session() as session:
            ensure_account(session, "paper", 100_000.0)
            return add_run(session, EARLY.astimezone(dt.UTC), settings=snapshot(Settings(home=home))).id
    finally:
        store.close()


async def test_a_client_lists_the_tools_calls_several_at_once_and_a_wrong_call_is_a_result(
    home: Path, sdk: dict[str, str]
) -> None:
    async with over_stdio(home, **sdk) as session:
        tools = (await session.list_tools()).tools
        assert [tool.name for tool in tools] == list(READ_TOOLS)
        assert all(tool.annotations is not None and tool.annotations.readOnlyHint for tool in tools)
        assert all(tool.outputSchema for tool in tools)  # the client holds each answer against it
        names = ["IBM", "KO", "GE", "F"]
        asked = [session.call_tool("company_get", {"symbols": [name]}) for name in names]
        picture, *found = await asyncio.gather(session.call_tool("chart_render", {"symbols": ["IBM"]}), *asked)
        assert [payload(one)["companies"][0]["symbol"] for one in found] == names
        assert picture.structuredContent == payload(picture)
        assert isinstance(picture.content[1], ImageContent)
        assert picture.content[1].mimeType == "image/png"
        for name, arguments, named in (
            ("orders_submit", {"symbol": "IBM"}, "no tool named orders_submit"),
            ("orders_preview", {"symbol": "IBM", "action": "open", "quantity": 1}, "no tool named orders_preview"),
            ("technicals_get", {"symbols": ["$(rm -rf /)"]}, "a symbol is"),
            ("technicals_get", {"symbols": ["IBM"], "self": 1}, "unknown argument 'self'"),
            ("technicals_get", None, "'symbols' is needed"),
            ("portfolio_get", {}, "not available"),
        ):
            result = await session.call_tool(name, arguments)
            assert result.isError
            assert named in payload(result)["error"]
        for symbols in (["IBM"], "IBM", '["IBM"]'):  # a list of one, as some clients write it
            assert not (await session.call_tool("technicals_get", {"symbols": symbols})).isError


def test_a_server_and_a_client_of_the_second_major_speak_its_protocol(home: Path, second: dict[str, str]) -> None:
    assert asked_by_second(home, second, sys.executable)["protocol"] == "2026-07-28"


async def test_a_run_has_its_day_and_the_dry_run_of_its_orders(home: Path) -> None:
    async with over_stdio(home, "--run", a_run(home), DESK_REPLAY_DATE="2010-08-12") as session:
        history = payload(await session.call_tool("price_history_get", {"symbols": ["IBM"]}))
        assert history["asOf"].startswith("2010-03-10")
        assert "2010-03-10" in json.dumps(history)
        assert not any(f"2010-{month:02}" in json.dumps(history) for month in range(4, 13))
        order = {"symbol": "IBM", "action": "open", "quantity": 1}
        preview = payload(await session.call_tool("orders_preview", order))
        assert (preview["dryRun"], preview["cleared"]) == (True, False)
        assert payload(await session.call_tool("portfolio_get", {}))["portfolio"]["cash"] == 100_000.0


async def test_a_run_is_a_resource_and_each_role_has_a_prompt(home: Path) -> None:
    first = a_run(home)
    async with over_stdio(home) as session:
        (listed,) = (await session.list_resources()).resources
        (content,) = (await session.read_resource(listed.uri)).contents
        assert isinstance(content, TextResourceContents)
        assert json.loads(content.text)["run_id"] == first
        (picture,) = (await session.read_resource(AnyUrl("desk://charts/IBM?sessions=60"))).contents
        assert isinstance(picture, BlobResourceContents)
        assert base64.b64decode(picture.blob).startswith(b"\x89PNG")
        for uri, named in (
            ("runs/nope", "no resource"),
            ("charts/NOPE", "no chart"),
            ("charts/IBM?interval=y", "15min"),
        ):
            with pytest.raises(McpError, match=named):
                await session.read_resource(AnyUrl(f"desk://{uri}"))
        assert [one.name for one in (await session.list_prompts()).prompts] == list(ROLES)
        (message,) = (await session.get_prompt("risk")).messages
        assert isinstance(message.content, TextContent)
        assert message.content.text == instructions(ROLES["risk"], Settings())
        with pytest.raises(McpError, match="no prompt 'nobody'"):
            await session.get_prompt("nobody")


def test_the_entry_of_each_client_starts_this_server_on_this_home(home: Path) -> None:
    starts = {"claude": "claude mcp add desk", "codex": "codex mcp add desk", "vscode": "code --add-mcp"}
    for client, first in starts.items():
        done = desk(home, "mcp", "--install", client)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(first)
        assert str(home) in done.stdout
    done = desk(home, "mcp", "--install", "nobody")
    assert "'nobody' is not one of" in done.stderr
    assert "Value error" not in done.stderr


FILES = {
    McpClient.CLAUDE: (".claude.json", '{"mcpServers": {"other": {"command": "é"}}, "theme": 1}', "mcpServers"),
    McpClient.CODEX: (".codex/config.toml", '# mine\n[mcp_servers.other]\ncommand = "é"\n', "mcp_servers"),
    McpClient.VSCODE: (".config/Code/User/mcp.json", '{"servers": {"other": {"command": "é"}}}', "servers"),
}


@pytest.mark.parametrize("client", McpClient)
def test_the_client_s_file_gets_the_entry_once_and_keeps_the_rest(
    client: McpClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    name, before, key = FILES[client]
    path, read = tmp_path / name, tomllib.loads if name.endswith("toml") else json.loads
    server = server_of(tmp_path / "a 'home'", "R1")
    write_entry(client, server)
    assert read(path.read_text())[key]["desk"]["env"] == {"DESK_HOME": str(tmp_path / "a 'home'")}
    path.write_text(before)
    path.chmod(0o640)
    write_entry(client, server)
    found = read(path.read_text())
    assert found[key].pop("desk")["args"] == ["mcp", "--run", "R1"]
    assert found == read(before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.with_name(f"{path.name}.before-desk").read_text() == before
    written = path.read_text()
    write_entry(client, server)
    assert path.read_text() == written
    for wrong in ("{half", "[]", "mcp_servers = 1"):
        path.write_text(wrong)
        with pytest.raises(UsageError, match="cannot be changed"):
            write_entry(client, server)
        assert path.read_text() == wrong


def test_without_a_client_it_ends_at_once(home: Path) -> None:
    done = desk(home, "mcp")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_refused_start_names_the_remedy(home: Path) -> None:
    for arguments, named in (
        (("--run", "nope"), "start `desk up`, which makes it"),
        (("--http", "0.0.0.0:0"), "set DESK_API_TOKEN as well"),
    ):
        done = desk(home, "mcp", *arguments)
        assert done.returncode == 2, done.stderr
        assert named in done.stderr
        assert done.stdout == ""


@contextlib.contextmanager
def started(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The server without a client of the SDK."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with (home / "log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(COMMAND, env=environment(home), cwd=home, stderr=log, **pipes)
    try:
        yield process
    finally:
        process.kill()
        process.wait(PATIENCE)


def pinged(process: subprocess.Popen[bytes], *before: bytes) -> None:
    """Send lines and a ping after them, and read on until its answer. Each line of the output is a message."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n".join([*before, json.dumps(PING).encode(), b""]))
    process.stdin.flush()
    while (found := json.loads(process.stdout.readline())).get("id") != PING["id"]:
        assert found["jsonrpc"] == "2.0"
    assert found["result"] == {}


def test_lines_that_are_no_messages_do_not_end_it_and_a_reader_that_left_does_without_a_traceback(home: Path) -> None:
    with started(home) as process:
        pinged(process, b"\xff\xfe not json", b"[]", b"{}", b'{"jsonrpc":"2.0","id":', b"[" * 5_000_000)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(json.dumps(PING).encode() + b"\n")
        process.stdin.flush()
        assert process.wait(PATIENCE) in (0, 1)
    assert "Traceback" not in (home / "log").read_text(encoding="utf-8")


def test_a_signal_ends_it_while_it_waits_for_a_line(home: Path) -> None:
    with started(home) as process:
        pinged(process)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
