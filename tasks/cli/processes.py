"""`desk worker`, `desk beat`, `desk flower`, `desk rulebook`: the processes that `desk up` or a fleet runs."""

from __future__ import annotations

import os
import socket
from enum import StrEnum
from typing import Annotated

import typer

from agents.rulebook import server
from models.errors import ServiceError
from models.setting_sources import load_settings
from models.settings import Settings
from tasks import command as celery_command
from tasks import logs
from tasks.app import create_app, node_name
from tasks.beating import beat_on
from tasks.bootstrap import desk_of, redis_url
from tasks.cli.output import console, fail
from tasks.services import folders, nodes, ports
from tasks.services.programs import QUEUES
from tasks.services.redis import wait_ready

NO_ANSWER = 1
OPS_SLOTS = 8
REDIS_SECONDS = 10.0


class Role(StrEnum):
    """Which queues a worker serves."""

    RESEARCH = "research"
    OPS = "ops"
    TRADE = "trade"
    ALL = "all"


class Pool(StrEnum):
    THREADS = "threads"
    PREFORK = "prefork"


def register(app: typer.Typer) -> None:
    for command in (worker, ping, beat, flower, rulebook):
        app.command()(command)


def worker(
    role: Annotated[Role, typer.Argument(help="The queues to serve.")] = Role.ALL,
    pool: Annotated[Pool, typer.Option(help="How tasks run at once.")] = Pool.THREADS,
    concurrency: Annotated[int | None, typer.Option(help="Tasks at once; the role's own by default.", min=1)] = None,
    name: Annotated[str | None, typer.Option(help="Name of this worker, unique on its host.")] = None,
) -> None:
    """Run one worker in the foreground."""
    forget_credentials(QUEUES[role])
    settings = _configured()
    called = name or default_name(role)
    app = create_app(settings, called, warm=role is not Role.OPS)
    desk_of(app).telemetry.check()
    raise typer.Exit(celery_command.run(app, worker_arguments(settings, role, pool, concurrency, called)))


def forget_credentials(queues: str = "") -> None:
    """A process that sends no orders has no use for a broker's key, and its agents none at all."""
    if "trade" not in queues.split(","):
        for variable in Settings.CREDENTIALS:
            os.environ.pop(variable, None)


def default_name(role: Role) -> str:
    """Unique among the copies of a fleet: each container has a host name of its own."""
    return f"{role}-{socket.gethostname().partition('.')[0]}"


def ping(
    role: Annotated[Role, typer.Argument(help="The worker's role.")],
    name: Annotated[
        str | None, typer.Option(help="Its name; else any whose name begins with the role, as those of `desk up` do.")
    ] = None,
) -> None:
    """Ask a worker of this host whether it answers; exit code 1 when none does."""
    app = create_app(load_settings(), "ping")
    try:
        node = nodes.first(app, node_name(name or f"{role}*"))
    except ServiceError as error:
        raise typer.Exit(fail(error, NO_ANSWER)) from None
    console().print(f"{node} answers", highlight=False)


def _configured() -> Settings:
    settings = load_settings()
    logs.configure(settings)
    return settings


def worker_arguments(settings: Settings, role: Role, pool: Pool, concurrency: int | None, name: str) -> list[str]:
    """The arguments of Celery's worker command."""
    # A task that waits here for a turn is one that another worker cannot have.
    turns = min(settings.worker_threads, settings.codex_turns)
    slots = {Role.OPS: OPS_SLOTS, Role.TRADE: 1, Role.ALL: turns + OPS_SLOTS}.get(role, turns)
    if pool is Pool.PREFORK and role not in (Role.OPS, Role.TRADE):
        slots = 2  # each child has app-servers of its own
    # Trades of one account go one after the other, whatever was asked for.
    count = 1 if role is Role.TRADE else concurrency or slots
    return [
        "worker",
        *("-Q", QUEUES[role], "-P", pool.value, "-c", str(count), "-n", node_name(name)),
        *("-E", "--without-mingle", "--without-gossip", "-l", settings.log_level),
    ]


def beat() -> None:
    """Run the schedule in the foreground; a second one waits for the first one's lock."""
    settings = _configured()
    app = create_app(settings, "beat")
    wait_ready(redis_url(settings), REDIS_SECONDS)  # the schedule lives there, and its own error is a traceback
    raise typer.Exit(beat_on(app, ["beat", "-S", "redbeat.RedBeatScheduler", "-l", settings.log_level]))


def flower(
    port: Annotated[int | None, typer.Option(help="Port; the setting's or a free one.", min=1, max=65535)] = None,
    address: Annotated[
        str, typer.Option(help="Where to listen. Its metrics know no password: another one only inside a container.")
    ] = ports.LOOPBACK,
) -> None:
    """Run Flower on loopback: the queue's web page and its metrics."""
    settings = _configured()
    folders.prepare(settings.home)  # its state is kept there
    app = create_app(settings, "flower")
    chosen = port or settings.flower_port or ports.free_ports(1)[0]
    raise typer.Exit(celery_command.run(app, flower_arguments(settings, address, chosen)))


def flower_arguments(settings: Settings, address: str, port: int) -> list[str]:
    """The arguments of Flower's command; its state outlives it in the home."""
    return [
        "flower",
        f"--address={address}",
        f"--port={port}",
        "--persistent=True",
        f"--db={settings.home / 'flower'}",
        "--state_save_interval=10000",
        f"--logging={settings.log_level.lower()}",
    ]


def rulebook(
    port: Annotated[int, typer.Option(help="Port on loopback.", min=1, max=65535)],
    latency: Annotated[float | None, typer.Option(help="Seconds added to each answer.", min=0)] = None,
) -> None:
    """Serve the rulebook model on loopback: fixed rules behind a Responses API, no model."""
    settings = _configured()
    seconds = settings.rulebook_latency_seconds if latency is None else latency
    server.serve(port=port, latency_seconds=seconds)
