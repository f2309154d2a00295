"""A whole desk with a recognisable value in each of its secrets, logging all it can, through runs, failures, crashes:
none of the values is in what it leaves behind or shows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import redis
from sqlalchemy import create_engine, make_url, text
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Attempt, Run, Step
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from tests import zygote
from tests.conftest import valkey_binary
from tests.constants import constants
from tests.fakes.alpaca import Alpaca, serving
from tests.fakes.otlp import Collector
from tests.fakes.responses import Call, Reply, Seen, Status
from tests.parts import HERE, needs
from tests.patience import PATIENCE
from tests.postgres import missing, shared
from tests.security.canaries import (
    BOOK,
    BOOK_FILE,
    CANARIES,
    SETTINGS,
    in_database,
    in_files,
    in_redis,
    seen,
    variables,
)
from tests.security.provider import Provider
from tests.stack import REPOSITORY, Processes, free_port, processes, wait_for
from tests.tasks.engine.steps import opened
from tests.tasks.engine.steps import report as new_report
from tests.tasks.web.mcp.kit import over_stdio

SYMBOLS = "AAPL,IBM,TGT,GOOG,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO"
ROLES = ("research", "ops", "trade")
# Settings whose value is an address with a password in it.
ADDRESSES = {"redis_url", "database_url"}
CUT = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"


class Listener(Collector):
    """A collector that keeps the bytes it was sent too."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def take(self, path: str, kind: str, body: bytes) -> bool:
        self.sent.append(body)
        return super().take(path, kind, body)


