"""Several markets, each asked for on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from chordesk.models.errors import DeskError
from chordesk.tools.venues.markets import VenueLookups, VenueMarket


def looked_up(market: Callable[[str], VenueMarket], ids: Sequence[str]) -> VenueLookups:
    """Return the markets of these ids, and the reasons of those that could not be read."""
    lookups = VenueLookups()
    for one in dict.fromkeys(ids):
        try:
            lookups.found[one] = market(one)
        except DeskError as error:
            lookups.failed[one] = str(error)
    return lookups
