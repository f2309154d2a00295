"""Renewals while the database is away, or all its connections are in use."""

from __future__ import annotations

import contextlib
import datetime as dt

import pytest
from sqlalchemy import text

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.engine.leases import LeaseKeeper
from tests.stack import wait_for
from tests.tasks.engine.steps import ago, claimed, get, opened, report

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