@dataclass(slots=True)
class Watched:
    """A desk with canaries. shown: everything that was shown by a command or an answer, by its name."""

    desk: Processes
    model: Provider
    spans: Listener
    api: str
    ports: dict[str, int]
    shown: dict[str, bytes] = field(default_factory=dict)
    environs: list[bytes] = field(default_factory=list)  # of the app-servers, which end once they are idle

    @property
    def store(self) -> Store:
        return self.desk.app.desk.store

    def ended(self, run: Run | None) -> Run:
        assert run is not None
        wait_for(lambda: self.run(run.id).state in RUN_FINAL, "the run ends", 3 * PATIENCE)
        return self.run(run.id)

    def run(self, run_id: str) -> Run:
        with self.store.read() as session:
            return session.get_one(Run, run_id)

    def command(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        done = zygote.run(arguments, {**self.desk.environ, **environ}, REPOSITORY, 2 * PATIENCE)
        number = len(self.shown)
        self.shown[f"{number}: desk {' '.join(arguments)}"] = (done.stdout + done.stderr).encode()
        return done

    def get(self, path: str) -> int:
        """Ask the service, and return the status. Of a stream of events the beginning is kept."""
        headers, parts = {"Authorization": f"Bearer {CANARIES['api_token']}"}, []
        with httpx.stream("GET", self.api + path, headers=headers, timeout=PATIENCE) as answer:
            endless = answer.headers["content-type"].startswith("text/event-stream")
            for part in answer.iter_bytes():
                parts.append(part)
                if endless:
                    break
        self.shown[f"GET {path}"] = b"".join(parts)
        self.shown[f"GET {path}: head"] = str(answer.headers).encode()
        return answer.status_code


@contextlib.contextmanager
def redis_with_password(desk: Processes) -> Iterator[None]:
    """A second Redis, on a port, that wants a password."""
    port = free_port()
    folder = desk.home / "redis-with-password"
    folder.mkdir()
    (folder / "redis.conf").write_text(f"requirepass {CANARIES['redis']}\n", encoding="utf-8")
    start_redis(desk, folder, port)
    desk.environ["DESK_REDIS_URL"] = f"redis://:{CANARIES['redis']}@127.0.0.1:{port}/0"
    yield
    (folder / "redis.conf").unlink()


def start_redis(desk: Processes, folder: Path, port: int) -> None:
    arguments = ("--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--appendonly", "yes", "--save", "")
    desk.spawn("redis-with-password", valkey_binary(), str(folder / "redis.conf"), *arguments)
    with redis.Redis(port=port, password=CANARIES["redis"]) as client:
        wait_for(lambda: pings(client), "Redis answers")


def pings(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.RedisError:
        return False


def database_with_password() -> str | None:
    """The address of a new database of a real server with a password in it; None where there is no server."""
    if missing():
        return None
    return shared().migrated().replace("desk@", f"desk:{CANARIES['postgres']}@")


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    """A desk after all that is done to it, still up."""
    with contextlib.ExitStack() as stack:
        model = stack.enter_context(Provider(CANARIES["provider_key"]))
        spans = stack.enter_context(Listener())
        environ = {
            **variables(),
            "DESK_PROVIDER": "endpoint",
            "DESK_PROVIDER_URL": model.url,
            "DESK_TRACE_URL": spans.url.replace("://", f"://desk:{CANARIES['trace']}@"),
            "DESK_LOG_LEVEL": "DEBUG",
            **constants(SWEEP_SECONDS=1),
            "TRADER_LIVE": "1",
            **({"DESK_BOOK": "weights"} if "holdings" in HERE else {}),  # tells models the most
        }
        desk = stack.enter_context(processes(**environ))
        desk.environ["DESK_TELEMETRY_FILE"] = str(desk.home / "telemetry.jsonl")
        desk.environ["TMPDIR"] = str(desk.home / "tmp")
        (desk.home / "tmp").mkdir()
        if (address := database_with_password()) is not None:
            desk.environ["DESK_DATABASE_URL"] = address
        stack.enter_context(redis_with_password(desk))
        if "holdings" in HERE:
            import_book(desk)
        ports = {role: free_port() for role in ROLES}
        for role in ROLES:
            desk.workers(role, environ={"DESK_METRICS_PORT": str(ports[role])})
        api = free_port()
        desk.desk("api", "api", "--port", str(api))
        wait_for(lambda: f":{api}" in desk.log("api"), "the service listens")
        found = Watched(desk, model, spans, f"http://127.0.0.1:{api}", ports)
        work(found)
        show(found)
        yield found


def import_book(desk: Processes) -> None:
    """An account at another broker, from a file that is gone then."""
    desk.database()
    file = desk.home / "held.csv"
    file.write_text(BOOK_FILE, encoding="utf-8")
    done = zygote.run(("holdings", "import", str(file), "--account", BOOK["account"], "--yes"), desk.environ, desk.home)
    assert done.returncode == 0, done.stderr
    file.unlink()


async def ask_mcp(desk: Watched, order: str) -> bytes:
    """What a program's model is answered: every tool that needs no more than symbols, and the dry run of an order."""
    answers = []
    async with over_stdio(desk.desk.home, "--run", order, **desk.desk.environ) as session:
        for tool in (await session.list_tools()).tools:
            wanted = set(tool.inputSchema.get("required", []))
            if wanted <= {"symbols", "symbol"}:
                given = {name: ["KO", "IBM"] if name == "symbols" else "KO" for name in wanted}
                answers.append((await session.call_tool(tool.name, given)).model_dump_json())
    assert len(answers) > 5
    return "\n".join(answers).encode()


def work(desk: Watched) -> None:
    """A whole screen to its orders; a turn, a tool, a step and both servers that fail."""
    screen = desk.ended(open_screen(desk.desk.app, SYMBOLS, max_candidates=3))
    assert screen.state == RunState.DONE, screen.notes
    assert screen.summary["orders"], "it came to orders"
    servers = [one for one in psutil.Process().children(recursive=True) if "codex" in one.name()]
    desk.environs += [json.dumps(one.environ()).encode() for one in servers]
    for instead in (refused, failed_with_headers):
        desk.model.instead = instead
        assert desk.ended(open_research(desk.desk.app, ["GE"])).state != RunState.DONE
    desk.model.instead = once(Call("bars", '{"symbol": 7}'), Call("no_such_tool"))
    desk.ended(open_research(desk.desk.app, ["IBM"]))
    desk.model.instead = lambda _: None
    crash(desk)
    lose_servers(desk)


def refused(request: Seen) -> Reply:
    """A provider that quotes the key, as some do."""
    message = f"Incorrect API key provided: {CANARIES['provider_key']}. You sent {request.headers['authorization']}"
    return Status(401, {"error": {"message": message}})


def failed_with_headers(request: Seen) -> Reply:
    """A gateway that answers with the request."""
    return Status(400, {"error": {"message": f"bad request: {json.dumps(request.headers)}"}})


def once(*replies: Reply) -> Any:
    waiting = list(replies)
    return lambda _: waiting.pop(0) if waiting else None


def crash(desk: Watched) -> None:
    """A step whose candidate does not exist: its worker's traceback is logged."""
    step = new_report("NOBODY")
    with desk.store.read() as session:
        like = session.exec(select(Run).order_by(col(Run.created_at))).first()
    assert like is not None
    opened(desk.store, step, attempts=1, provider=like.provider, model=like.model)
    desk.desk.app.send_task("desk.report", args=(step.id,))
    wait_for(lambda: ended(desk, step.id), "the step that crashes ends")
    wait_for(lambda: "Traceback" in desk.desk.log("research"), "the traceback is in the log")


def ended(desk: Watched, step_id: str) -> bool:
    with desk.store.read() as session:
        return bool(session.exec(select(Attempt).where(Attempt.step_id == step_id)).all())


def lose_servers(desk: Watched) -> None:
    """Both servers cut every connection in the middle of a run, and Redis is away for a while."""
    run = open_research(desk.desk.app, ["KO", "XOM"])
    process = desk.desk.running["redis-with-password"]
    port = make_url(desk.desk.environ["DESK_REDIS_URL"]).port
    assert port is not None
    before = len(desk.desk.log("research"))
    process.send_signal(signal.SIGKILL)
    process.wait(PATIENCE)
    wait_for(lambda: "onnection" in desk.desk.log("research")[before:], "the worker misses Redis")
    start_redis(desk.desk, desk.desk.home / "redis-with-password", port)
    if not desk.store.is_sqlite:
        with desk.store.engine.connect() as connection, contextlib.suppress(Exception):
            connection.execute(text(CUT))
    desk.ended(run)


def show(desk: Watched) -> None:
    """Everything that a person or a program may look at."""
    with desk.store.read() as session:
        run = session.exec(select(Run.id).order_by(col(Run.created_at))).first()
        order, thread = session.exec(select(Order.id)).first(), session.exec(select(KeptThread.thread_id)).first()
    assert run
    assert order
    assert thread
    for arguments in (
        ("config",), ("config", "--json"), ("doctor",), ("doctor", "--json"), ("status",), ("status", "--json"),
        ("runs", "show", run), ("runs", "show", run, "--json"), ("threads", "show", thread), ("orders", "show", order),
        ("audit", "show", "--order", order), ("db", "current"), ("notify", "test"),
    ):  # fmt: skip
        done = desk.command(*arguments)
        assert done.returncode in (0, 1), (arguments, done.stderr)
        assert "Traceback" not in done.stderr, (arguments, done.stderr)
    for command, name, value in (
        ("status", "DESK_REDIS_URL", f"redis://:{CANARIES['redis']}@127.0.0.1:9/0"),
        ("config", "DESK_REDIS_URL", f"http://:{CANARIES['redis']}@127.0.0.1:9/0"),
        ("doctor", "DESK_DATABASE_URL", f"postgresql+psycopg://desk:{CANARIES['postgres']}@127.0.0.1:9/desk"),
        ("config", "DESK_DATABASE_URL", f"mysql://desk:{CANARIES['postgres']}@127.0.0.1/desk"),
        ("config", "DESK_API_TOKEN", f"{CANARIES['api_token']} with spaces"),
        ("config", "DESK_SEC_IDENTITY", CANARIES["sec_identity"]),
        ("config", "DESK_NOTIFY_CHANNELS", f"desk={CANARIES['notify_channels']}"),
        ("config", "DESK_PROVIDER_URL", f"ftp://{CANARIES['provider_key']}@host"),
    ):
        assert "Traceback" not in desk.command(command, **{name: value}).stderr, (command, name)
    with serving(Alpaca()) as alpaca:
        done = desk.command("reconcile", DESK_BROKER="alpaca-paper", **constants(ALPACA=alpaca.url))
        assert done.returncode != 0, "the broker refuses keys that are not its own"
    desk.shown["mcp"] = asyncio.run(ask_mcp(desk, run))
    for path in paths(desk, {"run": run, "order": order, "thread": thread}):
        assert desk.get(path) < 500, desk.shown[f"GET {path}"]
    for role, port in desk.ports.items():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            desk.shown[f"metrics of {role}"] = answer.read()


def paths(desk: Watched, ids: dict[str, str]) -> list[str]:
    """The paths that are read, with an id for each parameter that has one."""
    assert desk.get("/openapi.json") == 200
    described = json.loads(desk.shown["GET /openapi.json"])
    found = []
    for path, methods in described["paths"].items():
        if "get" not in methods:
            continue
        for name, value in ids.items():
            path = path.replace(f"{{{name}_id}}", value)
        if "{" not in path:
            found.append(path)
    return found


def test_each_secret_of_the_desk_has_a_canary() -> None:
    secret = {name for name, found in Settings.model_fields.items() if "SecretStr" in str(found.annotation)}
    assert secret == {*SETTINGS, *ADDRESSES}, "give a new one its value in tests/security/canaries.py"
    assert len(set(CANARIES.values())) == len(CANARIES)


def test_it_was_at_work(watched: Watched) -> None:
    """Premises of the other tests: the key was used, spans came, and each failure left its trace."""
    assert len(list(watched.model.calls())) > 20
    assert watched.model.keyless == 0
    assert len(watched.spans.sent) > 5
    logs = "".join(watched.desk.log(role) for role in ROLES)
    for trace in ("Traceback", "DEBUG"):
        assert trace in logs or trace.lower() in logs
    with watched.store.read() as session:
        errors = " ".join(step.error or "" for step in session.exec(select(Step)))
    assert "Incorrect API key provided" in errors
    assert "bad request" in errors


def test_none_is_in_a_file(watched: Watched) -> None:
    """Logs, telemetry, the audit log, catalogs of models, temporary files. An app-server's own log and threads hold
    what a provider answered, as it came: they are for the desk's user alone."""
    configuration = watched.desk.home / "redis-with-password" / "redis.conf"
    names = {path.name for path in watched.desk.home.rglob("*")}
    assert {"research.log", "telemetry.jsonl", "audit.jsonl"} <= names
    own = [folder for kind in ("kept", "ephemeral") for folder in (watched.desk.home / "codex").rglob(kind)]
    assert len(own) >= 2
    assert {folder.stat().st_mode & 0o077 for folder in own} == {0}
    theirs = [path for folder in own for path in folder.rglob("*") if {"sqlite", "sessions"} & set(path.parts)]
    assert any(path.name.startswith("rollout") for path in theirs)
    assert in_files(watched.desk.home, but=[configuration, *theirs]) == []


def test_none_is_in_the_database(watched: Watched) -> None:
    """Runs with their settings, events, tool calls, rollouts in packed form."""
    engine = create_engine(watched.desk.settings.database)
    try:
        found, rows = in_database(engine)
    finally:
        engine.dispose()
    assert rows > 300
    assert found == []


def test_none_is_in_redis(watched: Watched) -> None:
    with redis.Redis.from_url(watched.desk.environ["DESK_REDIS_URL"]) as client:
        found, keys = in_redis(client)
    assert keys > 3
    assert found == []


def test_none_is_in_a_span(watched: Watched) -> None:
    assert [one for body in watched.spans.sent for one in seen("span", body)] == []


def test_none_is_shown(watched: Watched) -> None:
    """By commands, by the service, in metrics, in messages of wrong settings."""
    assert len(watched.shown) > 60
    assert [one for name, data in watched.shown.items() for one in seen(name, data)] == []


def test_none_is_an_argument_of_a_process(watched: Watched) -> None:
    """Everyone on a machine may read those."""
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            assert seen(process.name(), " ".join(process.cmdline()).encode()) == []


@needs("holdings")
def test_nothing_of_an_outside_account_is_anywhere_but_in_its_tables(watched: Watched) -> None:
    """Prompts, answers to models, events, logs, notices, reports, what an API shows without asking for amounts. A model
    may be told weights here, which are no amounts."""
    asked = b"\n".join(json.dumps(one.body).encode() for one in watched.model.calls())
    assert b"heldElsewhere" in asked, "the trader was told of it"
    assert any(b"Held elsewhere" in data for data in watched.shown.values()), "a report has it"
    database = [watched.desk.home / f"desk.db{end}" for end in ("", "-wal", "-shm")]
    found = seen("prompts", asked, BOOK) + in_files(watched.desk.home, database, BOOK)
    for name, data in watched.shown.items():
        found += seen(name, data, BOOK)
    for body in watched.spans.sent:
        found += seen("span", body, BOOK)
    engine = create_engine(watched.desk.settings.database)
    try:
        kept, _ = in_database(engine, BOOK)
        found += in_database(engine, BOOK, "holdings_")[0]
    finally:
        engine.dispose()
    assert {one.split(":")[0] for one in kept} >= {"holdings_account.name", "holdings_position.quantity"}
    assert "number" not in {one.split(": ")[1].split(" ")[0] for one in kept}, "of the number a digest alone is kept"
    with redis.Redis.from_url(watched.desk.environ["DESK_REDIS_URL"]) as client:
        found += in_redis(client, BOOK)[0]
    assert found == []


def test_an_app_server_has_no_key(watched: Watched) -> None:
    """The model's own process may run what the model asks for."""
    assert watched.environs
    assert [one for environ in watched.environs for one in seen("environ", environ)] == []


def test_a_canary_would_be_found(watched: Watched, tmp_path: Path) -> None:
    value = CANARIES["redis"]
    (tmp_path / "a.log").write_text(f"redis://:{value}@host", encoding="utf-8")
    assert len(in_files(tmp_path)) == 1
    for before in range(4):
        coded = base64.b64encode(b"u" * before + f":{value}@".encode())
        assert len(seen("header", b"Basic " + coded)) == 1
    with redis.Redis.from_url(watched.desk.environ["DESK_REDIS_URL"]) as client:
        client.rpush("a-canary", value)
        assert len(in_redis(client)[0]) == 1
        client.delete("a-canary")
