"""A desk at work, with runs in flight and orders on paper, is backed up; another one goes on from the backup."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, OrderState, RunState
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Report, Run, Step, Turn
from chordesk.tools.orders.sessions import to_next_session
from tests import homes, zygote
from tests.constants import constants
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for

SCREEN = ("screen", "--universe", "AAPL,IBM,GE,F,XOM,JPM,WMT,KO", "--lens", "technical", "--max", "3")
WORKERS = ("all",)


def command(desk: Processes, *arguments: str, code: int = 0) -> Any:
    done = zygote.run((*arguments, "--json"), desk.environ, REPOSITORY, PATIENCE)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder for another home. Not under the temp folder, where the app-server refuses one."""
    with homes.owned() as folder:
        yield folder


def ended(store: Store, run_id: str) -> bool:
    with store.read() as session:
        return session.get_one(Run, run_id).state in RUN_FINAL


def count(store: Store, table: Any, run_id: str) -> int:
    with store.read() as session:
        return len(session.exec(select(table).where(col(table.run_id) == run_id)).all())


@pytest.mark.long
def test_another_desk_goes_on_from_a_backup(elsewhere: Path) -> None:
    with processes(TRADER_LIVE="1", DESK_LEASE_SECONDS="3", **constants(SWEEP_SECONDS=1)) as desk:
        desk.rulebook()
        desk.workers(*WORKERS)
        traded = _screened(desk)
        desk.end("rulebook")
        desk.rulebook(latency=1.0)
        for name in WORKERS:
            desk.end(name)
        desk.workers(*WORKERS)
        flying = _opened(desk)
        store = Store(desk.settings.database)
        wait_for(lambda: count(store, Turn, flying) >= 2, "some turns of it have ended")
        made = command(desk, "backup", str(elsewhere / "copy"))["manifest"]
        assert not ended(store, flying)
        assert made["open_runs"] == 1
        done_before = _reports(store, flying)
        store.close()
    with _restored(desk, elsewhere) as other:
        store = Store(other.settings.database)
        assert not ended(store, flying)
        assert _reports(store, flying) <= done_before
        with store.read() as session:
            fills = session.exec(select(Fill).join(Order).where(col(Order.run_id) == traded)).all()
        assert fills, "the orders of the first run were filled on paper"
        other.rulebook()
        other.workers(*WORKERS)
        wait_for(lambda: ended(store, flying), "the run ends in the restored desk")
        with store.read() as session:
            run = session.get_one(Run, flying)
            assert run.state == RunState.DONE, run.notes
            assert not session.exec(select(Step).where(Step.run_id == flying, Step.state == "failed")).all()
            orders = session.exec(select(Order).where(Order.run_id == flying)).all()
        assert {order.state for order in orders} <= {OrderState.DENIED}, "a restored desk is halted"
        assert all(one["whole"] for one in command(other, "audit", "verify"))
        command(other, "reconcile")
        done = zygote.run(("resume",), other.environ, REPOSITORY, PATIENCE)
        assert "account paper trades again" in done.stdout, done.stderr
        store.close()


def _screened(desk: Processes) -> str:
    """Return a run that has ended, with orders that were filled at the next session's open."""
    run_id = _opened(desk)
    store = Store(desk.settings.database)
    wait_for(lambda: ended(store, run_id), "the screen ends")

    to_next_session(store, desk.settings)
    with store.read() as session:
        assert OrderState.FILLED in session.exec(select(Order.state).where(Order.run_id == run_id)).all()
    store.close()
    return run_id


def _opened(desk: Processes) -> str:
    return str(command(desk, *SCREEN, "--no-wait")["run_id"])


def _reports(store: Store, run_id: str) -> set[str]:
    with store.read() as session:
        return set(session.exec(select(Report.id).where(Report.run_id == run_id)).all())


@contextlib.contextmanager
def _restored(desk: Processes, elsewhere: Path) -> Iterator[Processes]:
    """A desk of the backup, in a home of its own, with a Redis that knows nothing."""
    home = elsewhere / "home"
    environ = {
        name: value for name, value in desk.environ.items() if name not in {"DESK_REDIS_URL", "DESK_RULEBOOK_URL"}
    }
    other = Processes(home, {**environ, "DESK_HOME": str(home)})
    lines = command(other, "restore", str(elsewhere / "copy"))["lines"]
    assert lines > 0
    try:
        other.redis()
        yield other
    finally:
        other.close()
        shutil.rmtree(home, ignore_errors=True)
        assert not os.path.exists(home)
