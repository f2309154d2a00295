from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from chordesk.tools.venues.markets import Outcome, VenueMarket, VenueState, changed_resolution, price_between

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
MARKET = VenueMarket(
    "kalshi", "KX-1", "Will it?", "https://kalshi.com", "", "resolved", 1.0, NOW, None, "resolved", None, None, 1.0, NOW
)


@pytest.mark.parametrize(
    ("bid", "ask", "price"),
    [(0.40, 0.44, 0.42), (0.4, 0.6, 0.5), (0.4, 0.61, None), (None, 0.4, None), (0.4, None, None), (None, None, None)],
)
def test_a_price_is_midway_only_between_two_close_sides(
    bid: float | None, ask: float | None, price: float | None
) -> None:
    assert price_between(bid, ask)[0] == price


@pytest.mark.parametrize(
    ("state", "outcome", "text"),
    [
        ("resolved", 1.0, None),
        ("resolved", 0.0, "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0"),
        ("resolved", "void", "kalshi gave KX-1 the outcome 1.0 and now gives it void"),
        ("open", None, "kalshi gave KX-1 the outcome 1.0 and now has it open"),
    ],
)
def test_a_resolution_that_changes_is_seen(state: VenueState, outcome: Outcome | None, text: str | None) -> None:
    assert changed_resolution(dataclasses.replace(MARKET, state=state, outcome=outcome), 1.0) == text
