"""CPU seconds of the same work on a home with a few runs and on the same home aged by years."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import psutil

from tests.ordeal.age import Aging, age
from tests.ordeal.turns import seconds_of
from tests.stack import REPOSITORY, Processes, processes

WORKERS = ("research", "ops", "trade")
SYMBOLS = "AAPL,IBM,KO,PEP,T,GE,XOM,JNJ,PG,WMT"
RUNS = (("screen", "--universe", SYMBOLS, "--max", "10"), ("episode", "--rounds", "1"))
IDLE_SECONDS = 30
COMMANDS = (
    ("status",), ("runs", "list"), ("threads", "list"), ("orders", "list"), ("questions", "list"), ("board",),
    ("scores",), ("audit", "verify"), ("reconcile",), ("doctor",), ("gc", "--dry-run"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class AgedTimes:
    """CPU seconds by what was done, and resident MiB of the research worker afterwards; bytes: of the database, for
    each screen with its share of the other runs."""

    fresh: dict[str, float]
    aged: dict[str, float]
    memory: tuple[float, float]
    bytes: float


def aged_times(screens: int) -> AgedTimes:
    with processes(
        forked=False, DESK_PROVIDER="rulebook", DESK_REPLAY_DATE="2010-07-14", DESK_EVENT_DAYS="9000", TRADER_LIVE="1"
    ) as desk:
        desk.rulebook()
        desk.workers(*WORKERS)
        for command in RUNS:  # after which the home has one of each kind
            _give(desk, *command)
        _end(desk)
        fresh, before = _work(desk)
        database = desk.home / "desk.db"
        size = database.stat().st_size
        age(desk.settings, Aging(screens))
        grown = (database.stat().st_size - size) / screens
        aged, after = _work(desk)
    return AgedTimes(fresh, aged, (before, after), grown)


def _work(desk: Processes) -> tuple[dict[str, float], float]:
    desk.workers(*WORKERS)
    _give(desk, "research", "IBM")  # its app-servers are up when the screen starts
    found = {f"`desk {' '.join(one)}`": _give(desk, *one) for one in COMMANDS if one != ("board",)}
    for command in RUNS:
        found |= _spent(desk, *command)
    found["`desk board`"] = _give(desk, "board")
    before = _seconds(desk)
    time.sleep(IDLE_SECONDS)
    found |= {f"idle {IDLE_SECONDS} s, {name}": after - before[name] for name, after in _seconds(desk).items()}
    memory = psutil.Process(desk.running["research"].pid).memory_info().rss / 2**20
    _end(desk)
    return found, memory


def _end(desk: Processes) -> None:
    for name in WORKERS:
        desk.end(name)


def _spent(desk: Processes, *command: str) -> dict[str, float]:
    before = _seconds(desk)
    _give(desk, *command)
    return {f"{command[0]}, {name}": after - before[name] for name, after in _seconds(desk).items()}


def _seconds(desk: Processes) -> dict[str, float]:
    return {name: seconds_of(psutil.Process(desk.running[name].pid)) for name in WORKERS}


def _give(desk: Processes, *command: str) -> float:
    """Return the CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = (sys.executable, "-m", "chordesk.tasks.cli.main", *command)
    done = subprocess.run(whole, cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, check=False)
    # Without beat the status is that the desk does not work.
    if done.returncode and command[0] != "status":
        raise RuntimeError(f"desk {' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
