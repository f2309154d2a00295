"""Real names and replay days for rounds of turns.

A name without a price of its day costs no turn. A name that comes again on the same day goes on in its kept thread,
with a history that the baseline's has not, so each round has a day of its own. Later rounds have earlier days: they see
nothing of what the rounds before them stored.
"""

from __future__ import annotations

from collections.abc import Iterator

from chordesk.models.settings import Settings
from chordesk.tools.market.factory import MarketKey, build_market
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketData


def markets(settings: Settings) -> Iterator[MarketData]:
    """Yield the replay market on its newest day, then on each day before it."""
    newest = build_market(settings)
    for day in reversed(newest.sessions(200)):
        yield build_market(settings, MarketKey(newest.name, day))


def priced(market: MarketData) -> list[str]:
    """Return the names of the universe that have a price of the market's latest session."""
    names = [listing.symbol for listing in market.universe("sp500")]
    return [name for name in names if no_current_price(market, name) is None]
