"""(h) cost of events and telemetry, its file and metrics too: CPU milliseconds a turn, and turns per second.

Both desks run all the while and work in turns, a few seconds each: the clock of a machine may swing by a quarter, and
rounds that are further apart compare its clock.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.bench.names import markets
from tests.bench.turns.throughput import ANSWER, TOOL, Queued, queued
from tests.stack import Processes, free_port, processes

WITH, WITHOUT = "chordesk.tasks.cli.main", "tests.bench.turns.quiet"
WARM = 1  # rounds that fill caches and are not counted


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure with events and telemetry and with neither: medians over all rounds, and the quartiles of the
    differences of the rounds."""

    on: float
    off: float
    least: float
    most: float

    @classmethod
    def of(cls, on: Sequence[float], off: Sequence[float]) -> Compared:
        differences = [one - other for one, other in zip(on, off, strict=True)]
        least, _, most = statistics.quantiles(differences, n=4)
        return cls(statistics.median(on), statistics.median(off), least, most)


@dataclass(frozen=True, slots=True)
class Overhead:
    """cpu_ms: of the worker's own process and Redis, a turn. rate: turns per second. app_server_ms: CPU of an
    app-server a turn, which tells how fast the machine is."""

    cpu_ms: Compared
    rate: Compared
    app_server_ms: float


def overhead(role: str, turns: int, at_once: int, rounds: int, latency: float) -> Overhead:
    """Measure pairs of rounds; which of a pair comes first alternates. latency: seconds a model call."""
    found: dict[str, list[Queued]] = {WITH: [], WITHOUT: []}
    with ExitStack() as desks:
        both = {module: desks.enter_context(_desk(module, at_once, latency)) for module in (WITH, WITHOUT)}
        days = markets(both[WITH].settings)
        for number in range(WARM + rounds):
            day = next(days)
            for module in (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH):
                found[module].append(queued(both[module], role, turns, day))
    on, off = found[WITH][WARM:], found[WITHOUT][WARM:]
    return Overhead(
        Compared.of(*([one.cpu.worker + one.cpu.redis for one in some] for some in (on, off))),
        Compared.of(*([one.rate for one in some] for some in (on, off))),
        statistics.median(one.cpu.app_servers for one in on),
    )


@contextmanager
def _desk(module: str, at_once: int, latency: float) -> Iterator[Processes]:
    with processes(forked=False) as desk:
        desk.stand_in("--latency", str(latency), *TOOL, "--answer", ANSWER)
        watched = {}
        if module == WITH:
            file = str(desk.home / "telemetry.jsonl")
            watched = {"DESK_TELEMETRY_FILE": file, "DESK_METRICS_PORT": str(free_port())}
        arguments = ("worker", "research", "--name", "research", "--pool", "threads", "--concurrency", str(at_once))
        desk.spawn("research", sys.executable, "-m", module, *arguments, environ=watched)
        desk.await_workers("research")
        yield desk
