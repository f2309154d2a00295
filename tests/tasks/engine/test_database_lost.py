"""A database that goes away in the middle: tried again, nothing written by half, nothing twice, leases renewed soon."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlmodel import Session, select

from chordesk.models.database import store as store_module
from chordesk.models.database.store import Store, transact
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Candidate, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.leases import HeldStep, LeaseKeeper
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.work import work
from tests.databases import make_database
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.engine.steps import ago, claimed, get, opened, report, tried


@pytest.fixture
def short_timeout_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Yield a store that fails at once on a locked database, where others wait for 20 s."""
    url = f"sqlite:///{tmp_path / 'busy.db'}"
    make_database(url)
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0)
    found = Store(url)
    yield found
    found.close()


class Lock:
    """Another process's exclusive lock on a SQLite file."""

    def __init__(self, store: Store) -> None:
        self._connection = store.engine.connect()
        self._connection.exec_driver_sql("ROLLBACK")
        wait_for(self._taken, "no other writer has it")

    def _taken(self) -> bool:
        try:
            self._connection.exec_driver_sql("BEGIN EXCLUSIVE")
        except OperationalError:
            return False
        return True

    def open_after(self, seconds: float) -> threading.Thread:
        thread = threading.Thread(target=self._open, args=(seconds,))
        thread.start()
        return thread

    def _open(self, seconds: float) -> None:
        time.sleep(seconds)
        self._connection.close()


def pay_in(session: Session) -> str:
    session.add(Account(name="paper", cash=1.0))
    return "paid"


def accounts(store: Store) -> list[str]:
    with store.read() as session:
        return [row.name for row in session.exec(select(Account)).all()]


def test_patience_has_an_end(short_timeout_store: Store) -> None:
    lock = Lock(short_timeout_store)
    with pytest.raises(OperationalError, match="locked"):
        transact(short_timeout_store, pay_in, 0.7)
    lock.open_after(0).join()
    assert accounts(short_timeout_store) == []


def test_a_refused_statement_is_not_tried_again(short_timeout_store: Store) -> None:
    calls: list[int] = []

    def twice(session: Session) -> None:
        calls.append(1)
        session.add_all([Candidate(run_id="none", symbol="IBM", instrument="equity", confidence="low",
                                   origin="manual", rank=1, score=0.0)])  # fmt: skip

    with pytest.raises(IntegrityError):
        transact(short_timeout_store, twice, PATIENCE)
    assert calls == [1]


def test_a_step_is_claimed_and_ended_through_it(app: Celery, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of a task, with the database locked before the claim and again before the end."""
    monkeypatch.setattr(store_module, "BUSY_SECONDS", 0)  # for the app's own store, which is made on first use
    step = report("IBM")
    opened(store, step)
    threads: list[threading.Thread] = []

    def handler(desk: Desk, found: ClaimedStep, held: HeldStep) -> Ending:
        threads.append(lock_for(0.5))
        return Done({"written": "once"}, children=[NewStep(StepKind.MERGE, str(found.parent_id), "after")])

    def lock_for(seconds: float) -> threading.Thread:
        return Lock(store).open_after(seconds)

    threads.append(lock_for(0.5))
    work(app, step.id, handler)
    for thread in threads:
        thread.join()
    assert (get(store, step.id).state, get(store, step.id).result) == (StepState.DONE, {"written": "once"})
    assert [outcome for _, _, outcome, _ in tried(store, step.id)] == ["done"]


def hang_up(store: Store) -> None:
    """End every other connection to the server, as a restart does."""
    with store.read() as session:
        session.execute(
            text("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
                 "and datname = current_database()")
        )  # fmt: skip


def test_an_end_on_a_cut_connection_is_written_once_and_whole(postgres_store: Store) -> None:
    step = report("IBM")
    _, finish = opened(postgres_store, step)
    with postgres_store.session() as session:
        held = graph.claim(session, step.id, "a", 60)
    assert held is not None
    calls: list[int] = []

    def end(session: Session) -> list[ReadyStep]:
        ready = graph.finish(session, held, StepState.DONE, children=[NewStep(StepKind.MERGE, finish)])
        calls.append(1)
        if len(calls) == 1:
            hang_up(postgres_store)
        return ready

    assert [one.kind for one in transact(postgres_store, end, PATIENCE)] == [StepKind.MERGE]
    assert len(calls) == 2
    assert [outcome for _, _, outcome, _ in tried(postgres_store, step.id)] == ["done"]
    with postgres_store.read() as session:
        assert session.get_one(Step, finish).pending == 1


def test_a_cut_connection_that_was_idle_is_not_even_noticed(postgres_store: Store) -> None:
    name = new_id()
    hang_up(postgres_store)
    transact(postgres_store, lambda session: session.add(Account(name=name, cash=1.0)), 0)
    assert accounts(postgres_store).count(name) == 1


LEASE = 24.0


def lease_of(store: Store, step_id: str) -> dt.datetime:
    return get(store, step_id).lease_until or ago(0)


def rename(store: Store, old: str, new: str) -> None:
    with store.engine.connect() as connection:
        connection.execute(text("PRAGMA legacy_alter_table=ON"))
        connection.execute(text(f"ALTER TABLE {old} RENAME TO {new}"))
        connection.commit()


@pytest.mark.long
def test_after_a_failure_the_next_renewal_does_not_wait_for_its_turn(store: Store) -> None:
    """Its turn would come after 8 s; the sweep gives holders 12 s."""
    step = report("IBM")
    opened(store, step)
    held = claimed(store, step.id, "worker", LEASE)
    first = lease_of(store, step.id)
    keeper = LeaseKeeper(store, "worker", LEASE, 600)
    failed: list[Exception] = []
    beat = keeper._beat

    def watched() -> None:
        try:
            beat()
        except Exception as error:
            failed.append(error)
            raise

    keeper._beat = watched  # type: ignore[method-assign]
    with keeper.hold(held) as kept:
        rename(store, "step", "step_away")
        wait_for(lambda: len(failed) > 0, "a renewal fails")
        rename(store, "step_away", "step")
        wait_for(lambda: lease_of(store, step.id) > first, "it is renewed", LEASE / 4)
        assert kept.ended is None
    keeper.close()
    assert get(store, step.id).owner == "worker"


def test_renewals_wait_for_no_other_connection(postgres_store: Store) -> None:
    step = report("IBM")
    opened(postgres_store, step)
    held = claimed(postgres_store, step.id, "worker", 1.5)
    apart = postgres_store.apart()
    keeper = LeaseKeeper(apart, "worker", 1.5, 600)
    looking = postgres_store.apart()
    with contextlib.ExitStack() as all_in_use, keeper.hold(held) as kept:
        for _ in range(16):
            all_in_use.enter_context(postgres_store.read()).connection()
        before = utcnow()
        wait_for(lambda: lease_of(looking, step.id) > before + dt.timedelta(seconds=1.4), "it is renewed")
        assert postgres_store.engine.pool.checkedout() == 16  # type: ignore[attr-defined]
        assert kept.ended is None
    keeper.close()
    for store in (apart, looking):
        store.close()
