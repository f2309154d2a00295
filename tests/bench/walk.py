"""(o) a walk over past sessions, played by the rulebook: sessions a minute on one worker process and on two.

Two desks that a person may run. On the small one a single `desk worker` serves all queues, and another is added to
it. On the one of `desk up` the bookkeeping and the orders have processes of their own, and `--workers 2` adds a second
research worker to three processes that are at work already: on two processors that can add less.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import psutil

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.backtest import open_backtest
from chordesk.tasks.workflows.research import open_research
from tests.bench.cpu import seconds_of
from tests.stack import Processes, processes

# A session takes some seconds of CPU, and a busy machine gives the walk a small part of its processors.
LEAST_SECONDS, SECONDS_A_SESSION = 600.0, 60.0
# Seconds between two looks at the run: more often, and the bench would take time from what it measures.
POLL = 0.5
FIRST = dt.date(2010, 3, 1)


# The processes of each desk, by what is added to it: the first of them is what a second worker takes work from.
DESKS = {
    "`desk worker`": (("all",), ("all", "all-2")),
    "`desk up`": (("research-1", "ops", "trade"), ("research-1", "research-2", "ops", "trade")),
}


@dataclass(frozen=True, slots=True)
class Walked:
    """One walk. seconds: wall; cpu: seconds of user and system time of each process, by its name; worker: the process
    that a second one takes work from."""

    worker: str
    turns: int
    seconds: float
    cpu: Mapping[str, float]

    @property
    def attainable(self) -> float:
        """Times that two workers are faster when all processes share two processors that nothing else uses.

        One worker is as long at work as its CPU time; with two, both processors have half of all.
        """
        return 2 * self.cpu[self.worker] / sum(self.cpu.values())


@dataclass(frozen=True, slots=True)
class WalkPace:
    """The same walk on a desk with one worker process and with two."""

    desk: str
    sessions: int
    one: Walked
    two: Walked

    @property
    def faster(self) -> float:
        return self.one.seconds / self.two.seconds

    def a_minute(self, walk: Walked) -> float:
        return 60 * self.sessions / walk.seconds

    def cpu_a_session(self, walk: Walked) -> dict[str, float]:
        """Return the CPU seconds a session of each process, the most first."""
        spent = sorted(walk.cpu.items(), key=lambda pair: -pair[1])
        return {name: seconds / self.sessions for name, seconds in spent}


def walk_paces(sessions: int) -> Iterator[WalkPace]:
    """Yield the pace of each desk."""
    for desk, (one, two) in DESKS.items():
        yield WalkPace(desk, sessions, _walk(sessions, one), _walk(sessions, two))


def _walk(sessions: int, workers: Sequence[str]) -> Walked:
    with processes(forked=False) as desk:
        desk.rulebook()
        desk.workers(*workers)
        limit = max(LEAST_SECONDS, sessions * SECONDS_A_SESSION)
        _ended(desk, open_research(desk.app, ["IBM", "KO"]), limit)
        days = [day for day in desk_of(desk.app).market.recorded() if day >= FIRST][:sessions]  # type: ignore[attr-defined]
        before = _cpu(desk)
        run = _ended(desk, open_backtest(desk.app, days[0], days[-1]), limit)
        after = _cpu(desk)
        assert run.state == RunState.DONE, run.notes
        assert run.summary["sessions"] == sessions
        assert run.summary["missing"] == [], run.summary["missing"]
        assert run.finished_at is not None
        seconds = (run.finished_at - run.created_at).total_seconds()
        spent = {name: after[name] - before[name] for name in after}
        return Walked(workers[0], run.summary["turns"], seconds, spent)


def _cpu(desk: Processes) -> dict[str, float]:
    """Return the CPU seconds that each process of a desk has spent with its children, and this one."""
    spent = {name: seconds_of(psutil.Process(process.pid), children=True) for name, process in desk.running.items()}
    return {**spent, "bench": seconds_of(psutil.Process())}


def _ended(desk: Processes, run: Run, limit: float) -> Run:
    store, until = desk_of(desk.app).store, time.monotonic() + limit
    while True:
        with store.read() as session:
            row = session.get_one(Run, run.id)
        if row.state in RUN_FINAL:
            return row
        assert time.monotonic() < until, f"not within {limit:g} s: the {run.kind} ends"
        time.sleep(POLL)
