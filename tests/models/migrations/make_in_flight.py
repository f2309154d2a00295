"""Keep a database of this version with runs in flight, for tests of later ones: a step of each release.

    python -m tests.models.migrations.make_in_flight

writes `in_flight/REVISION.sql.xz`. A desk with an order that waits for a person opens a screen and a research run, and
all of its processes are killed while both have steps that run, are ready or wait.
"""

from __future__ import annotations

import lzma
import os
import sqlite3
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil

from chordesk.models.database.store import current
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from tests.stack import Processes, processes, wait_for

FOLDER = Path(__file__).parent / "in_flight"
SYMBOLS = "AAPL,MSFT,IBM,KO,XOM,JNJ,WMT,GE,CAT,INTC,PG,PEP,MCD,T,VZ,CVX"
LATENCY = 4.0  # seconds of a model call: time to find the runs between their steps
_HOST = "@host"


def main() -> int:
    """Write the file and return 0; return 1 when the runs were not caught in flight."""
    with processes(TRADER_LIVE="1", DESK_APPROVAL="manual", DESK_PROTECT="stop:8%", DESK_LEASE_SECONDS="9") as desk:
        desk.rulebook()
        desk.workers("research", "ops", "trade")
        desk.desk("beat", "beat")
        first = open_screen(desk.app, SYMBOLS, max_candidates=3)
        assert first is not None
        wait_for(lambda: _value(desk, "select count(*) from run where state = 'done'") == 1, "the first run ends")
        desk.end("rulebook")
        desk.rulebook(LATENCY)
        workers = [name for name in desk.running if name not in ("redis", "rulebook")]
        for name in workers[:3]:
            desk.end(name)
        desk.workers("research", "ops", "trade")
        open_screen(desk.app, SYMBOLS, max_candidates=3)
        wait_for(lambda: _running(desk, "report"), "a report of the screen runs")
        open_research(desk.app, ["DIS", "HD"])
        wait_for(lambda: _value(desk, _IN_FLIGHT) == 2, "two runs have turns")
        for name in ("research", "ops", "trade", "beat"):
            for process in (*psutil.Process(desk.running[name].pid).children(recursive=True), desk.running[name]):
                process.kill()
        for name in ("research", "ops", "trade", "beat"):
            desk.running.pop(name).wait(60)
        time.sleep(1)
        if _value(desk, _IN_FLIGHT) != 2 or not _value(desk, _PENDING):
            print("the runs ended before they were caught, or no order waits; run it again", file=sys.stderr)
            return 1
        revision = current(desk.settings.database)[1]
        with closing(sqlite3.connect(desk.home / "desk.db")) as connection:
            text = "\n".join(connection.iterdump()).replace(f"@{os.uname().nodename.partition('.')[0]}", _HOST)
        text = text.replace(str(desk.home), "/home-of-then")
        FOLDER.joinpath(f"{revision}.sql.xz").write_bytes(lzma.compress(text.encode(), preset=9))
        print(f"{revision}: {len(text):,} characters")
    return 0


_IN_FLIGHT = "select count(distinct run_id) from step where state = 'running' and kind in ('report', 'screen_shard')"


_PENDING = "select count(*) from \"order\" where state = 'approval_pending'"


def _running(desk: Processes, kind: str) -> bool:
    return bool(_value(desk, f"select count(*) from step where state = 'running' and kind = '{kind}'"))


def _value(desk: Processes, query: str) -> int:
    with closing(sqlite3.connect(desk.home / "desk.db")) as connection:
        return int(connection.execute(query).fetchone()[0])


if __name__ == "__main__":
    raise SystemExit(main())
