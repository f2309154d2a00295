from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.tools.venues.manifold import Manifold
from chordesk.tools.venues.markets import NO_FEE, Pool, changed_resolution
from tests.fakes.venues import FarVenues, in_days, manifold_row

HOUR = 3_600_000


@pytest.fixture
def venue(far: FarVenues) -> Manifold:
    far.manifold["m1"] = manifold_row("m1", "Will it rain in May?", 0.25)
    return Manifold(far.url)


def test_a_market_is_read_as_documented(venue: Manifold) -> None:
    market = venue.market("m1")
    assert (market.venue, market.id, market.question) == ("manifold", "m1", "Will it rain in May?")
    assert (market.probability, market.basis, market.state) == (0.25, "the pool's probability", "open")
    assert market.pool == Pool(750.0, 250.0, 0.5)
    assert (market.volume, market.fee, market.play_money) == (2500.5, NO_FEE, True)
    assert market.rules == "Resolves by the official figure."
    assert market.closes_at is not None
    assert abs(market.closes_at - in_days(30)) < dt.timedelta(minutes=5)
    assert venue.book(market) is None


def test_prize_cash_is_no_play_money(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m1"]["token"] = "CASH"
    assert not venue.market("m1").play_money


def test_a_search_leaves_out_and_counts_other_outcomes(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m2"] = manifold_row("m2", "Which month has rain?", outcomeType="MULTIPLE_CHOICE")
    del far.manifold["m2"]["probability"]
    far.manifold["m2"]["pool"] = {"a": 1.0, "b": 2.0, "c": 3.0}
    found = venue.search("rain", 10)
    assert ([market.id for market in found.markets], found.left_out, found.whole) == (["m1"], 1, True)
    with pytest.raises(MarketError, match="m2 has other outcomes than YES and NO: MULTIPLE_CHOICE"):
        venue.market("m2")


def test_a_search_that_meets_its_limit_is_not_whole(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m3"] = manifold_row("m3", "Will it rain in June?")
    found = venue.search("rain", 1)
    assert (len(found.markets), found.whole) == (1, False)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"resolution": "YES"}, 1.0),
        ({"resolution": "NO"}, 0.0),
        ({"resolution": "MKT", "resolutionProbability": 0.3}, 0.3),
        ({"resolution": "CANCEL"}, "void"),
    ],
)
def test_each_resolution_is_an_outcome(
    far: FarVenues, venue: Manifold, fields: dict[str, Any], outcome: float | str
) -> None:
    far.manifold["m1"].update(isResolved=True, **fields)
    market = venue.market("m1")
    assert (market.state, market.outcome, market.probability) == ("resolved", outcome, None)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"probability": "0.5"}, "probability"),
        ({"probability": 1.4}, "probability"),
        ({"isResolved": "no"}, "isResolved"),
        ({"closeTime": "2026-01-01"}, "closeTime"),
        ({"question": 5}, "question"),
        ({"pool": [1, 2]}, "pool"),
        ({"isResolved": True, "resolution": "MKT"}, "resolutionProbability"),
        ({"isResolved": True, "resolution": "PERHAPS"}, "resolution"),
    ],
)
def test_a_field_that_is_not_as_documented_is_named(
    far: FarVenues, venue: Manifold, fields: dict[str, Any], field: str
) -> None:
    far.manifold["m1"].update(fields)
    with pytest.raises(MarketUnavailable, match=f"Manifold's answer could not be read: {field}: "):
        venue.market("m1")


def test_a_market_without_a_price_has_none(far: FarVenues, venue: Manifold) -> None:
    del far.manifold["m1"]["probability"], far.manifold["m1"]["pool"]
    market = venue.market("m1")
    assert (market.probability, market.bid, market.pool, market.basis) == (None, None, None, "no probability")


def test_a_market_past_its_close_is_closed_and_not_resolved(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m1"]["closeTime"] = int(in_days(-1).timestamp() * 1000)
    market = venue.market("m1")
    assert (market.state, market.outcome) == ("closed", None)


def test_a_close_beyond_the_calendar_is_none(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m1"]["closeTime"] = 10**17
    assert venue.market("m1").closes_at is None


def test_a_resolution_that_is_taken_back_is_a_contradiction(far: FarVenues, venue: Manifold) -> None:
    far.manifold["m1"].update(isResolved=True, resolution="YES")
    given = venue.market("m1").outcome
    assert given == 1.0
    assert changed_resolution(venue.market("m1"), given) is None
    far.manifold["m1"]["resolution"] = "NO"
    assert changed_resolution(venue.market("m1"), given) == "manifold gave m1 the outcome 1.0 and now gives it 0.0"
    far.manifold["m1"].update(isResolved=False, resolution=None)
    assert changed_resolution(venue.market("m1"), given) == "manifold gave m1 the outcome 1.0 and now has it open"
