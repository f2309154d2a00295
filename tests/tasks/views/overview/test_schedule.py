"""The next runs of the schedule: on sessions of the exchange, in New York time."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.settings import Settings
from chordesk.models.text import NEW_YORK
from chordesk.tasks.reading.overview import next_runs

# A Wednesday; Thursday is Thanksgiving, Friday a session.
DAY = dt.date(2026, 11, 25)


def at(hour: int, minute: int = 0, day: dt.date = DAY) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour, minute), NEW_YORK)


@pytest.mark.parametrize(
    ("now", "premarket", "midday"),
    [
        (at(7), at(8, 30), at(12, 30)),
        (at(8, 30), at(8, 30, dt.date(2026, 11, 27)), at(12, 30)),
        (at(23, 59), at(8, 30, dt.date(2026, 11, 27)), at(12, 30, dt.date(2026, 11, 27))),
        (at(0, 0, dt.date(2026, 11, 28)), at(8, 30, dt.date(2026, 11, 30)), at(12, 30, dt.date(2026, 11, 30))),
    ],
)
def test_the_next_run_is_on_a_session(now: dt.datetime, premarket: dt.datetime, midday: dt.datetime) -> None:
    found = next_runs(Settings(), now.astimezone(dt.UTC))
    assert {one.name: one.at for one in found} == {"premarket": premarket, "midday": midday}
    assert [one.at for one in found] == sorted(one.at for one in found)


def test_an_entry_that_is_off_has_no_next_run() -> None:
    assert next_runs(Settings(premarket="off", midday="off"), at(7)) == []
    (one,) = next_runs(Settings(premarket="off", midday="off", episode="18:00"), at(7))
    assert (one.name, one.kind, one.at) == ("episode", "episode", at(18))
