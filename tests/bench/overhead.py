"""(h) what events and telemetry cost, its file and metrics too: turns per second with and without.

Both desks run all the while and work in turns, a few seconds each: on a machine whose clock swings by a quarter, rounds
that are further apart compare its clock.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from tests.bench.throughput import ANSWER, TOOL, queued
from tests.stack import Processes, free_port, processes

WITH, WITHOUT = "tasks.cli.main", "tests.bench.quiet"
WARM = 2  # rounds that fill caches and are not counted


@dataclass(frozen=True, slots=True)
class Overhead:
    """Turns per second over all rounds, and the cost by the first and the third quartile of the rounds."""

    with_them: float
    without: float
    least: float
    most: float

    @property
    def share(self) -> float:
        """Of the turns per second, what they cost."""
        return 1 - self.with_them / self.without


def overhead(role: str, turns: int, at_once: int, rounds: int) -> Overhead:
    """Each round is a pair, and which of it comes first changes."""
    with ExitStack() as desks:
        both = {module: desks.enter_context(_desk(module, at_once)) for module in (WITH, WITHOUT)}
        seconds: dict[str, list[float]] = {WITH: [], WITHOUT: []}
        for number in range(WARM + rounds):
            for module in (WITH, WITHOUT) if number % 2 else (WITHOUT, WITH):
                rate, _ = queued(both[module], role, turns)
                seconds[module].append(turns / rate)
    pairs = list(zip(seconds[WITH][WARM:], seconds[WITHOUT][WARM:], strict=True))
    costs = sorted(1 - without / with_them for with_them, without in pairs)
    least, _, most = statistics.quantiles(costs, n=4)
    return Overhead(*(turns * rounds / sum(spent) for spent in zip(*pairs, strict=True)), least, most)


@contextmanager
def _desk(module: str, at_once: int) -> Iterator[Processes]:
    with processes(forked=False) as desk:
        desk.stand_in("--latency", "0", *TOOL, "--answer", ANSWER)
        watched = {}
        if module == WITH:
            file = str(desk.home / "telemetry.jsonl")
            watched = {"DESK_TELEMETRY_FILE": file, "DESK_METRICS_PORT": str(free_port())}
        arguments = ("worker", "research", "--name", "research", "--pool", "threads", "--concurrency", str(at_once))
        desk.spawn("research", sys.executable, "-m", module, *arguments, environ=watched)
        desk.await_workers("research")
        yield desk
