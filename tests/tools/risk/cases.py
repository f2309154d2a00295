"""Parts of a rule's cases: a code, what breaks its rule, and what is just inside."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.answers import Instrument
from chordesk.models.market import Quote
from chordesk.models.orders import DenialCode
from chordesk.models.text import NEW_YORK
from tests.tools.risk.figures import PUT, account, held

Changes = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # of the ticket, the context and the limits
Case = tuple[DenialCode, Changes, Changes]

SELL = {"action": "reduce", "side": "sell"}
SHORT = {"action": "open", "side": "sell"}
SELL_PUT = {
    "action": "open", "side": "sell", "quantity": 1, "contract": PUT, "multiplier": 100,
    "order_type": "limit", "limit_price": 2.0,
}  # fmt: skip
OPTION = {"instrument": Instrument.OPTION, "price": 2.0}
OPTIONS = {"stock_only": False, "options_mode": "both"}
SHORT_PUT = {**OPTION, "account": account(1e5, 1e5, held(PUT, -1, 2.0))}
FAR = {**OPTIONS, "max_symbol_share": 1, "max_symbol_notional": 1e9, "max_order_notional": 1e9}
SMALL = {"account": account(equity=10_000), "day_opening": 1e4, "high_water": 1e4}
SECOND = dt.timedelta(seconds=1)
TECH = {"AAA": "tech", "BBB": "tech", "CCC": "oil"}


def quoted(at: dt.datetime) -> dict[str, Any]:
    return {"quote": Quote(symbol="AAA", price=100.0, at=at, source="test")}


def stop_limit(stop: float, limit: float) -> dict[str, Any]:
    return {"order_type": "stop_limit", "stop_price": stop, "limit_price": limit}


def auction(time_in_force: str, clock: str, broker: str = "alpaca-paper", **changes: Any) -> Changes:
    """Changes of an order for an auction on 2010-08-12, at a New York time; the session is off before 9:30 and after
    16:00."""
    time = dt.time.fromisoformat(clock)
    now = dt.datetime.combine(dt.date(2010, 8, 12), time, NEW_YORK)
    is_open = dt.time(9, 30) <= time < dt.time(16)
    context = {"now": now, "verdict_at": now, "broker": broker, "market_open": is_open, **quoted(now), **changes}
    return {"time_in_force": time_in_force, "account": broker}, context, {}


def limit(price: float) -> dict[str, Any]:
    return {"order_type": "limit", "limit_price": price}
