"""`desk worker`, `desk beat`, `desk flower`, `desk rulebook`: the processes that `desk up` or a fleet runs."""

from __future__ import annotations

import atexit
import gc
import json
import logging
import os
import shlex
import shutil
import socket
import sys
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from platformdirs import user_config_path

from chordesk.models import heap, home
from chordesk.models.errors import UsageError
from chordesk.models.features import require_extra
from chordesk.models.files import replacing, user_home
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.settings.variables import OWN_SECRETS, both_forms, unneeded
from chordesk.models.urls import is_loopback
from chordesk.tasks.cli.output import print_line, warn
from chordesk.tasks.cli.ping import ping as local_ping
from chordesk.tasks.cli.shell import checked

if TYPE_CHECKING:
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tools.registry import Toolset


NAME = "desk"  # of the server in a client's file


class McpClient(StrEnum):
    """A program that speaks MCP, by its command."""

    CLAUDE = "claude"
    CODEX = "codex"
    VSCODE = "vscode"


@dataclass(frozen=True, slots=True)
class Server:
    """How a client starts `desk mcp` on a home."""

    command: str
    arguments: tuple[str, ...]
    home: Path

    @property
    def entry(self) -> dict[str, Any]:
        return {"command": self.command, "args": list(self.arguments), "env": {"DESK_HOME": str(self.home)}}

    def command_for(self, client: McpClient) -> str:
        """Return the shell's command that has the client write the entry by itself."""
        if client is McpClient.VSCODE:
            return shlex.join(["code", "--add-mcp", json.dumps({"name": NAME, **self.entry})])
        home = f"DESK_HOME={self.home}"
        return shlex.join([client, "mcp", "add", NAME, "--env", home, "--", self.command, *self.arguments])


def server_of(home: Path, run: str | None) -> Server:
    beside = Path(sys.executable).with_name("desk")  # a client has another PATH than this shell
    arguments = ("mcp", *(("--run", run) if run is not None else ()))
    return Server(str(beside) if beside.is_file() else "desk", arguments, home.resolve())


def file_of(client: McpClient) -> Path:
    """Return the file of a client's servers for all folders of this person."""
    home = user_home() or Path("/")
    if client is McpClient.CLAUDE:
        return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"
    if client is McpClient.CODEX:
        return Path(os.environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    return user_config_path("Code", appauthor=False, roaming=True) / "User" / "mcp.json"


def write_entry(client: McpClient, server: Server) -> str:
    """Write the entry into the client's file, and return what was done. All else in the file stays; the file as it was
    is kept beside it. Raises UsageError for a file that does not parse or cannot be written."""
    path = file_of(client).resolve()  # what a link in the folder points to is the file
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        after = _in_toml(before, server) if client is McpClient.CODEX else _in_json(before, client, server)
        if after == before:
            return f"{path} has this server already"
        kept = path.with_name(f"{path.name}.before-{NAME}")
        if path.exists():
            shutil.copy2(path, kept)
        with replacing(path) as file:
            file.write(after.encode())
        if not before:
            return f"wrote {path}"
        shutil.copymode(kept, path)
        return f"wrote {path}; as it was: {kept}"
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{path} cannot be changed: {error}", remedy=f"correct it, or run: {server.command_for(client)}"
        ) from None


def _in_json(before: str, client: McpClient, server: Server) -> str:
    found = json.loads(before) if before.strip() else {}
    key = "servers" if client is McpClient.VSCODE else "mcpServers"
    servers = found.get(key, {}) if isinstance(found, dict) else None
    if not isinstance(servers, dict):
        raise ValueError(f"it is not an object with an object {key!r}")
    entry = {"type": "stdio", **server.entry}
    if servers.get(NAME) == entry:
        return before
    return json.dumps({**found, key: {**servers, NAME: entry}}, indent=2, ensure_ascii=False) + "\n"


