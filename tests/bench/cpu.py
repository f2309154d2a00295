"""CPU time of a desk's processes, for figures of milliseconds a turn."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import psutil

from tests.stack import Processes


@dataclass(frozen=True, slots=True)
class CpuTime:
    """User and system time of the research worker's own process, of its children (the app-servers) and of Redis; in
    seconds, or in milliseconds a turn."""

    worker: float
    app_servers: float
    redis: float

    @classmethod
    def spent(cls, desk: Processes) -> CpuTime:
        """Return the seconds that a running desk's processes have spent since they started."""
        worker, redis = (psutil.Process(desk.running[name].pid) for name in ("research", "redis"))
        own = seconds_of(worker)
        return cls(own, seconds_of(worker, children=True) - own, seconds_of(redis))

    def since(self, before: CpuTime, turns: int) -> CpuTime:
        """Return the milliseconds a turn between two moments."""
        share = 1000 / turns
        return CpuTime(
            (self.worker - before.worker) * share,
            (self.app_servers - before.app_servers) * share,
            (self.redis - before.redis) * share,
        )


def seconds_of(process: psutil.Process, *, children: bool = False) -> float:
    """Return the seconds of user and system time of a process. children: with those of its children, ended ones too."""
    times = process.cpu_times()
    spent = times.user + times.system
    if not children:
        return float(spent)
    spent += times.children_user + times.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent += sum(child.cpu_times()[:2])
    return float(spent)
