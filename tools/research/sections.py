"""Sections of a company's overview: those that the market gives, sums of rows of the company, and figures of prices."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from chordesk.models.company import Holder
from chordesk.models.errors import MarketError
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import HolderSource, InsiderSource
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.research.insiders import net, newest_first
from chordesk.tools.research.rows import absent, known, plain_text
from chordesk.tools.signals import signal_rows
from chordesk.tools.technicals import technical_rows

Section = Literal[
    "fundamentals",
    "earnings",
    "ratings",
    "options",
    "technicals",
    "signals",
    "insiders",
    "hedgeFunds",
    "summaryMarkdown",
]
SectionData = dict[str, float | str | None]
INSIDER_DAYS = 180
_OF_PRICES: Mapping[str, Callable[[ToolContext, Sequence[str], Gaps], list[dict[str, Any]]]] = {
    "signals": signal_rows,
    "technicals": technical_rows,
}


def price_sections(
    context: ToolContext, symbols: Sequence[str], sections: Sequence[str], gaps: Gaps
) -> dict[str, dict[str, SectionData]]:
    """Return those of the sections that are figures of prices, by section and symbol: all symbols at once."""
    return {
        section: {row["symbol"]: _without_symbol(row) for row in _OF_PRICES[section](context, symbols, gaps)}
        for section in sections
        if section in _OF_PRICES
    }


def _without_symbol(row: Mapping[str, Any]) -> SectionData:
    return {name: value for name, value in row.items() if name != "symbol"}


def company_section(context: ToolContext, symbol: str, section: str) -> SectionData:
    """Return one section that is no figure of prices. Raises NotConfigured where the market does not carry it,
    MarketError where it has none of the symbol."""
    if section == "insiders":
        return _insiders(context, symbol)
    if section == "hedgeFunds":
        return _institutions(context, symbol)
    return context.market.section(symbol, section)


def _insiders(context: ToolContext, symbol: str) -> SectionData:
    market, now = context.market, context.clock.now()
    if not isinstance(market, InsiderSource):
        raise absent(market, "insider trades")
    trades = newest_first(market.insider_trades(symbol), now)
    if not trades:
        raise MarketError(f"the source has no insider trades of {symbol}")
    newest = {"newest": trades[0].date.isoformat(), "knownAt": max(row.known_at for row in trades).isoformat()}
    return {**net(trades, INSIDER_DAYS, exchange_day(now)), **newest}


def _institutions(context: ToolContext, symbol: str) -> SectionData:
    """Return what the listed institutional holders come to. No source lists hedge funds apart from the others."""
    market, now = context.market, context.clock.now()
    if not isinstance(market, HolderSource):
        raise absent(market, "institutional holders")
    holders = known(market.holders(symbol), now)
    if not holders:
        raise MarketError(f"the source has no institutional holders of {symbol}")
    newest = max(row.date for row in holders)
    return {
        **_sums(holders),
        "reportedFor": newest.isoformat(),
        "knownAt": max(row.known_at for row in holders).isoformat(),
        "kind": "institutions that report their holdings, hedge funds among them",
    }


def _sums(holders: Sequence[Holder]) -> SectionData:
    """Return counts and shares of the holders: fractions of the shares outstanding, None where one lacks its own."""
    shares = [row.of_outstanding for row in holders]
    given = [share for share in shares if share is not None]
    largest = max(holders, key=lambda row: row.of_outstanding or 0)
    return {
        "listed": len(holders),
        "ofOutstanding": rounded(sum(given)) if len(given) == len(shares) else None,
        "largest": plain_text(largest.holder),
        "largestOfOutstanding": largest.of_outstanding,
        "increased": sum((row.change or 0) > 0 for row in holders),
        "decreased": sum((row.change or 0) < 0 for row in holders),
    }
