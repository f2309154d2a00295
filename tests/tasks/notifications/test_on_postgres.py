"""Notifications on a real PostgreSQL, where the lease alone keeps two senders apart."""

from __future__ import annotations

import pytest

from chordesk.models.database.store import Store
from tests.tasks.notifications import test_holding as holding_cases
from tests.tasks.notifications import test_sending as sending_cases

# The same cases run on SQLite, where coverage counts their lines.
pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]

night, day = holding_cases.night, holding_cases.day
test_an_hour_that_is_full_holds_the_rest_for_one_message = (
    holding_cases.test_an_hour_that_is_full_holds_the_rest_for_one_message
)
for _name in (
    "test_events_of_a_run_and_kind_are_one_message_and_others_are_their_own",
    "test_a_message_on_its_way_when_a_process_died_is_sent_again_by_the_next",
    "test_of_two_senders_one_sends_and_each_message_once",
    "test_messages_that_wait_for_a_channel_that_is_gone_are_given_up",
):
    globals()[_name] = getattr(sending_cases, _name)


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store
