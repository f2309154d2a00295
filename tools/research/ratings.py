"""analyst_ratings: analysts' price targets, and their changes of rating with dates and firms."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from functools import partial
from typing import Any

from pydantic import Field

from chordesk.models.company import PriceTargets, RatingChange
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData, RatingsSource
from chordesk.tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.research.rows import FewSymbols, absent, bounded, by_symbol, known, plain_text, share, shown

WHAT = "analyst ratings"
_MOST_ROWS = 60


class RatingsArguments(Arguments):
    symbols: FewSymbols
    days: int = Field(90, ge=1, le=1000, description="changes of so many days back")
    limit: int = Field(10, ge=1, le=100, description="at most so many changes a symbol, newest first")


def analyst_ratings(context: ToolContext, arguments: RatingsArguments) -> dict[str, Any]:
    """Return targets and changes by symbol; what the source has neither of is in `missing`."""
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_ROWS, arguments.symbols)
    first = exchange_day(now) - dt.timedelta(days=arguments.days)
    found = []
    for symbol, (changes, targets) in by_symbol(
        context, arguments.symbols, WHAT, gaps, partial(_ask, context.market, now)
    ):
        latest = max(targets, key=lambda row: row.known_at, default=None)
        if latest is None:
            gaps.add("price targets", "the source has none", symbol)
        if not changes:
            gaps.add("rating changes", "the source has none", symbol)
        if latest is None and not changes:
            continue
        recent = [row for row in changes if exchange_day(row.known_at) > first]
        found.append(
            {
                "symbol": symbol,
                "targets": shown(latest) if latest is not None else None,
                "days": arguments.days,
                "actions": dict(Counter(plain_text(row.action or "unknown", 20) for row in recent)),
                "changes": [_change(row) for row in bounded(recent, most, "rating changes", symbol, gaps)],
            }
        )
    return payload(context, gaps, available=bool(found), ratings=found)


def _ask(market: MarketData, now: dt.datetime, symbol: str) -> tuple[list[RatingChange], list[PriceTargets]]:
    """Return (changes newest first, targets) that were known by now."""
    if not isinstance(market, RatingsSource):
        raise absent(market, WHAT)
    changes = sorted(known(market.rating_changes(symbol), now), key=lambda row: row.known_at, reverse=True)
    return changes, known(market.price_targets(symbol), now)


def _change(row: RatingChange) -> dict[str, Any]:
    return {"date": exchange_day(row.known_at).isoformat(), **shown(row)}


ANALYST_RATINGS = ToolSpec(
    name="analyst_ratings",
    description=(
        "Analysts' price targets of up to 30 symbols (mean, median, low, high, number of analysts, meanRating 1 buy "
        "to 5 sell) and the changes of rating of the last days: date, firm, action, rating and target with those "
        "before. `actions` counts them all."
    ),
    hint="price targets and rating changes with dates and firms; `symbols`, `days` back, `limit` changes.",
    arguments=RatingsArguments,
    function=analyst_ratings,
)
