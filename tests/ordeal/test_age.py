"""What a desk reads does not grow with what it has done before: counted in steps of SQLite, not in seconds."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests import zygote
from tests.ordeal import reads
from tests.ordeal.age import Aging, age
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes
from tests.tasks.web.kit import start

SCREENS, YEARS = 400, 20.0  # so that few of its episodes are in the year that a desk learns from
SLACK = 100_000  # by which two runs of the same work differ, and memories that a fresh home has not filled yet
SYMBOLS = "AAPL,IBM,KO"
WORKERS = ("all",)
# That grow with each run.
GROWING = frozenset(
    {
        "attempt", "candidate", "candidate_hit", "conversation", "event_batch", "report", "runtime_item",
        "runtime_turn", "screen_hit", "step", "thread", "tool_call", "trader_note", "turn", "verdict", "verdict_report",
    }
)  # fmt: skip
# Left out: the books of an account, copies of rollouts, and sums of karma.
OTHERS = re.compile(r'\b(fill|rollout|karma_entry)\b|"order"')
ROUTES = (
    "/desk",
    "/runs",
    "/threads",
    "/questions",
    "/orders",
    "/approvals",
    "/audit",
    "/symbols/AAPL",
    "/accounts/paper",
)
COMMANDS = (
    ("status",), ("runs", "list"), ("threads", "list"), ("approvals",),
    ("screen", "--universe", SYMBOLS, "--max", "3"), ("episode", "--rounds", "1"), ("board",), ("scores",),
)  # fmt: skip
_SCAN = re.compile(r"SCAN (\w+)(.*)")


@dataclass(slots=True)
class AgedDesk:
    """What each piece of work read, by its name, on the home as it was and on the aged one."""

    database: Path
    fresh: dict[str, list[reads.Read]] = field(default_factory=dict)
    aged: dict[str, list[reads.Read]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgedDesk]:
    folder = tmp_path_factory.mktemp("reads")
    with processes(DESK_PROVIDER="rulebook", DESK_REPLAY_DATE="2010-07-14", DESK_EVENT_DAYS="9000") as running:
        found = AgedDesk(running.home / "desk.db")
        running.rulebook()
        work(running, folder / "first")  # after which each memory has its rows
        found.fresh = work(running, folder / "fresh")
        age(running.settings, Aging(SCREENS, years=YEARS))
        found.aged = work(running, folder / "aged")
        yield found


def work(running: Processes, folder: Path) -> dict[str, list[reads.Read]]:
    """Let workers do a screen and an episode, give each command, and return what was read."""
    found = {}
    workers = folder / "workers"
    workers.mkdir(parents=True)
    running.workers(*WORKERS, environ={reads.VARIABLE: str(workers)})
    for command in COMMANDS:
        own = folder / command[0]
        own.mkdir()
        done = zygote.run(command, {**running.environ, reads.VARIABLE: str(own)}, REPOSITORY)
        # Without beat and workers the status is that the desk does not work.
        assert done.returncode == 0 or command[0] == "status", done.stderr
        found[" ".join(command[:2])] = reads.recorded(own)
    service = folder / "service"
    service.mkdir()
    url, token = start(running, environ={reads.VARIABLE: str(service)})
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE) as client:
        for route in ROUTES:
            client.get(route).raise_for_status()
    for name in (*WORKERS, "api"):
        running.end(name)
    found["service"] = reads.recorded(service)
    found["workers"] = reads.recorded(workers)
    shutil.rmtree(folder)
    return found


def test_no_plan_scans_a_table_that_grows_with_each_run(desk: AgedDesk) -> None:
    with closing(sqlite3.connect(desk.database)) as connection:
        scans = {
            f"{name}: {line}: {' '.join(one.statement.split())}"
            for name, found in desk.aged.items()
            for one in found
            for line in plan(connection, one)
            if (scan := _SCAN.match(line)) and scan[1] in GROWING and not ends_early(one.statement, scan[2])
        }
    assert not scans


def plan(connection: sqlite3.Connection, one: reads.Read) -> list[str]:
    if not one.statement.lstrip().upper().startswith(("SELECT", "WITH", "UPDATE", "DELETE", "INSERT")):
        return []
    parameters = one.parameters or [None] * one.statement.count("?")
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {one.statement}", parameters)]


def ends_early(statement: str, how: str) -> bool:
    """Return whether a scan in the order of an index ends at a limit."""
    return " USING " in how and "LIMIT" in statement


def test_steps_do_not_grow_with_age(desk: AgedDesk) -> None:
    for name, found in desk.aged.items():
        before = {one.statement: one.steps for one in desk.fresh[name]}
        lines = [f"{one.steps} for {before.get(one.statement)}: {one.statement}" for one in counted(found)[:5]]
        most = 1.3 * sum(one.steps for one in counted(desk.fresh[name])) + SLACK
        assert sum(one.steps for one in counted(found)) <= most, "\n".join([name, *lines])


def counted(found: list[reads.Read]) -> list[reads.Read]:
    return [one for one in found if not OTHERS.search(one.statement)]
