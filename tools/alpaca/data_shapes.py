"""Conversion of Alpaca's option snapshots and contracts to the desk's. What Alpaca leaves out stays out.

Alpaca's Greeks are in the desk's own units, so none is converted: theta is for a calendar day, vega and rho for one
point of volatility and of the rate. Alpaca's reference does not state it; of its own example, AAPL240426C00162500 with
a volatility of .3372, Black-Scholes gives the theta, vega and rho in these units and no others (tests).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.models.contracts import ChainRow, Greeks, parse_contract

Row = dict[str, Any]


def rows_of(snapshots: Mapping[str, Any]) -> list[Row]:
    """Return a plain row of each contract by name, in that order."""
    return [row_of(name, snapshots[name]) for name in sorted(snapshots)]


def row_of(name: str, snapshot: Any) -> Row:
    """Return the quotes and figures of one contract; quoted, traded: when, as ISO text."""
    given = snapshot if isinstance(snapshot, Mapping) else {}
    quote, trade, bar, greeks = (_part(given, key) for key in ("latestQuote", "latestTrade", "dailyBar", "greeks"))
    bid, ask = _number(quote.get("bp")), _number(quote.get("ap"))
    if not ask:  # a side of zero is one without offers: a bid of zero is known to be so beside an ask alone
        bid, ask = bid or None, None
    return {
        "contract": name,
        "bid": bid,
        "ask": ask,
        "quoted": _text(quote.get("t")),
        "last": _number(trade.get("p")),
        "traded": _text(trade.get("t")),
        "volume": _number(bar.get("v")),
        "volumeOf": _text(bar.get("t")),
        "iv": _number(given.get("impliedVolatility")) or None,
        "greeks": {key: _number(greeks.get(key)) for key in Greeks._fields},
    }


def interest_of(contracts: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, str]]:
    """Return (open interest, its day) by contract, of those that state both."""
    found = {}
    for row in contracts:
        interest, day = _number(row.get("open_interest")), _text(row.get("open_interest_date"))
        if interest is not None and day is not None and row.get("symbol"):
            found[str(row["symbol"])] = (interest, day)
    return found


def chain_row(row: Row, interest: float | None, session: dt.date) -> ChainRow | None:
    """Return a contract of `rows_of`; None for a name that is no OCC symbol. session: the day of which its volume is
    the day's; that of another day is none."""
    contract = parse_contract(str(row["contract"]))
    if contract is None:
        return None
    known = row["greeks"]
    greeks = Greeks(**known) if row["iv"] is not None and None not in known.values() else None
    volume = row["volume"] if str(row["volumeOf"])[:10] == session.isoformat() else None
    return ChainRow(contract, row["bid"], row["ask"], row["last"], volume, interest, row["iv"], greeks)


def price_of(row: Row) -> tuple[float, str] | None:
    """Return (price per share, when): between bid and ask where there are both, else the last trade."""
    bid, ask, last = row["bid"], row["ask"], row["last"]
    if bid and ask and bid <= ask and row["quoted"]:
        return round((bid + ask) / 2, 4), row["quoted"]
    return (last, row["traded"]) if last and row["traded"] else None


def _part(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    part = given.get(key)
    return part if isinstance(part, Mapping) else {}


def _number(value: Any) -> float | None:
    """Return a finite number, which may come as text; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
