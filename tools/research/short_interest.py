"""short_interest: shares sold short at the newest settlement that is known."""

from __future__ import annotations

from typing import Any

from chordesk.models.company import ShortInterest
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData, ShortInterestSource
from chordesk.tools.registry import Arguments, Gaps, Symbols, ToolContext, ToolSpec, payload
from chordesk.tools.research.rows import absent, by_symbol, known, shown

WHAT = "short interest"


class ShortInterestArguments(Arguments):
    symbols: Symbols


def short_interest(context: ToolContext, arguments: ShortInterestArguments) -> dict[str, Any]:
    """Return one row a symbol; one without a known settlement is in `missing`."""
    gaps, now = Gaps(), context.clock.now()
    found = []
    for symbol, rows in by_symbol(context, arguments.symbols, WHAT, gaps, lambda symbol: _ask(context.market, symbol)):
        latest = max(known(rows, now), key=lambda row: (row.date, row.known_at), default=None)
        if latest is None:
            gaps.add(WHAT, "the source has none", symbol)
            continue
        age = (exchange_day(now) - latest.date).days
        found.append({"symbol": symbol, **shown(latest), "change": _change(latest), "ageDays": age})
    return payload(context, gaps, available=bool(found), shortInterest=found)


def _ask(market: MarketData, symbol: str) -> list[ShortInterest]:
    if not isinstance(market, ShortInterestSource):
        raise absent(market, WHAT)
    return list(market.short_interest(symbol))


def _change(row: ShortInterest) -> float | None:
    """Return shares short / those at the settlement before - 1."""
    return rounded(row.shares_short / row.prior_shares_short - 1) if row.prior_shares_short else None


SHORT_INTEREST = ToolSpec(
    name="short_interest",
    description=(
        "Shares sold short of up to 150 symbols at the last known settlement `date`, `ageDays` ago: sharesShort, ratio "
        "(days to cover), ofFloat and ofOutstanding (fractions), change since the settlement before. Published twice a "
        "month with a delay of some ten days."
    ),
    hint="shares sold short, days to cover, share of the float; `symbols`.",
    arguments=ShortInterestArguments,
    function=short_interest,
)
