"""A client of venues: each way in which an answer goes wrong, whatever a venue sends in a field, and who is built."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from chordesk.models.errors import MarketError, MarketUnavailable, NotConfigured, UsageError
from chordesk.models.settings import Settings
from chordesk.tools.board.venues import json_client, kalshi, manifold, polymarket
from chordesk.tools.board.venues.json_client import JsonClient
from chordesk.tools.board.venues.kalshi import Kalshi
from chordesk.tools.board.venues.manifold import Manifold
from chordesk.tools.board.venues.markets import EventVenue, VenueMarket
from chordesk.tools.board.venues.named_venues import build_funding, build_venue, build_venues
from chordesk.tools.board.venues.polymarket import Polymarket
from chordesk.tools.market.fetching import PACES, Pace, Source
from tests.builders import uninstalled
from tests.examples import examples
from tests.fakes.venues import FarVenues, Fault, book_of, kalshi_row, manifold_row, polymarket_row
from tests.patience import PATIENCE

QUICK, PATH = 1000.0, "/v0/market/m1"
ANY: TypeAdapter[Any] = TypeAdapter(Any)


def made(far: FarVenues, seconds: float = PATIENCE) -> JsonClient:
    far.manifold["m1"] = manifold_row("m1", "Will it rain?")
    return JsonClient(far.url, Source("Manifold", Pace(QUICK, 100)), seconds)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (Fault("html"), "no whole JSON, but text/html that begins '<!doctype html>"),
        (Fault("half"), "Manifold does not answer: it ended before its end"),
        (Fault("status", status=503), "Manifold does not answer: HTTP 503"),
        (Fault("status", status=302), "Manifold does not answer: HTTP 302"),
    ],
)
def test_an_answer_that_is_no_json_is_unavailable(far: FarVenues, fault: Fault, text: str) -> None:
    far.faults["/v0/"] = fault
    with pytest.raises(MarketUnavailable, match="Manifold") as caught:
        made(far).get(ANY, PATH)
    assert text in str(caught.value)


def test_an_unknown_thing_is_not_retried_as_if_the_venue_were_away(far: FarVenues) -> None:
    with pytest.raises(MarketError, match="Manifold has nothing at /v0/market/none") as caught:
        made(far).get(ANY, "/v0/market/none")
    assert not caught.value.retryable


def test_a_refused_request_names_its_status(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("status", status=403)
    with pytest.raises(MarketError, match="Manifold refuses the request \\(HTTP 403\\)") as caught:
        made(far).get(ANY, PATH)
    assert not caught.value.retryable


def test_an_answer_that_trickles_in_is_given_up(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("slow", wait="0.05")
    begun = time.monotonic()
    with pytest.raises(MarketUnavailable, match=r"Manifold does not answer: no whole answer within 0\.5 s"):
        made(far, seconds=0.5).get(ANY, PATH)
    assert time.monotonic() - begun < PATIENCE


def test_an_address_without_a_server_is_unavailable() -> None:
    with pytest.raises(MarketUnavailable, match="Manifold does not answer: no connection"):
        JsonClient("http://127.0.0.1:9", Source("Manifold", Pace(QUICK, 100))).get(ANY, PATH)


def test_an_answer_beyond_the_limit_is_given_up(far: FarVenues, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_client, "MOST_BYTES", 2**20)
    asking = made(far)
    far.manifold["m1"]["textDescription"] = "x" * 2**21
    with pytest.raises(MarketUnavailable, match="Manifold's answer is larger than 1 MB"):
        asking.get(ANY, PATH)


@pytest.mark.parametrize("wait", [None, "0", "Mon, 01 Jan 2024 00:00:00 GMT", "soon"])
def test_too_many_requests_are_retried_once_within_the_limit(far: FarVenues, wait: str | None) -> None:
    far.faults["/v0/"] = Fault("busy", times=1, wait=wait)
    assert made(far).get(ANY, PATH)["id"] == "m1"
    assert len(far.asked) == 2


def test_a_wait_beyond_the_limit_ends_the_requests_for_that_time(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("busy", times=1, wait="7200")
    asking = made(far)
    for _ in range(2):
        with pytest.raises(MarketUnavailable, match="Manifold limits our requests") as caught:
            asking.get(ANY, PATH)
        assert "try again in 7" in caught.value.remedy
    assert len(far.asked) == 1


def test_too_many_requests_twice_are_an_error(far: FarVenues) -> None:
    far.faults["/v0/"] = Fault("busy", wait="0")
    with pytest.raises(MarketUnavailable, match=r"HTTP 429.*try again in 30 s"):
        made(far).get(ANY, PATH)
    assert len(far.asked) == 2


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
            patch.setitem(PACES, module.TITLE, Pace(1e6, 100))
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


def test_an_unknown_venue_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"'betfair' is no venue .*manifold, polymarket, kalshi"):
        build_venue("betfair")


def test_without_its_package_a_venue_is_not_configured(
    venue_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    uninstalled(monkeypatch)
    for build in (partial(build_venues, venue_settings), build_funding):
        with pytest.raises(NotConfigured, match=r"pip install 'chordesk\[events\]'"):
            build()