def _in_toml(before: str, server: Server) -> str:
    """Return the text with a table more: comments and order of the rest are a person's."""
    servers, entry = tomllib.loads(before).get("mcp_servers", {}), server.entry
    if not isinstance(servers, dict):
        raise ValueError("mcp_servers is not a table")
    if (present := servers.get(NAME)) is not None:
        if present == entry:
            return before
        raise ValueError(f"it has another server {NAME!r}; remove that with: codex mcp remove {NAME}")
    # A string of JSON is one of TOML.
    lines = [f"{key} = {json.dumps(entry[key], ensure_ascii=False)}" for key in ("command", "args")]
    lines += [f"env = {{ DESK_HOME = {json.dumps(entry['env']['DESK_HOME'], ensure_ascii=False)} }}", ""]
    after = "\n".join([*([before.rstrip("\n"), ""] if before.strip() else []), f"[mcp_servers.{NAME}]", *lines])
    tomllib.loads(after)  # an inline table takes no further one
    return after


commands = typer.Typer()


OPS_SLOTS = 8
TRIAL_KEY, LOOK_SECONDS = "desk:backup-trial", 3_600  # how often a worker looks whether a trial of a backup is due
REDIS_SECONDS = 10.0
SCHEDULER = "chordesk.tasks.worker.scheduler:WatchedScheduler"


class WorkerRole(StrEnum):
    """The queues a worker serves."""

    RESEARCH = "research"
    OPS = "ops"
    TRADE = "trade"
    ALL = "all"


@commands.command()
def worker(
    role: Annotated[WorkerRole, typer.Argument(help="The queues to serve.")] = WorkerRole.ALL,
    concurrency: Annotated[int | None, typer.Option(help="Tasks at once; by default the role's.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name of this worker, unique on its host.")] = None,
) -> None:
    """Run one worker in the foreground."""
    heap.share_arenas()

    from chordesk.tasks import life
    from chordesk.tasks.engine.kinds import WORKER_QUEUES
    from chordesk.tasks.redis_clients import redis_url, require_fit
    from chordesk.tasks.running_processes import present
    from chordesk.tasks.worker import celery_fixes, soundness_watch
    from chordesk.tasks.worker.app import create_app
    from chordesk.tasks.worker.control import app_server_parts

    forget_credentials(WORKER_QUEUES[role])
    turns = role in (WorkerRole.RESEARCH, WorkerRole.ALL)
    needs = ("provider_key",) if turns else ()
    settings = configured("message_key", *needs, own_switch=_sends_orders(WORKER_QUEUES[role]))
    called = name or default_name(role)
    app = create_app(settings, called, warm=role is not WorkerRole.OPS, turns=turns)
    if (warning := require_fit(redis_url(settings))) is not None:
        warn([warning])
    app.desk.telemetry.check()
    soundness_watch.also(TRIAL_KEY, LOOK_SECONDS, _backup_trial)
    if settings.metrics_port:
        from chordesk.tasks.worker.signing import OPTION
        from chordesk.tasks.worker.worker_gauges import watch_worker

        watch_worker(app.desk, role, app.conf.broker_transport_options.get(OPTION))
    with present(settings, called, role, of_home=_sends_orders(WORKER_QUEUES[role])):
        life.looks_after(lambda: app_server_parts(app.desk))
        code = celery_fixes.run_celery(app, worker_arguments(settings, role, concurrency, called))
    end(code)


def _backup_trial(desk: Desk) -> None:
    from chordesk.tasks.backup.drill import run_if_due  # loaded once an hour at most, and by one process

    run_if_due(desk)


