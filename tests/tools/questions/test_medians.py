"""The median rule: above, below, equal; and the bars without which there is no outcome."""

from __future__ import annotations

import datetime as dt
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.board import BeatsMedian
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.medians import Closes, Pending, RelativeOutcomes, Resolved, beats, span_of
from tests.examples import examples
from tests.tools.conftest import Raw
from tests.tools.market.far_market import FarMarket, daily
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled
from tests.tools.questions.rows import ASKED, CLOSED, on

QUIET = settings(max_examples=examples(60), deadline=None)


def rule(symbol: str, day: dt.date = ASKED, sessions: int = 10, universe: str = "sp500") -> BeatsMedian:
    return BeatsMedian(symbol=symbol, universe=universe, day=day, sessions=sessions)


@pytest.mark.parametrize(
    ("symbol", "first", "last", "outcome"),
    [
        ("AAPL", 208.99, 223.84, 1.0),  # +7.1056 %
        ("JPM", 41.83, 43.07, 1.0),  # +2.9644 %, above the median by half a thousandth
        ("WMT", 53.90, 55.42, 0.0),  # +2.8200 %, below it by one thousandth
        ("XOM", 65.40, 66.30, 0.0),
        ("IBM", 128.57, 127.83, 0.0),
    ],
)
def test_outcomes_checked_by_hand(data: ReplayData, symbol: str, first: float, last: float, outcome: float) -> None:
    """Closes of 2010-03-01 and 2010-03-15 as the package's file has them; the median of the 500 names that have both,
    computed from the file by the csv module alone, is +2.9128571647 %."""
    found = RelativeOutcomes(on(data, CLOSED)).of(rule(symbol))
    assert isinstance(found, Resolved)
    assert found.outcome == outcome
    assert found.evidence["source"] == "daily closes of the replay market"
    assert found.evidence["first"] == {"session": "2010-03-01", "close": first}
    assert found.evidence["last"] == {"session": "2010-03-15", "close": last}
    assert found.evidence["median"] == pytest.approx(0.029128571647204615, abs=1e-12)
    assert found.evidence["with_both_closes"] == 500
    assert found.evidence["members"] == found.evidence["without"] + 500
    assert found.evidence["prices"] == "not adjusted: a split shows as a move"


@QUIET
@given(choice=st.data())
def test_the_median_is_that_of_the_file(data: ReplayData, raw: Raw, choice: st.DataObject) -> None:
    """Against the file read a second way, over any two of its sessions."""
    first, last = sorted(choice.draw(st.lists(st.sampled_from(data.sessions), min_size=2, max_size=2, unique=True)))
    market = on(data, last)
    names = [listing.symbol for listing in market.universe("sp500")]
    found = span_of(market, names, first, last)
    for symbol in names:
        assert (found.closes[symbol].first is not None) == (first in raw[symbol])
    changes = [one.change for one in found.closes.values() if one.change is not None]
    assert found.median == pytest.approx(statistics.median(changes), abs=1e-12)
    assert found.with_both == len(changes)


@QUIET
@given(changes=st.lists(st.floats(-0.9, 3, allow_nan=False), min_size=1, max_size=40))
def test_the_universe_beats_its_own_median_half_of_the_time(changes: list[float]) -> None:
    median = float(np.median(changes))
    outcomes = [beats(change, median) for change in changes]
    assert set(outcomes) <= {0.0, 0.5, 1.0}
    assert sum(outcome == 1 for outcome in outcomes) <= len(changes) / 2
    assert sum(outcome == 0 for outcome in outcomes) <= len(changes) / 2
    assert all((change > median) == (outcome == 1) for change, outcome in zip(changes, outcomes, strict=True))


def test_the_median_itself_is_half(data: ReplayData) -> None:
    """Of three names the one in the middle is the median, exactly."""
    found = RelativeOutcomes(on(data, CLOSED)).of(rule("XOM", universe="AAPL,IBM,XOM"))
    assert isinstance(found, Resolved)
    assert found.outcome == 0.5


