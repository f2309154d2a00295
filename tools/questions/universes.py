"""The universe of a relative question: a named one of the market, or symbols by comma."""

from __future__ import annotations

import hashlib

from chordesk.models.errors import MarketError
from chordesk.models.market import plain_name
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import NAMED, resolve_universe

HASH_DIGITS = 12


def universe_of_rule(universe: str, market: MarketData) -> str:
    """Return a universe as a rule keeps it: a named one by its name, another as its symbols by comma, in order.

    Raises UsageError for what is no universe, MarketError when the market has no such named one.
    """
    wanted = universe.strip().lower()
    if wanted in NAMED:
        return wanted
    return ",".join(sorted(resolve_universe(universe, market)))


def named_universe(market: MarketData) -> str | None:
    """Return the name of the market's own universe, None where it has none."""
    for name in NAMED:
        try:
            if market.universe(name):
                return name
        except MarketError:
            continue
    return None


def members(universe: str, market: MarketData) -> list[str]:
    """Return the symbols of a rule's universe, as the market has them now."""
    if universe in NAMED:
        return [listing.symbol for listing in market.universe(universe)]
    return universe.split(",")


def universe_key(universe: str) -> str:
    """Return a short text that distinguishes a rule's universe."""
    if universe in NAMED:
        return universe
    return f"list-{hashlib.sha256(universe.encode()).hexdigest()[:HASH_DIGITS]}"


def universe_text(universe: str, market: MarketData) -> str:
    """Return a rule's universe as a question names it. A data folder's own symbols go by the name of a market's
    universe, and are no index."""
    if universe not in NAMED:
        return f"these {universe.count(',') + 1} symbols'"
    return "the data folder's" if plain_name(market.name) == "files" else f"the {universe}'s"
