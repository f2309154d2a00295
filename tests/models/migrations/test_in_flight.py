"""Databases that older versions left with runs in flight: after an upgrade, today's workers take these runs to their
ends.

Each file of `in_flight/` is the SQL of such a database, written by the version itself on the replay market with the
rulebook while all of its processes were killed. 0003 is the oldest schema with runs that outlive their workers.
"""

from __future__ import annotations

import datetime as dt
import lzma
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.database.store import current
from tests.models.migrations.old_database import old_database
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for

KEPT = Path(__file__).parent / "in_flight"
REVISIONS = sorted(path.name.partition(".")[0] for path in KEPT.glob("*.sql.xz"))
RUN_FINAL = {"done", "partial", "failed", "stopped"}
# What a finished run has produced, in columns that every version has.
RESULTS = {
    "run": "id, kind, state", "verdict": "id, symbol, rating, summary", "decision": "id, status, actions",
    "order": "id, symbol, side, quantity, state", "fill": "id, quantity, price", "report": "id, summary",
}  # fmt: skip


def sql(revision: str) -> str:
    return lzma.decompress((KEPT / f"{revision}.sql.xz").read_bytes()).decode()


def as_of_now(script: str) -> str:
    """Return a database's SQL with the times of its desk's clock moved, as if it had been killed just now: kept as
    they are, the deadlines of its runs pass. The replay's own times are of earlier years, and stay."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(script)
        (last,) = connection.execute("select max(claimed_at) from step").fetchone()
    killed = dt.datetime.fromisoformat(last)
    later = dt.datetime.now(dt.UTC).replace(tzinfo=None) - killed
    times = re.compile(rf"'({killed.year}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{6}})'")
    return times.sub(lambda found: f"'{dt.datetime.fromisoformat(found[1]) + later:%Y-%m-%d %H:%M:%S.%f}'", script)


class Rows:
    """The rows of a SQLite file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self._path)) as connection:
            return connection.execute(query).fetchall()

    def schema(self) -> dict[str, set[str]]:
        tables = [name for (name,) in self.of("select name from sqlite_master where type = 'table'")]
        return {name: {row[1] for row in self.of(f'pragma table_info("{name}")')} for name in tables}


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_migration_makes_the_schema_that_it_made_then(tmp_path: Path, revision: str) -> None:
    """A revision that databases have must not be edited: theirs would lack what it has since."""
    with closing(sqlite3.connect(tmp_path / "kept.db")) as connection:
        connection.executescript(sql(revision))
    with old_database(f"sqlite:///{tmp_path / 'made.db'}", revision):
        assert Rows(tmp_path / "made.db").schema() == Rows(tmp_path / "kept.db").schema()


class Upgraded:
    """A desk of today on a database of an older version."""

    def __init__(self, desk: Processes, revision: str) -> None:
        path = desk.home / "desk.db"
        for file in desk.home.glob("desk.db*"):
            file.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(as_of_now(sql(revision)))
        self.rows, self.desk = Rows(path), desk
        self.in_flight = [run for (run,) in self.rows.of("select id from run where state = 'running'")]
        self.runs = ", ".join(f"'{run}'" for run in self.in_flight)
        self.steps: dict[str, str] = dict(self.rows.of(f"select id, state from step where run_id in ({self.runs})"))
        self.ended = [run for (run,) in self.rows.of("select id from run where state = 'done'")]
        self.results = {table: self.rows.of(f'select {names} from "{table}"') for table, names in RESULTS.items()}

    def states(self) -> dict[str, str]:
        return dict(self.rows.of(f"select id, state from run where id in ({self.runs})"))

    def log(self) -> str:
        return "\n".join(self.desk.log(name)[-3000:] for name in ("ops", "research", "trade"))


@pytest.fixture(scope="module", params=REVISIONS)
def upgraded(request: pytest.FixtureRequest) -> Iterator[Upgraded]:
    """After `desk db upgrade`, and after workers of today had the runs in flight."""
    with processes(DESK_LEASE_SECONDS="3", DESK_MAINTAIN_SECONDS="1", TRADER_LIVE="1") as desk:
        found = Upgraded(desk, request.param)
        assert desk.desk("upgrade", "db", "upgrade").wait(PATIENCE) == 0, desk.log("upgrade")
        assert f"from revision {request.param} to {current(desk.settings.database)[1]}" in desk.log("upgrade")
        del desk.running["upgrade"]
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        desk.desk("beat", "beat")
        wait_for(lambda: set(found.states().values()) <= RUN_FINAL, "the runs in flight end")
        yield found


@pytest.mark.long
def test_the_runs_come_to_their_ends(upgraded: Upgraded) -> None:
    assert len(upgraded.in_flight) >= 2
    assert {"running", "waiting", "done"} <= set(upgraded.steps.values())
    assert set(upgraded.states().values()) == {"done"}, upgraded.log()
    decided = upgraded.rows.of(f"select distinct run_id from decision where run_id in ({upgraded.runs})")
    screens = upgraded.rows.of(f"select id from run where kind = 'screen' and id in ({upgraded.runs})")
    assert screens
    assert set(screens) <= set(decided)


def test_finished_steps_are_not_done_again(upgraded: Upgraded) -> None:
    done = {step for step, state in upgraded.steps.items() if state == "done"}
    attempts = dict(upgraded.rows.of("select step_id, max(attempt) from attempt group by step_id"))
    assert done
    assert {attempts[step] for step in done & attempts.keys()} == {1}
    twice = "select candidate_id, count(*) from verdict group by candidate_id having count(*) > 1"
    assert upgraded.rows.of(twice) == []


def test_steps_held_by_workers_of_the_old_version_are_taken_over(upgraded: Upgraded) -> None:
    held = {step for step, state in upgraded.steps.items() if state == "running"}
    states = dict(upgraded.rows.of("select id, state from step"))
    assert {states[step] for step in held} == {"done"}


def test_the_results_of_runs_that_had_ended_stay(upgraded: Upgraded) -> None:
    assert upgraded.ended
    for table, names in RESULTS.items():
        now = upgraded.rows.of(f'select {names} from "{table}"')
        kept = [row for row in upgraded.results[table] if table != "run" or row[0] in upgraded.ended]
        assert kept or table == "fill"
        assert [row for row in kept if row not in now] == [], table


def test_a_command_shows_an_old_run(upgraded: Upgraded) -> None:
    """With what the run's version kept, and nothing made up for what it did not."""
    for run in (upgraded.ended[0], upgraded.in_flight[0]):
        name = f"show-{run[-4:]}"
        assert upgraded.desk.desk(name, "runs", "show", run).wait(PATIENCE) == 0, upgraded.desk.log(name)
        assert "screen done" in upgraded.desk.log(name)
        del upgraded.desk.running[name]
