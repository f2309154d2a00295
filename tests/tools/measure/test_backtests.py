"""Backtests in numbers: sessions, closes, benchmarks, marks and hit rates."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.past_sessions import later_session, sessions_between
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.measure.backtests import Claim, drawdown, hit_rates
from chordesk.tools.prices.close_table import CloseTable, buy_and_hold, closes_of, equal_weight

DAYS = [dt.date(2010, 3, day) for day in (1, 2, 3, 4)]
FIRST, LAST = dt.date(2010, 3, 1), dt.date(2010, 3, 12)
NAN = float("nan")
# Returns over one session from the first day: +10 %, 0, -10 %; over the next: -50 %, 0, +100 %.
CLOSES = CloseTable(DAYS, ["UP", "FLAT", "DOWN"], np.array([[10, 10, 10], [11, 10, 9], [5.5, 10, 18], [5.5, NAN, 18]]))


@pytest.mark.parametrize(
    ("rows", "held", "weighed"),
    [
        # Half of it doubles twice, half of it halves once; restored: +100 % and 0, then +100 % and -50 %.
        ([[10, 100], [20, 100], [40, 50]], [1000, 1500, 2250], [1000, 1500, 1875]),
        # A name without a first close is not bought; one that stops stays at its last, and is weighed no more.
        ([[10, NAN, 10], [20, 5, 30], [20, 50, NAN]], [1000, 2500, 2500], [1000, 2500, 2500 * (1 + 9 / 2)]),
        ([[NAN], [NAN]], [1000, 1000], [1000, 1000]),
    ],
)
def test_what_the_universe_came_to(rows: list[list[float]], held: list[float], weighed: list[float]) -> None:
    found = CloseTable(DAYS[: len(rows)], [f"S{number}" for number in range(len(rows[0]))], np.array(rows))
    assert buy_and_hold(found, 1000) == held
    assert equal_weight(found, 1000) == pytest.approx(weighed)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_the_drawdown_is_the_deepest_fall_from_an_earlier_high(values: list[float]) -> None:
    assert 0 <= drawdown(values) < 1
    assert drawdown(sorted(values)) == 0
    assert drawdown([100, 120, 90, 130, 104]) == pytest.approx(0.25)
    assert drawdown([100, None, 80]) == pytest.approx(0.2)


def test_closes_are_those_of_the_market_on_their_days(data: ReplayData) -> None:
    days = [dt.date(2010, 3, day) for day in (1, 2, 5)]
    found = closes_of(ReplayMarket(data, ReplayClock(days[-1])), ["IBM", "NOPE", "KO"], days)
    for row, day in enumerate(days):
        then = ReplayMarket(data, ReplayClock(day))
        assert found.table[row, [0, 2]].tolist() == [then.quote("IBM").price, then.quote("KO").price]
    assert np.isnan(found.table[:, 1]).all()
    found.table[0, 0] = found.table[2, 0] = np.nan  # a gap is filled by the close before it alone
    assert np.isnan(found.carried()[0, 0])
    assert found.carried()[2, 0] == found.table[1, 0]


@pytest.mark.parametrize(
    ("symbol", "day", "sessions", "expected"),
    [
        ("UP", DAYS[0], 1, 1.0),
        ("FLAT", DAYS[0], 1, 0.5),
        ("DOWN", DAYS[0], 1, 0.0),
        ("FLAT", DAYS[1], 2, 0.5),
        ("UP", DAYS[1], 1, 0.0),
        ("DOWN", DAYS[1], 1, 1.0),
        # It is traded no more, and worth its last close.
        ("FLAT", DAYS[2], 1, 0.5),
        # Where the data do not reach it.
        ("UP", DAYS[3], 1, None),
        ("UP", DAYS[0], 4, None),
        ("OTHER", DAYS[0], 1, None),
        ("UP", dt.date(2011, 1, 3), 1, None),
    ],
)
def test_a_name_beats_the_median_or_does_not(symbol: str, day: dt.date, sessions: int, expected: float | None) -> None:
    assert CLOSES.outcome(symbol, day, sessions) == expected


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_outcomes_of_a_universe_average_one_half_with_the_dead(names: int, seed: int) -> None:
    """Of odd and even universes, with names that leave at any time or pause, whatever their last close pays."""
    draws = np.random.default_rng(seed)
    table = draws.uniform(5, 15, (8, names))
    for column in range(names):
        table[draws.integers(1, 9) :, column] = np.nan
    table[4, draws.integers(0, names)] = np.nan
    symbols = [f"S{at}" for at in range(names)]
    left = {one: draws.uniform() for one, lost in zip(symbols, np.isnan(table[-1]), strict=True) if lost}
    days = [dt.date(2010, 3, 1) + dt.timedelta(days=day) for day in range(8)]
    found = CloseTable(days, symbols, table, left)
    for start in range(6):
        listed = [one for one, there in zip(symbols, found.listed(start), strict=True) if there]
        outcomes = [found.outcome(one, days[start], 2) for one in listed]
        assert not listed or np.mean([one for one in outcomes if one is not None]) == pytest.approx(0.5)
        assert None not in outcomes


def test_a_name_that_left_the_market_is_worth_what_it_paid_then_cash() -> None:
    days = [*DAYS, dt.date(2010, 3, 5)]
    table = np.array([[10, 10, 10], [10, 10, 11], [20, NAN, 12], [20, NAN, 13], [20, NAN, 14]])
    paid, total = (CloseTable(days, ["UP", "GONE", "ON"], table, {"GONE": pays}) for pays in (1.0, 0.0))
    assert paid.carried()[:, 1].tolist() == [10, 10, 10, 10, 10]
    assert total.carried()[:, 1].tolist() == [10, 10, 0, 0, 0]
    assert total.until(1).carried()[:, 1].tolist() == [10, 10], "it had not left by then"
    # From 300 in three parts: 100 of each, of which one is lost.
    assert buy_and_hold(total, 300) == pytest.approx([300, 310, 320, 330, 340])
    weighed = [300, 310, 310 * (1 + (1 - 1 + 1 / 11) / 3), 310 * (1 + 1 / 33) * (1 + 1 / 24)]
    assert equal_weight(total, 300)[:4] == pytest.approx(weighed)
    # On every other session its end is seen in the step in which it lies.
    assert equal_weight(total.at(days[::2]), 300)[1] == pytest.approx(300 * (1 + (1 - 1 + 0.2) / 3))
    assert [row.open for row in hit_rates([Claim("BUY", "GONE", days[1])], total, 2)] == [0], "the dead are scored"
    assert total.outcome("GONE", days[1], 2) == 0.0
    assert total.outcome("GONE", days[3], 1) == 0.0, "cash, while what is listed rose"


def test_rates_count_claims_dates_and_what_is_open() -> None:
    claims = [Claim("BUY", "UP", DAYS[0]), Claim("BUY", "DOWN", DAYS[1]), Claim("BUY", "UP", DAYS[1])]
    claims += [Claim("BUY", "UP", DAYS[3]), Claim("PASS", "DOWN", DAYS[0]), Claim("HOLD", "UP", DAYS[3])]
    buy, hold, passed = hit_rates(claims, CLOSES, 1)
    assert (buy.group, buy.n, buy.dates, buy.hits, buy.open) == ("BUY", 3, 2, 2, 1)
    assert (buy.share, buy.low, buy.effective) == (pytest.approx(2 / 3), None, None), "three are too few"
    assert (passed.n, passed.hits, passed.low) == (1, 0, None)
    assert (hold.n, hold.open, hold.share, hold.low) == (0, 1, None, None)


def test_the_sessions_between_two_days(market: ReplayMarket) -> None:
    found = sessions_between(market, FIRST, LAST, 1)
    assert (len(found), found[0], found[-1]) == (10, FIRST, LAST)
    assert sessions_between(market, dt.date(2010, 2, 27), dt.date(2010, 3, 13), 1) == found  # a Saturday to another
    assert sessions_between(market, FIRST, LAST, 5) == [FIRST, dt.date(2010, 3, 8)]
    assert later_session(market, FIRST, 5) == dt.date(2010, 3, 8)
    assert later_session(market, FIRST, 5000) == market.recorded()[-1]


@pytest.mark.parametrize(
    ("first", "last", "every", "named"),
    [
        (LAST, FIRST, 1, "the first day 2010-03-12 is after the last, 2010-03-01"),
        (FIRST, LAST, 0, "--every 0"),
        (dt.date(2001, 1, 1), LAST, 1, "the first day, 2001-01-01, is outside the data"),
        (FIRST, dt.date(2030, 1, 1), 1, "the last day, 2030-01-01, is outside the data"),
        (dt.date(2010, 3, 6), dt.date(2010, 3, 7), 1, "no session lies between 2010-03-06 and 2010-03-07"),
    ],
)
def test_a_wrong_day_or_step_is_named_with_a_remedy(
    market: ReplayMarket, first: dt.date, last: dt.date, every: int, named: str
) -> None:
    with pytest.raises(UsageError, match=named) as raised:
        sessions_between(market, first, last, every)
    assert raised.value.remedy


def test_a_market_of_real_time_is_refused() -> None:
    class RealTime:
        name = "yahoo"

        class clock:
            day = None

    with pytest.raises(UsageError, match="the yahoo market is in real time"):
        sessions_between(RealTime(), FIRST, LAST, 1)  # type: ignore[arg-type]
