"""The log and its readers on a real PostgreSQL, where writers are not kept apart by the database's one lock."""

from __future__ import annotations

import pytest
from sqlalchemy.exc import DBAPIError

from chordesk.models import event_log
from chordesk.models.database.store import Store, is_lost
from tests.models.events import test_event_log as log_cases
from tests.tasks.engine import test_lost_turns as lost_cases
from tests.tasks.events import test_feed as feed_cases
from tests.tasks.events import test_recorder as recorder_cases
from tests.tasks.events.kit import a_note, write

# The same cases run on SQLite, where coverage counts their lines.
pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]

# Run here too, on this module's `store`.
globals().update({name: case for name, case in vars(log_cases).items() if name.startswith("test_")})
test_readers_that_come_and_go_all_get_the_same = feed_cases.test_readers_that_come_and_go_all_get_the_same
test_the_last_state_of_each_lifecycle_is_kept = recorder_cases.test_the_last_state_of_each_lifecycle_is_kept
recorder = recorder_cases.recorder
for _name in (
    "test_an_older_state_opens_nothing_again_and_a_later_end_counts",
    "test_a_run_that_is_over_leaves_nothing_open_but_waits_for_late_states",
):
    globals()[_name] = getattr(lost_cases, _name)


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


def test_a_connection_that_is_cut_while_events_are_written_is_lost_and_replaced(store: Store) -> None:
    with pytest.raises(DBAPIError) as caught, store.session() as session:
        event_log.append(session, [a_note("r", 1)])
        own = session.connection().exec_driver_sql("select pg_backend_pid()").scalar_one()
        with store.read() as other:
            other.connection().exec_driver_sql(f"select pg_terminate_backend({own})")
    assert is_lost(caught.value)
    assert caught.value.connection_invalidated
    write(store, a_note("r", 2))
    with store.read() as session:
        assert [one.payload["number"] for one in event_log.read(session, "r", 0, 10)] == [2]
