"""The policy: each table has one place in it, each limit comes from one setting."""

from __future__ import annotations

import datetime as dt
from itertools import combinations

from chordesk.models.database.store import every_table
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.retention.policy import EVIDENCE, LASTING, OF_EVENTS, OF_THREADS, ORDERS, RUN, SCORES, policy_of

PLACES = (RUN, EVIDENCE, SCORES, ORDERS, OF_THREADS, OF_EVENTS, LASTING)
DAY = dt.timedelta(days=1)


def test_each_table_has_one_place() -> None:
    assert frozenset().union(*PLACES) == every_table().keys()
    assert all(one.isdisjoint(other) for one, other in combinations(PLACES, 2))


def test_nothing_of_the_evidence_is_referred_to_by_what_stays() -> None:
    for name in RUN | SCORES | ORDERS | LASTING:
        targets = {key.column.table.name for key in every_table()[name].foreign_keys}
        assert targets.isdisjoint(EVIDENCE), name


def test_rows_that_refer_to_a_deleted_one_are_found_by_an_index() -> None:
    """The database looks for them before it deletes a row: without an index it reads the whole table, for each."""
    missing = []
    for table in every_table().values():
        leading = {next(iter(index.columns)).name for index in table.indexes}
        keys = (one for one in table.constraints if type(one).__name__ in {"UniqueConstraint", "PrimaryKeyConstraint"})
        leading |= {next(iter(one.columns)).name for one in keys if one.columns}
        for column in table.columns:
            for key in column.foreign_keys:
                if key.column.table.name in RUN | EVIDENCE and column.name not in leading:
                    missing.append(f"{table.name}.{column.name}")
    assert missing == []


def test_each_limit_comes_from_its_setting(settings: Settings) -> None:
    now = utcnow()
    found = policy_of(settings, now)
    assert (found.events_before, found.events_per_run) == (now - 30 * DAY, 50_000)
    assert (found.threads_before, found.copies) == (now - 14 * DAY, 2)
    assert (found.pictures_before, found.runs_before) == (now - 90 * DAY, now - 365 * DAY)


def test_zero_keeps_and_the_least_age_is_kept(settings: Settings) -> None:
    now = utcnow()
    off = policy_of(settings.model_copy(update={"keep_run_days": 0.0, "keep_artifact_days": 0.0}), now)
    assert (off.pictures_before, off.runs_before) == (None, None)
    short = policy_of(settings.model_copy(update={"keep_run_days": 0.1, "keep_artifact_days": 0.1}), now)
    assert (short.pictures_before, short.runs_before) == (now - DAY, now - DAY)


def test_an_age_of_the_caller_takes_the_place_of_all(settings: Settings) -> None:
    now = utcnow()
    found = policy_of(settings, now, 7 * DAY)
    ages = {found.events_before, found.threads_before, found.pictures_before, found.runs_before}
    assert ages == {now - 7 * DAY}
