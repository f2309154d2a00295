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
        worker = psutil.Process(desk.running["research"].pid)
        times = worker.cpu_times()
        children = times.children_user + times.children_system  # those that have ended
        for child in worker.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                children += sum(child.cpu_times()[:2])
        redis = psutil.Process(desk.running["redis"].pid).cpu_times()
        return cls(times.user + times.system, children, redis.user + redis.system)

    def since(self, before: CpuTime, turns: int) -> CpuTime:
        """Return the milliseconds a turn between two moments."""
        share = 1000 / turns
        return CpuTime(
            (self.worker - before.worker) * share,
            (self.app_servers - before.app_servers) * share,
            (self.redis - before.redis) * share,
        )
