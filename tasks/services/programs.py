"""The programs supervised by `desk up`, as data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import chordesk
from chordesk.models.errors import UsageError
from chordesk.tasks.engine.kinds import WORKER_QUEUES

Group = Literal["services", "desk"]

MOST_WORKERS = 32
# The places of programs after the port of DESK_METRICS_PORT: each keeps its own, however many research workers there
# are. That of the process that sends notifications is after the last one of these.
WATCHED = ("ops", "trade", "beat", "api", "research")
CODE_ROOT = Path(chordesk.__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Program:
    """One supervised process.

    where: its address, for people. node: the Celery node name it answers to, when it is a worker.
    stop_seconds: time between SIGTERM and SIGKILL. end: the signal it gets when its supervisor dies.
    trades: it sends orders, and so it alone gets the broker's credentials. metrics_port: of its metrics and health, 0
    without any.
    """

    name: str
    command: tuple[str, ...]
    group: Group = "desk"
    where: str = ""
    node: str | None = None
    stop_seconds: int = 4
    end: Literal["TERM", "KILL"] = "KILL"
    trades: bool = False
    metrics_port: int = 0

    @property
    def full_name(self) -> str:
        return f"{self.group}:{self.name}"


@dataclass(frozen=True, slots=True)
class Choice:
    """The optional programs of a desk, besides its services."""

    research_workers: int = 1
    beat: bool = True
    flower: bool = True
    api: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.research_workers <= MOST_WORKERS:
            raise UsageError(f"--workers {self.research_workers}: allowed are 1 to {MOST_WORKERS}")


def watched(programs: Sequence[Program], first_port: int) -> tuple[Program, ...]:
    """Return the programs with fixed ports for their metrics, from `first_port` on; unchanged when it is 0."""
    places = {name: place for place, name in enumerate(WATCHED)}
    places |= {f"research-{one}": places["research"] + one - 1 for one in range(2, MOST_WORKERS + 1)}
    places["notify"] = places["research"] + MOST_WORKERS
    if not first_port:
        return tuple(programs)
    return tuple(
        replace(each, metrics_port=first_port + places[each.name]) if each.name in places else each for each in programs
    )


def desk_command(*arguments: str) -> tuple[str, ...]:
    """Return the `desk` command with this interpreter; -P keeps the working folder's packages out."""
    return (sys.executable, "-P", "-m", "chordesk.tasks.cli.main", *arguments)


def rulebook(port: int, url: str) -> Program:
    command = desk_command("rulebook", "--port", str(port))
    return Program("rulebook", command, group="services", where=url, stop_seconds=2)


def redis_server(command: Sequence[str], where: str) -> Program:
    # SIGTERM lets the server flush its append-only file when the supervisor is gone.
    return Program("redis", tuple(command), group="services", where=where, stop_seconds=3, end="TERM")


def workers(choice: Choice, flower_port: int, suffix: str) -> tuple[Program, ...]:
    """Return the research, ops and trade workers, then beat and Flower as chosen."""
    names = ["research" if one == 1 else f"research-{one}" for one in range(1, choice.research_workers + 1)]
    programs = [_worker("research", name, suffix) for name in names]
    programs += [_worker(role, role, suffix) for role in ("ops", "trade")]
    if choice.beat:
        programs.append(Program("beat", desk_command("beat"), where="schedule in New York time", stop_seconds=2))
    if choice.flower:
        command = desk_command("flower", "--port", str(flower_port))
        programs.append(Program("flower", command, where=f"http://127.0.0.1:{flower_port}", stop_seconds=2))
    return tuple(programs)


def notifier() -> Program:
    return Program("notify", desk_command("notify", "run"), where="notifications of people", stop_seconds=4)


def api(host: str, port: int) -> Program:
    command = desk_command("api", "--port", str(port))
    return Program("api", command, where=f"http://{f'[{host}]' if ':' in host else host}:{port}", stop_seconds=3)


def _worker(role: str, name: str, suffix: str) -> Program:
    node, queues = f"{name}{suffix}", WORKER_QUEUES[role]
    command = desk_command("worker", role, "--name", node)
    return Program(name, command, where=f"queue {queues}", node=node, trades="trade" in queues.split(","))
