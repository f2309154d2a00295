"""Counters of the database, of Redis and of processor time, and what they come to a turn between two moments."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import psutil

from tests.bench.cpu import seconds_of
from tests.fleet.crew import RESEARCH, Crew
from tests.fleet.machine.servers import DATABASE

_COUNTED = "xact_commit, xact_rollback, tup_inserted, tup_updated"
_DATABASE = f"select {_COUNTED}, pg_database_size(datname) from pg_stat_database where datname = %s"
_JOURNAL = "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
_CONNECTED = "select count(*) from pg_stat_activity where datname = %s"


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals of a moment, or differences of two. Bytes: of the database's files, of its write-ahead log, in and out of
    Redis. commands: of Redis, by name; cpu: seconds by part. clients: connections at the moment, no difference."""

    commits: float
    rollbacks: float
    inserted: float
    updated: float
    size: float
    journal: float
    commands: Counter[str]
    traffic: float
    cpu: Counter[str]
    connections: int
    clients: int

    @classmethod
    def now(cls, crew: Crew) -> Counters:
        with crew.postgres.connect() as connection:
            row: Any = connection.execute(_DATABASE, [DATABASE]).fetchone()
            journal: Any = connection.execute(_JOURNAL).fetchone()
            connected: Any = connection.execute(_CONNECTED, [DATABASE]).fetchone()
        with contextlib.closing(crew.redis.client()) as client:
            info: dict[str, Any] = client.info("all")
        calls = {name.removeprefix("cmdstat_"): row for name, row in info.items() if name.startswith("cmdstat_")}
        commands = Counter({name: found["calls"] for name, found in calls.items()})
        traffic = info["total_net_input_bytes"] + info["total_net_output_bytes"]
        figures = [float(figure) for figure in row]
        return cls(
            *figures, float(journal[0]), commands, traffic, cpu_of(crew), int(connected[0]), info["connected_clients"]
        )

    def since(self, before: Counters) -> Counters:
        return Counters(
            self.commits - before.commits,
            self.rollbacks - before.rollbacks,
            self.inserted - before.inserted,
            self.updated - before.updated,
            self.size - before.size,
            self.journal - before.journal,
            self.commands - before.commands,
            self.traffic - before.traffic,
            self.cpu - before.cpu,
            self.connections,
            self.clients,
        )

    @property
    def transactions(self) -> float:
        """Both ends of one: what only reads is rolled back."""
        return self.commits + self.rollbacks


def cpu_of(crew: Crew) -> Counter[str]:
    """Return the seconds of processor time of each part so far."""
    spent: Counter[str] = Counter()
    for member in list(crew.members.values()):
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            process = psutil.Process(crew.processes.running[member.name].pid)
            own = seconds_of(process)
            spent[member.role] += own
            if member.role == RESEARCH:
                spent["app-servers"] += seconds_of(process, children=True) - own
    for server in (crew.postgres.server, crew.redis.server, crew.prometheus.server):
        spent[server.name] += seconds_of(psutil.Process(server.pid), children=True)
    spent["model and rehearsal"] += seconds_of(psutil.Process())
    return spent


Unit = Literal["turns", "seconds"]


@dataclass(frozen=True, slots=True)
class Cost:
    """Counters divided by turns, or by the seconds of a time without any."""

    counted: Counters
    by: float

    def lines(self, unit: Unit) -> list[tuple[str, str]]:
        """Return (name, figure) of each, for people."""
        one, found = self.by, self.counted
        busiest = ", ".join(f"{name} {calls / one:.1f}" for name, calls in found.commands.most_common(8))
        processor = ", ".join(f"{name} {seconds / one * 1000:.1f}" for name, seconds in found.cpu.most_common())
        each = "turn" if unit == "turns" else "second"
        return [
            (
                f"database transactions a {each}",
                f"{found.transactions / one:.1f} ({found.rollbacks / one:.1f} only read)",
            ),
            (f"rows inserted, updated a {each}", f"{found.inserted / one:.1f}, {found.updated / one:.1f}"),
            (f"write-ahead log a {each}", f"{found.journal / one / 1024:.1f} KiB"),
            (f"growth of the database a {each}", f"{found.size / one / 1024:.1f} KiB"),
            (f"Redis commands a {each}", f"{found.commands.total() / one:.1f} ({busiest})"),
            (f"Redis traffic a {each}", f"{found.traffic / one / 1024:.1f} KiB"),
            (f"processor ms a {each}", f"{found.cpu.total() / one * 1000:.1f} ({processor})"),
            ("connections", f"{found.connections} to the database, {found.clients} to Redis"),
        ]


def load() -> str:
    """Return the machine's load of the last minute and its processors: how far figures of time can be trusted."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
