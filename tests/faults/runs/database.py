"""A database that does not take writes for longer than anybody waits for it."""

from __future__ import annotations

import random
import sqlite3
import time

from sqlalchemy.engine import make_url

from chordesk.models.database.store import BUSY_SECONDS
from tests.faults.desk import FaultDesk, until
from tests.faults.runs.kills import ends_well
from tests.faults.scenario import Result


def database_away(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every claim, renewal and end fails meanwhile, also after its wait; turns go on and end. It comes back for a
    moment and is away again, for longer than a lease."""
    run_id = desk.open_run()
    time.sleep(chance.uniform(0.0, 4.0) * desk.pace.latency)
    until(lambda: desk.journal.open(lambda call: call.run_id == run_id), "a turn is in flight")
    locked(desk, BUSY_SECONDS + 3)
    time.sleep(chance.uniform(0.5, desk.pace.sweep))
    locked(desk, desk.pace.lease + chance.uniform(0.0, desk.pace.sweep))
    ends_well(desk, result, run_id)


def locked(desk: FaultDesk, seconds: float) -> None:
    """Keep other writers from the desk's SQLite for so long."""
    path = make_url(desk.processes.settings.database).database
    assert path is not None
    lock = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        lock.execute("ROLLBACK")
    finally:
        lock.close()
