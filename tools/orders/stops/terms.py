"""The stop that a rule asks for: its side, size and prices. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import numpy as np

from chordesk.models.errors import MarketError
from chordesk.models.tables.orders import Order
from chordesk.models.trading.protection import Protection, parse_protection
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData

CENT, TICK = Decimal("0.01"), Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class ProtectiveStop:
    """A protective order as it should be: it closes `quantity` shares of `symbol`.

    reference: price that the percentage is measured from; trail_percent is None for a stop that stays where it is.
    """

    symbol: str
    side: str
    quantity: Decimal
    stop_price: Decimal
    reference: Decimal
    trail_percent: float | None

    @property
    def order_type(self) -> str:
        return "stop" if self.trail_percent is None else "trailing_stop"

    def raised(self, stop: Decimal) -> ProtectiveStop:
        """Return the stop at this price, unless its own is closer to the market."""
        closer = max(stop, self.stop_price) if self.side == "sell" else min(stop, self.stop_price)
        return replace(self, stop_price=closer)

    def is_that_of(self, order: Order, left: Decimal) -> bool:
        """Return whether a working order, of which so much is not filled yet, is this one. A trail has moved since it
        was placed: only its percentage counts."""
        same = (order.side, order.order_type, left) == (self.side, self.order_type, self.quantity)
        if not same or self.trail_percent is not None:
            return same and order.trail_percent == self.trail_percent
        return exact(order.stop_price or 0) == self.stop_price


def stop_for(rule: Protection, symbol: str, held: Decimal, free: Decimal, cost: Decimal) -> ProtectiveStop:
    """Return the stop for so many free shares of a position (held: negative when short) at its average cost."""
    side = "sell" if held > 0 else "buy"
    trail = rule.percent if rule.kind == "trail" else None
    return ProtectiveStop(symbol, side, free, stop_price(rule.percent, side, cost), cost, trail)


def stop_price(percent: float, side: str, reference: Decimal) -> Decimal:
    """Return a price so far from the reference, in whole cents (below 1, in 0.0001), never further away."""
    share = exact(percent) / 100
    price = reference * (1 - share if side == "sell" else 1 + share)
    step = CENT if price >= 1 else TICK
    return max(TICK, price.quantize(step, ROUND_CEILING if side == "sell" else ROUND_FLOOR))


def trailed(market: MarketData, order: Order) -> Decimal:
    """Return where an earlier trailing stop stands after the sessions since it was placed, as far as the market has
    bars of them; it never falls back."""
    started, share = exact(order.stop_price or 0), exact(order.trail_percent or 0) / 100
    placed = exchange_day(order.market_at)
    try:
        bars = market.bars(order.symbol, (market.clock.now() - order.market_at).days + 2)
    except MarketError:
        return started
    high, low = np.fmax(bars.high, bars.close), np.fmin(bars.low, bars.close)  # a market may have closes alone
    later = [place for place, day in enumerate(bars.dates) if day > placed]
    if order.side == "sell":
        best = max((exact(float(high[place])) * (1 - share) for place in later), default=started)
        return max(started, best)
    return min(started, min((exact(float(low[place])) * (1 + share) for place in later), default=started))


def preview_of(rule: str, action: str, side: str, quantity: Decimal, price: Decimal) -> Mapping[str, Any] | None:
    """Return the protective order that a fill of an opening order at this price would get, for its preview; None where
    it would get none."""
    found = parse_protection(rule)
    if found is None or action not in ("open", "add"):
        return None
    stop = stop_for(found, "", quantity if side == "buy" else -quantity, quantity, price)
    trail = None if stop.trail_percent is None else plain(stop.trail_percent)
    return {
        "orderType": stop.order_type,
        "quantity": plain(quantity),
        "rule": rule,
        "side": stop.side,
        "stopPrice": plain(stop.stop_price),
        "timeInForce": "gtc",
        "trailPercent": trail,
    }


def preview_text(payload: str) -> str | None:
    """Return the protective order that a preview's payload names, as text; None where it names none."""
    try:
        found = json.loads(payload)["protection"]
    except (ValueError, TypeError, KeyError):
        return None  # altered text, or one of an older version
    if not found:
        return None
    start = "stop" if found["trailPercent"] is None else f"stop that trails by {found['trailPercent']} % from"
    return f"{found['side']} {found['quantity']}, {start} {money(float(found['stopPrice']))}, {found['timeInForce']}"
