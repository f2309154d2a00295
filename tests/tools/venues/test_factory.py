from __future__ import annotations

import sys

import pytest

from chordesk.models.errors import NotConfigured, UsageError
from chordesk.models.settings import Settings
from chordesk.tools.venues import factory
from chordesk.tools.venues.factory import build_funding, build_venue, build_venues
from tests.fakes.venues import FarVenues, manifold_row


def test_the_venues_of_the_settings_are_built(venue_settings: Settings, far: FarVenues) -> None:
    far.manifold["m1"] = manifold_row("m1", "Will it rain?")
    venues = build_venues(venue_settings)
    assert {name: venue.name for name, venue in venues.items()} == {name: name for name in factory.VENUE_NAMES}
    assert venues["manifold"].market("m1").question == "Will it rain?"


def test_no_venue_is_built_unless_it_is_named() -> None:
    assert build_venues(Settings()) == {}


def test_an_unknown_venue_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"'betfair' is no venue .*manifold, polymarket, kalshi"):
        build_venue("betfair", Settings())


def test_without_its_package_a_venue_is_not_configured(
    venue_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    for build in (build_venues, build_funding):
        with pytest.raises(NotConfigured, match=r"pip install 'chordesk\[events\]'"):
            build(venue_settings)