@QUIET
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_outcome_is_known_before_its_last_session(data: ReplayData, choice: st.DataObject, seed: int) -> None:
    """At any day a question that closes later is open, and one that has closed has the outcome it keeps, whatever the
    file has of later days."""
    today, day = choice.draw(st.sampled_from(data.sessions)), choice.draw(st.sampled_from(data.sessions))
    asked = rule(choice.draw(st.sampled_from(["AAPL", "IBM", "XOM"])), day, choice.draw(st.integers(1, 20)))
    markets = [on(some, today) for some in (data, future_spoiled(data, today, seed), future_removed(data, today))]
    found = [RelativeOutcomes(market).of(asked) for market in markets]
    assert found[0] == found[1] == found[2]
    if exchange_hours().after(day, asked.sessions) > today:
        assert isinstance(found[0], Pending)
    if isinstance(found[0], Resolved):
        assert found[0].evidence["last"]["session"] <= str(today)


def test_a_missing_last_bar_keeps_it_open_and_is_named(data: ReplayData) -> None:
    """BNI was bought in February 2010: it has no bar in March."""
    found = RelativeOutcomes(on(data, dt.date(2010, 2, 24))).of(rule("BNI", dt.date(2010, 2, 9)))
    assert found == Pending("the replay market has no bar of BNI of 2010-02-24")


def test_a_session_that_the_data_lost_keeps_all_open(data: ReplayData) -> None:
    found = RelativeOutcomes(on(data, dt.date(2010, 8, 20))).of(rule("AAPL", dt.date(2010, 8, 4)))
    assert isinstance(found, Pending)
    assert "of 2010-08-04 and 2010-08-18 of 0 of " in found.note


def test_bars_of_less_than_half_of_the_universe_are_not_enough() -> None:
    histories = {"AAA": daily("AAA", [1.0, 2.0, 3.0]), "BBB": daily("BBB", [1.0, 2.0, 3.0])}
    market = FarMarket(histories)
    first, last = dt.date(2024, 3, 14), dt.date(2024, 3, 15)
    half = span_of(market, ["AAA", "BBB", "CCC", "DDD"], first, last)
    less = span_of(market, ["AAA", "BBB", "CCC", "DDD", "EEE"], first, last)
    assert (half.is_enough, less.is_enough) == (True, False)
    assert half.with_both == less.with_both == 2
    found = RelativeOutcomes(market).of(rule("AAA", first, 1, "AAA,BBB,CCC,DDD,EEE"))
    assert isinstance(found, Pending)
    assert "closes of 2024-03-14 and 2024-03-15 of 2 of 5 members" in found.note


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_close_that_is_no_price_counts_as_none(odd: float) -> None:
    histories = {"AAA": daily("AAA", [1.0, odd]), "BBB": daily("BBB", [1.0, 2.0])}
    found = span_of(FarMarket(histories), ["AAA", "BBB"], dt.date(2024, 3, 14), dt.date(2024, 3, 15))
    assert found.closes["AAA"] == Closes(1.0, None, adjusted=True)
    assert found.with_both == 1


def test_a_universe_is_read_once_for_all_its_questions(data: ReplayData) -> None:
    asked: list[str] = []

    class Counting(type(on(data, CLOSED))):  # type: ignore[misc]
        def bars(self, symbol: str, sessions: int):  # type: ignore[no-untyped-def]
            asked.append(symbol)
            return super().bars(symbol, sessions)

    market = Counting(data, on(data, CLOSED).clock)
    outcomes = RelativeOutcomes(market)
    names = [listing.symbol for listing in market.universe("sp500")]
    resolved = [outcomes.of(rule(symbol)) for symbol in names]
    assert len(asked) == len(names)
    assert sum(isinstance(one, Resolved) for one in resolved) == 500
