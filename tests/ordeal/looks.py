"""(s) commands that only look: by themselves, and answered by a running desk, turn about. CPU and wall of both, and of
the desk for it."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from chordesk.tasks.cli import ask_running_desk
from tests.stack import Processes, processes, wait_for

COMMANDS = ("runs list", "status", "orders list", "scores", "approvals")
ROUNDS = 5


class Cost(NamedTuple):
    """Of one command in seconds. desk: CPU that the desk had for it."""

    wall: float
    cpu: float
    desk: float


@dataclass(frozen=True, slots=True)
class Look:
    """A command's medians. least: what an interpreter takes that loads typer and rich and does nothing."""

    name: str
    itself: Cost
    answered: Cost
    least: Cost

    @property
    def cpu(self) -> float:
        return self.answered.cpu + self.answered.desk


def look_times(rounds: int = ROUNDS) -> list[Look]:
    with processes(forked=False) as desk:
        up = psutil.Process(desk.desk("up", "up").pid)
        listing = desk.home / "run" / ask_running_desk.COMMANDS
        wait_for(listing.exists, "the desk answers")
        server = next(one for one in up.children() if one.cmdline() == up.cmdline())  # it is a fork
        return [_look(desk, name, listing, server, rounds) for name in COMMANDS]


def _look(desk: Processes, name: str, listing: Path, server: psutil.Process, rounds: int) -> Look:
    command = [sys.executable, "-m", "chordesk.tasks.cli.main", *name.split()]
    bare = [sys.executable, "-c", "import typer, rich.console, rich.table"]
    itself, answered, least = [], [], []
    for _ in range(rounds):
        with _unlisted(listing):
            itself.append(_cost(desk, command, server))
        answered.append(_cost(desk, command, server))
        least.append(_cost(desk, bare, server))
    return Look(name, _median(itself), _median(answered), _median(least))


@contextmanager
def _unlisted(listing: Path) -> Iterator[None]:
    aside = listing.rename(listing.with_suffix(".aside"))
    try:
        yield
    finally:
        aside.rename(listing)


def _cost(desk: Processes, command: Sequence[str], server: psutil.Process) -> Cost:
    before, theirs = resource.getrusage(resource.RUSAGE_CHILDREN), _of_children(server)
    began = time.monotonic()
    subprocess.run(
        command, env=desk.environ, cwd=desk.home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    wait_for(lambda: not server.children(), "the desk has answered")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, _of_children(server) - theirs)


def _of_children(server: psutil.Process) -> float:
    times = server.cpu_times()
    return float(times.user + times.system + times.children_user + times.children_system)


def _median(costs: Sequence[Cost]) -> Cost:
    return Cost(*(statistics.median(figures) for figures in zip(*costs, strict=True)))


if __name__ == "__main__":
    os.umask(0o077)
    for each in look_times():
        print(each)
