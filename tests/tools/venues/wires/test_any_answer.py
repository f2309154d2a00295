"""Whatever a venue sends in a field is read as documented or is an error of the desk, never another exception, and no
price comes out of nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chordesk.models.errors import MarketError
from chordesk.tools.venues import kalshi, manifold, polymarket
from chordesk.tools.venues.kalshi import Kalshi
from chordesk.tools.venues.manifold import Manifold
from chordesk.tools.venues.markets import EventVenue, VenueMarket
from chordesk.tools.venues.polymarket import Polymarket
from tests.examples import examples
from tests.fakes.venues import FarVenues, book_of, kalshi_row, manifold_row, polymarket_row

ROWS: dict[str, Callable[[], dict[str, Any]]] = {
    "manifold": lambda: manifold_row("1", "Will it rain?"),
    "polymarket": lambda: polymarket_row("1", "Will it rain?"),
    "kalshi": lambda: kalshi_row("1", "Will it rain?"),
}
FIELDS = {venue: sorted(row()) for venue, row in ROWS.items()}
plain = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12)
)
likely = st.sampled_from(
    [
        "0.5",
        "1.0001",
        "-0.1",
        "nan",
        "1e999",
        "",
        0.5,
        1.4,
        -1,
        "2026-01-01T00:00:00Z",
        "[]",
        '["Yes", "No"]',
        "{",
        10**30,
    ]
)
anything = likely | st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def quick_far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.start()
    yield server
    server.end()


@pytest.fixture(scope="module")
def venues(quick_far: FarVenues) -> dict[str, EventVenue]:
    """The wires without their throttle."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (manifold, polymarket, kalshi):
            patch.setattr(module, "REQUESTS_A_SECOND", 1e6)
        url = quick_far.url
        made: list[EventVenue] = [Manifold(url), Polymarket(url, url), Kalshi(url)]
    return {venue.name: venue for venue in made}


@pytest.mark.parametrize("name", sorted(ROWS))
def test_any_value_of_any_field_is_read_or_refused(
    name: str, quick_far: FarVenues, venues: dict[str, EventVenue]
) -> None:
    rows = getattr(quick_far, name)

    @settings(max_examples=examples(150), deadline=None)
    @given(data=st.data())
    def hold(data: st.DataObject) -> None:
        row = ROWS[name]()
        for field in data.draw(st.lists(st.sampled_from(FIELDS[name]), min_size=1, max_size=3, unique=True)):
            row[field] = data.draw(anything)
        if data.draw(st.booleans()):
            del row[data.draw(st.sampled_from(FIELDS[name]))]
        rows["1"] = row
        try:
            market = venues[name].market("1")
        except MarketError:
            return
        check(market)

    hold()


@settings(max_examples=examples(100), deadline=None)
@given(levels=st.lists(st.tuples(anything, anything), max_size=3))
def test_any_book_is_read_or_refused(
    levels: list[tuple[Any, Any]], quick_far: FarVenues, venues: dict[str, EventVenue]
) -> None:
    quick_far.polymarket["1"] = polymarket_row("1", "Will it rain?")
    quick_far.books["11"] = book_of(levels, levels)
    try:
        book = venues["polymarket"].book(venues["polymarket"].market("1"))
    except MarketError:
        return
    assert book is not None
    for level in (*book.offers("yes"), *book.offers("no")):
        assert 0 < level.price < 1
        assert level.size > 0


def check(market: VenueMarket) -> None:
    """Assert that what was read is in its ranges, and that only an open or closed market has a price."""
    for price in (market.probability, market.bid, market.ask):
        assert price is None or 0 <= price <= 1
    if market.state == "resolved":
        assert market.probability is None
        assert market.outcome == "void" or 0 <= float(market.outcome or 0) <= 1
    else:
        assert market.outcome is None
    if market.venue != "manifold" and market.probability is not None:
        assert market.bid is not None
        assert market.ask is not None
    assert market.closes_at is None or market.closes_at.tzinfo is not None
