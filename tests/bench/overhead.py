"""(h) what events and telemetry cost, its file and metrics too: turns per second with and without, on the same desk."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from tests.bench.throughput import ANSWER, TOOL, queued
from tests.stack import Processes, free_port, processes

MODULES = {"with": "tasks.cli.main", "without": "tests.bench.quiet"}


@dataclass(frozen=True, slots=True)
class Overhead:
    """Turns per second of the pair of rounds with the median ratio."""

    with_them: float
    without: float

    @property
    def share(self) -> float:
        """Of the turns per second, what they cost."""
        return 1 - self.with_them / self.without


def overhead(role: str, turns: int, at_once: int, rounds: int) -> Overhead:
    """Each round is a pair, and which of it comes first changes, so that neither has the older desk."""
    with processes(forked=False) as desk:
        desk.stand_in("--latency", "0", *TOOL, "--answer", ANSWER)
        pairs = []
        for number in range(rounds):
            order = ("with", "without") if number % 2 else ("without", "with")
            found = {kind: _round(desk, kind, role, turns, at_once) for kind in order}
            pairs.append(Overhead(found["with"], found["without"]))
    pairs.sort(key=lambda pair: pair.share)
    return pairs[len(pairs) // 2]


def _round(desk: Processes, kind: str, role: str, turns: int, at_once: int) -> float:
    watched = {}
    if kind == "with":
        watched = {"DESK_TELEMETRY_FILE": str(desk.home / "telemetry.jsonl"), "DESK_METRICS_PORT": str(free_port())}
    arguments = ("worker", "research", "--name", "research", "--pool", "threads", "--concurrency", str(at_once))
    desk.spawn("research", sys.executable, "-m", MODULES[kind], *arguments, environ=watched)
    desk.await_workers("research")
    queued(desk, role, at_once)
    rate, _ = queued(desk, role, turns)
    desk.end("research")
    return rate