def end(code: int) -> NoReturn:
    """Python's own end takes modules apart, which is seconds on a busy machine: whoever stops a fleet waits for it."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def forget_credentials(queues: str = "", keep: Iterable[str] = ()) -> None:
    """keep: keys that this process needs besides those of its queues."""
    from chordesk.tasks.services.plan import unneeded_keys

    for variable in set(unneeded_keys(queues)).difference(both_forms(keep)):
        os.environ.pop(variable, None)


def _sends_orders(queues: str) -> bool:
    return "trade" in queues.split(",")


def default_name(role: WorkerRole) -> str:
    """Return a name unique among the copies of a fleet: each container has a host name of its own."""
    return f"{role}-{socket.gethostname().partition('.')[0]}"


@commands.command()
def ping(
    role: Annotated[WorkerRole, typer.Argument(help="The worker's role.")],
    name: Annotated[
        str | None, typer.Option(help="Its name; else any whose name begins with the role, as those of `desk up` do.")
    ] = None,
) -> None:
    """Check that a worker of this host answers.

    Exit code 1 when none does.
    """
    raise typer.Exit(local_ping(role, name))


def stay(settings: Settings) -> None:
    """Set up a process that lives long: its logs, and the collections that a command which ends does without."""
    from chordesk.tasks.worker import log_format

    home.keep(settings.home, os.environ)
    gc.set_threshold(20_000)
    log_format.configure(settings)


def configured(*needs: str, own_switch: bool = False) -> Settings:
    """needs: secrets that this process keeps of those that a `.env` has. own_switch: the live switch is its
    environment's."""
    settings = checked(own_switch=own_switch).settings
    stay(settings)
    for variable in unneeded(needs):
        os.environ.pop(variable, None)
    return settings.model_copy(update=dict.fromkeys(OWN_SECRETS.difference(needs)))


def worker_arguments(settings: Settings, role: WorkerRole, concurrency: int | None, name: str) -> list[str]:
    from chordesk.tasks.engine.kinds import WORKER_QUEUES
    from chordesk.tasks.worker.app import node_name

    # A task that waits here for a turn is withheld from other workers.
    turns = settings.codex_turns
    slots = {WorkerRole.OPS: OPS_SLOTS, WorkerRole.TRADE: 1, WorkerRole.ALL: turns + OPS_SLOTS}.get(role, turns)
    # Trades of one account are never concurrent, whatever the option.
    count = 1 if role is WorkerRole.TRADE else concurrency or slots
    return [
        "worker",
        *("-Q", WORKER_QUEUES[role], "-P", "threads", "-c", str(count), "-n", node_name(name)),
        *("-E", "--without-mingle", "--without-gossip", "-l", settings.log_level),
    ]


@commands.command()
def beat() -> None:
    """Run the schedule in the foreground.

    A second one waits for the lock of the first.
    """
    from chordesk.tasks.redis_clients import redis_url, wait_ready
    from chordesk.tasks.running_processes import present
    from chordesk.tasks.worker.app import create_app
    from chordesk.tasks.worker.scheduler import run_beat

    settings = configured("message_key")
    app = create_app(settings, "beat")
    app.desk.watch.serve("beat")
    wait_ready(redis_url(settings), REDIS_SECONDS)  # the schedule is there; redbeat's error is a traceback
    with present(settings, "beat"):
        code = run_beat(app, ["beat", "-S", SCHEDULER, "-l", settings.log_level])
    end(code)


@commands.command()
def flower(
    port: Annotated[int | None, typer.Option(help="Port; a free one by default.", min=1, max=65535)] = None,
    address: Annotated[
        str, typer.Option(help="Address; metrics and health ask for no login, so use another only inside a container.")
    ] = "127.0.0.1",
) -> None:
    """Run Flower on loopback: a web page about the queues.

    It has their metrics, too. The login is DESK_FLOWER_AUTH, else desk with the password in run/flower-password of the
    home.
    """
    from chordesk.tasks.running_processes import present
    from chordesk.tasks.services import plan
    from chordesk.tasks.services.plan import free_ports
    from chordesk.tasks.web.security import flower_login, host_names
    from chordesk.tasks.worker import celery_fixes
    from chordesk.tasks.worker.app import create_app

    settings = configured("message_key", "flower_auth")
    plan.prepare_folders(settings.home)  # its state is kept there
    app = create_app(settings, "flower")
    chosen = port or free_ports(1)[0]
    os.environ["FLOWER_BASIC_AUTH"] = flower_login(settings).value  # an argument would be seen in ps
    celery_fixes.guard_flower(host_names(settings))
    with present(settings, "flower", loop=False):
        code = celery_fixes.run_celery(app, flower_arguments(settings, address, chosen))
    end(code)


