"""insider_trades: what insiders of a company bought and sold, and the net of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from pydantic import Field

from chordesk.models.company import InsiderTrade
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import InsiderSource, MarketData
from chordesk.tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.research.rows import FewSymbols, absent, bounded, by_symbol, known, share, shown

WHAT = "insider trades"
_MOST_ROWS = 60


class InsiderArguments(Arguments):
    symbols: FewSymbols
    days: int = Field(90, ge=1, le=1000, description="window of `net`, by the day of the trade")
    limit: int = Field(10, ge=1, le=100, description="at most so many trades a symbol, newest first")


def insider_trades(context: ToolContext, arguments: InsiderArguments) -> dict[str, Any]:
    """Return trades and their net by symbol; a symbol without any is in `missing`."""
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_ROWS, arguments.symbols)
    found = []
    for symbol, rows in by_symbol(context, arguments.symbols, WHAT, gaps, lambda symbol: _ask(context.market, symbol)):
        trades = newest_first(rows, now)
        if not trades:
            gaps.add(WHAT, "the source has none", symbol)
            continue
        listed = [shown(row) for row in bounded(trades, most, WHAT, symbol, gaps)]
        found.append({"symbol": symbol, "net": net(trades, arguments.days, exchange_day(now)), "trades": listed})
    return payload(context, gaps, available=bool(found), insiders=found)


def _ask(market: MarketData, symbol: str) -> list[InsiderTrade]:
    if not isinstance(market, InsiderSource):
        raise absent(market, WHAT)
    return list(market.insider_trades(symbol))


def newest_first(rows: Sequence[InsiderTrade], now: dt.datetime) -> list[InsiderTrade]:
    """Return the trades that were known by now, of today or before."""
    today = exchange_day(now)
    return sorted((row for row in known(rows, now) if row.date <= today), key=lambda row: row.date, reverse=True)


def net(trades: Sequence[InsiderTrade], days: int, today: dt.date) -> dict[str, Any]:
    """Return counts, shares and value of the purchases and sales of the last so many days. A sum is None where one of
    its trades lacks the figure; `other` counts grants, gifts and whatever is neither."""
    first = today - dt.timedelta(days=days)
    recent = [row for row in trades if row.date > first]
    sides = {side: [row for row in recent if row.side == side] for side in ("buy", "sell")}
    found: dict[str, Any] = {"days": days, "from": (first + dt.timedelta(days=1)).isoformat()}
    for name, side in (("bought", "buy"), ("sold", "sell")):
        found |= {
            name: len(sides[side]),
            f"{name}Shares": _total([row.shares for row in sides[side]]),
            f"{name}Value": _total([row.value for row in sides[side]]),
        }
    for unit in ("Shares", "Value"):
        bought, sold = found[f"bought{unit}"], found[f"sold{unit}"]
        found[f"net{unit}"] = bought - sold if bought is not None and sold is not None else None
    return {**found, "other": sum(row.side is None for row in recent), "oldestKnown": trades[-1].date.isoformat()}


def _total(values: Sequence[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values, 0.0) if len(known_values) == len(values) else None


INSIDER_TRADES = ToolSpec(
    name="insider_trades",
    description=(
        "Trades that insiders of up to 30 symbols reported, newest first: date, insider, position, side (absent for "
        "grants, gifts and exercises), shares, value; and the net of purchases and sales over the last days, null "
        "where a figure is not known. Reports follow a trade by some days."
    ),
    hint="insiders' purchases and sales, and their net; `symbols`, `days` of the net, `limit` trades.",
    arguments=InsiderArguments,
    function=insider_trades,
)
