"""Retention and sizes on a real PostgreSQL, where transactions run beside each other."""

from __future__ import annotations

import pytest

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.retention.retention_policy import measure
from tests.tasks.retention import test_runs as cases
from tests.tasks.retention.test_runs import policy

# The same cases run on SQLite, where coverage counts their lines.
pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]

__all__ = ["policy"]
test_a_run_that_a_new_one_was_opened_on_meanwhile_stays = cases.test_a_run_that_a_new_one_was_opened_on_meanwhile_stays
test_the_foreign_keys_keep_what_the_lookup_should_miss = cases.test_the_foreign_keys_keep_what_the_lookup_should_miss
test_two_at_once_delete_the_same = cases.test_two_at_once_delete_the_same


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


@pytest.mark.parametrize("seed", range(1))
def test_nothing_that_anything_rests_on_is_deleted(seed: int, store: Store, policy: object) -> None:
    cases.test_nothing_that_anything_rests_on_is_deleted(seed, store, policy)  # type: ignore[arg-type]


def test_sizes_are_those_that_the_server_reports(store: Store, settings: Settings) -> None:
    with store.session() as session:
        cases.a_history(session, cases.random.Random(0), 10)
    found = measure(store, settings.home)
    tables = {one.name: one for one in found.tables}
    assert tables["run"].rows == 10
    assert all(one.stored is not None and one.stored >= one.bytes for one in found.tables if one.rows > 5)
    assert found.database == sum(one.stored or 0 for one in found.tables)
