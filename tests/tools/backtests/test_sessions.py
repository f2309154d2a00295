"""The sessions of a walk: every so many-th of the data between two days, and what is refused."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.tools.backtests import later_session, sessions_between
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.replay.market import ReplayMarket

FIRST, LAST = dt.date(2010, 3, 1), dt.date(2010, 3, 12)


@pytest.fixture(scope="module")
def replay(tmp_path_factory: pytest.TempPathFactory) -> ReplayMarket:
    found = build_market(Settings(home=Path(tmp_path_factory.mktemp("home"))))
    assert isinstance(found, ReplayMarket)
    return found


def test_all_sessions_between_two_days_are_visited(replay: ReplayMarket) -> None:
    found = sessions_between(replay, FIRST, LAST, 1)
    assert (len(found), found[0], found[-1]) == (10, FIRST, LAST)
    assert sessions_between(replay, dt.date(2010, 2, 27), dt.date(2010, 3, 13), 1) == found  # a Saturday to another


def test_a_step_leaves_sessions_out(replay: ReplayMarket) -> None:
    assert sessions_between(replay, FIRST, LAST, 5) == [FIRST, dt.date(2010, 3, 8)]


@pytest.mark.parametrize(
    ("first", "last", "every", "named"),
    [
        (LAST, FIRST, 1, "--from 2010-03-12 is after --to 2010-03-01"),
        (FIRST, LAST, 0, "--every 0"),
        (dt.date(2001, 1, 1), LAST, 1, "--from 2001-01-01 is outside the data"),
        (FIRST, dt.date(2030, 1, 1), 1, "--to 2030-01-01 is outside the data"),
        (dt.date(2010, 3, 6), dt.date(2010, 3, 7), 1, "no session lies between 2010-03-06 and 2010-03-07"),
    ],
)
def test_a_wrong_day_or_step_is_named_with_a_remedy(
    replay: ReplayMarket, first: dt.date, last: dt.date, every: int, named: str
) -> None:
    with pytest.raises(UsageError, match=named) as raised:
        sessions_between(replay, first, last, every)
    assert raised.value.remedy


def test_a_market_of_real_time_is_refused(replay: ReplayMarket) -> None:
    class RealTime:
        name = "yahoo"

        class clock:
            day = None

    with pytest.raises(UsageError, match="the yahoo market is in real time"):
        sessions_between(RealTime(), FIRST, LAST, 1)  # type: ignore[arg-type]


def test_a_later_session_stays_within_the_data(replay: ReplayMarket) -> None:
    assert later_session(replay, FIRST, 5) == dt.date(2010, 3, 8)
    assert later_session(replay, FIRST, 5000) == replay.recorded()[-1]