def flower_arguments(settings: Settings, address: str, port: int) -> list[str]:
    """Return the arguments of Flower's command; its state is kept in the home."""
    return [
        "flower",
        f"--address={address}",
        f"--port={port}",
        "--persistent=True",
        f"--db={settings.home / 'flower'}",
        "--state_save_interval=10000",
        f"--logging={settings.log_level.lower()}",
    ]


@commands.command()
def rulebook(
    port: Annotated[int, typer.Option(help="Port on loopback.", min=1, max=65535)],
    latency: Annotated[float, typer.Option(help="Seconds added to each answer.", min=0)] = 0.0,
) -> None:
    """Serve the rulebook model on loopback: rules, no model.

    Fixed rules behind a Responses API.
    """
    from chordesk.agents.rulebook.server import build_server

    configured()
    build_server(port=port, latency_seconds=latency).run()


@commands.command()
def api(
    port: Annotated[int | None, typer.Option(help="Port; the setting's or a free one.", min=0, max=65535)] = None,
) -> None:
    """Serve the desk over HTTP, with live events.

    Runs, threads, orders, approvals and stop.
    """
    from chordesk.tasks.running_processes import present
    from chordesk.tasks.services import stop_signals

    # Loaded here: no other command, and no worker, has use for a web framework.
    from chordesk.tasks.web.app import require_servable, serve

    forget_credentials()
    settings = checked().settings
    stay(settings)
    require_servable(settings)  # before the database is asked

    def announce(url: str, token_at: str) -> None:
        print_line(f"listening on {url}, the token is in {token_at}")
        if not is_loopback(settings.api_host):
            warn([f"{settings.api_host} is not loopback, and tokens go in clear: put TLS in front"])

    try:
        with stop_signals.raised(), present(settings, "api"):
            serve(settings, settings.api_port if port is None else port, announce, watched=True)
    except stop_signals.StopRequested as stop:
        end(128 + stop.number)


@commands.command()
def mcp(
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve streamable HTTP there; by default stdio.")
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="A run: its market as of its day, and the dry run of its orders.")
    ] = None,
    tool: Annotated[list[str] | None, typer.Option(help="A tool to offer, again for more; by default all.")] = None,
    install: Annotated[McpClient | None, typer.Option(help="Print what adds this server to a client, and end.")] = None,
    write: Annotated[bool, typer.Option("--write", help="With --install: write it into the client's file.")] = False,
) -> None:
    """Offer the desk's read tools over MCP; none submits orders."""
    from chordesk.tasks.services import stop_signals

    if write and install is None:
        raise UsageError("--write needs a client", remedy=f"add --install {'|'.join(McpClient)}")
    if install is not None:
        server = server_of(load_settings().home, run)
        print_line(write_entry(install, server) if write else server.command_for(install))
        return

    require_extra("mcp", "`desk mcp`")
    # Loaded here: agents and a web framework, which no other command of this module's wing has use for.
    from chordesk.agents.program_tools import offer

    forget_credentials(keep=Settings.DATA_CREDENTIALS)  # its tools read chains
    settings = load_settings()
    stay(settings)
    logging.getLogger("mcp").setLevel(logging.WARNING)  # at INFO it has a line or two for each request
    toolset = offer(settings, run, names=tool, preview=run is not None and tool is None)
    with stop_signals.raised():
        _serve(settings, toolset, run, http)


def _serve(settings: Settings, toolset: Toolset, run: str | None, http: str | None) -> None:
    from chordesk.tasks.web.mcp.protocol import RunResources

    runs = RunResources(settings, run)
    if http is None:
        from chordesk.tasks.web.mcp.protocol import serve_stdio

        serve_stdio(toolset, runs)
        return
    from chordesk.tasks.web.mcp.http import address_of, serve_http

    host, _ = address_of(http)

    def announce(url: str, token_at: str) -> None:
        print_line(f"listening on {url}, the token is in {token_at}")
        if not is_loopback(host):
            warn([f"{host} is not loopback, and tokens go in clear: put TLS in front"])

    serve_http(settings, toolset, runs, http, announce)
