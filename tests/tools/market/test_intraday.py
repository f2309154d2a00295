"""Bars of part of a session: the exchange's hours, half days, holes, and nothing later than now."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.errors import MarketError
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.prices import end_of, intraday_of, slots, stamped
from chordesk.tools.market.protocol import Intraday, IntradaySource
from chordesk.tools.market.yahoo import market as yahoo
from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.examples import examples
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import NowClock

FRIDAY = dt.date(2024, 3, 15)
HALF_DAY = dt.date(2023, 11, 24)
FIELDS = ("open", "high", "low", "close", "volume")


def at(day: dt.date, hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(hour, minute), NEW_YORK)


def rows_at(starts: list[dt.datetime]) -> dict[str, list[float]]:
    """A price for each start that no other one has."""
    return {name: [start.timestamp() / 1e6 + place for start in starts] for place, name in enumerate(FIELDS)}


def taken(
    starts: list[dt.datetime], until: dt.datetime, sessions: int = 2, live: bool = True, minutes: int = 60
) -> Intraday:
    return intraday_of("AAA", rows_at(starts), starts, minutes, sessions, until, live)


def test_a_session_has_seven_hours_of_which_the_last_is_a_half_and_a_half_day_four() -> None:
    for day, starts, end in (
        (FRIDAY, ["09:30", "10:30", "11:30", "12:30", "13:30", "14:30", "15:30"], 16),
        (HALF_DAY, ["09:30", "10:30", "11:30", "12:30"], 13),
    ):
        found = slots(at(day, 20), 60, 1)
        assert [f"{start:%H:%M}" for start in found] == starts
        assert end_of(found[-1], 60) == at(day, end)
    assert len(slots(at(FRIDAY, 20), 15, 1)) == 26
    assert (stamped(at(FRIDAY, 9, 30)), stamped(FRIDAY)) == ("2024-03-15T09:30-04:00", "2024-03-15")


@pytest.mark.parametrize(
    ("until", "count"),
    [((9, 30), 0), ((9, 31), 1), ((10, 30), 1), ((10, 31), 2), ((15, 59), 7), ((16, 0), 7), ((23, 0), 7)],
)
def test_a_bar_begins_before_now(until: tuple[int, int], count: int) -> None:
    today = [start for start in slots(at(FRIDAY, *until), 60, 5) if start.date() == FRIDAY]
    assert len(today) == count


def test_a_bar_that_goes_on_is_flagged_and_given_live_alone() -> None:
    until = at(FRIDAY, 11, 45)
    starts = slots(until, 60, 2)
    live, past = taken(starts, until), taken(starts, until, live=False)
    assert (live.unfinished, live.bars.dates[-1]) == (True, at(FRIDAY, 11, 30))
    assert (past.unfinished, past.bars.dates[-1]) == (False, at(FRIDAY, 10, 30))
    assert not taken(starts, at(FRIDAY, 12, 30)).unfinished


def test_a_hole_cuts_the_run_and_shows_as_no_number() -> None:
    until = at(FRIDAY, 20)
    starts = slots(until, 60, 2)
    found = taken([start for start in starts if start != starts[9]], until)
    assert found.spread.dates == starts
    assert np.isnan(found.spread.close).tolist() == [place == 9 for place in range(14)]
    assert list(found.run.dates) == starts[10:]
    assert list(found.bars.dates) == starts[:9] + starts[10:]


def test_a_last_session_without_a_bar_is_an_error_once_it_is_on() -> None:
    starts = [start for start in slots(at(FRIDAY, 20), 60, 3) if start.date() < FRIDAY]
    assert taken(starts, at(FRIDAY, 9, 45)).bars.dates[-1].day == 14  # the source may be late
    with pytest.raises(
        MarketError, match="AAA has no intraday bar of 2024-03-15; its last one begins at 2024-03-14 15:30"
    ):
        taken(starts, at(FRIDAY, 10, 45))
    with pytest.raises(MarketError, match="AAA has no intraday bars of the last 2 sessions"):
        taken([], at(FRIDAY, 10, 45))


@settings(max_examples=examples(150), deadline=None)
@given(
    minutes_ago=st.integers(0, 60 * 24 * 40),
    minutes=st.sampled_from([15, 60]),
    sessions=st.integers(1, 12),
    lost=st.sets(st.integers(0, 400), max_size=12),
    live=st.booleans(),
)
def test_no_bar_is_later_than_now_or_depends_on_one(
    minutes_ago: int, minutes: int, sessions: int, lost: set[int], live: bool
) -> None:
    now = at(FRIDAY, 20) - dt.timedelta(minutes=minutes_ago)
    every = [start for place, start in enumerate(slots(at(FRIDAY, 20), minutes, 40)) if place not in lost]
    known = [start for start in every if (start < now if live else end_of(start, minutes) <= now)]
    try:
        found = taken(every, now, sessions, live, minutes)
    except MarketError:
        with pytest.raises(MarketError):
            taken(known, now, sessions, live, minutes)
        return
    same = taken(known, now, sessions, live, minutes)
    for one, other in zip(found[:3], same[:3], strict=True):
        assert list(one.dates) == list(other.dates)
        assert all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in FIELDS)
    assert all(start < now and exchange_hours().is_session(start.date()) for start in found.bars.dates)
    assert found.unfinished == (end_of(found.bars.dates[-1], minutes) > now)
    assert live or not found.unfinished
    assert np.isfinite(found.run.close).all()


@pytest.fixture
def far() -> FarYahoo:
    server = FarYahoo()
    server.charts["AAA"] = [(FRIDAY, 10, 11, 9, 10, 5)]  # yfinance reads the time zone of its daily chart
    server.start()
    yield server  # type: ignore[misc]
    server.shutdown()
    server.server_close()


@pytest.fixture
def market(far: FarYahoo, tmp_path: Path) -> YahooMarket:
    starts = [start for start in slots(at(FRIDAY, 20), 60, 3) if start < at(FRIDAY, 14, 10)]
    rows = [(start, 10 + n, 12 + n, 9 + n, 11 + n, 100 + n) for n, start in enumerate(starts)]
    rows[4] = (starts[4], None, None, None, None, None)  # type: ignore[assignment]
    far.intraday["AAA", "60m"] = [*rows, (at(FRIDAY, 17), 99, 99, 99, 99, 9)]
    return build_yahoo(tmp_path, NowClock(dt.time(14, 10), FRIDAY - dt.timedelta(days=1)), far.session())


def test_hours_are_yahoo_s_with_their_zone(market: YahooMarket, far: FarYahoo) -> None:
    assert isinstance(market, IntradaySource)
    found = market.intraday("AAA", "hour", 2)
    assert [f"{start:%d %H:%M}" for start in found.bars.dates][:2] == ["14 09:30", "14 10:30"]
    assert (found.bars.dates[-1], found.unfinished) == (at(FRIDAY, 13, 30), True)
    assert found.bars.close.tolist() == [18 + n for n in range(12)]
    assert not found.bars.adjusted
    assert len(market.intraday("AAA", "hour", 3).run.dates) == 14
    asked = far.asked_for("/v8/finance/chart/AAA")
    market.intraday("AAA", "hour", 1)
    assert far.asked_for("/v8/finance/chart/AAA") == asked


def test_a_bar_that_was_fetched_before_its_end_stays_unfinished(
    market: YahooMarket, monkeypatch: pytest.MonkeyPatch
) -> None:
    market.intraday("AAA", "hour", 2)
    monkeypatch.setattr(NowClock, "now", lambda self: at(FRIDAY, 14, 31))
    kept = market._cache._memory["hour-AAA"]
    market._cache._memory["hour-AAA"] = kept._replace(at=at(FRIDAY, 14, 29).astimezone(dt.UTC))
    monkeypatch.setattr(yahoo, "INTRADAY_AGE", dt.timedelta(days=36500))
    found = market.intraday("AAA", "hour", 2)
    assert (found.bars.dates[-1], found.unfinished) == (at(FRIDAY, 13, 30), True)


def test_a_symbol_without_intraday_bars_is_named(market: YahooMarket, far: FarYahoo) -> None:
    with pytest.raises(MarketError, match="unknown symbol NOPE"):
        market.intraday("NOPE", "hour", 2)
    far.charts["EMPTY"] = far.charts["AAA"]
    far.intraday["EMPTY", "15m"] = [(at(FRIDAY, 10), None, None, None, None, None)]  # type: ignore[list-item]
    with pytest.raises(MarketError, match="Yahoo has no intraday bars of EMPTY"):
        market.intraday("EMPTY", "15min", 2)
