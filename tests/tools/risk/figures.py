"""A ticket, a context and limits that clear: 10 shares of AAA at 100 for an account of 100,000."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from chordesk.models.answers import Instrument, Rating
from chordesk.models.market import Quote
from chordesk.models.orders import AccountView, DenialCode, HeldPosition, OrderTicket, Reservation, RiskContext
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState

NOW = dt.datetime(2010, 8, 12, 19, 55, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
PUT = "AAA100918P00090000"  # strike 90, so that its assignment costs 9,000
CALL = "AAA100918C00090000"

# As the defaults, but for what would hide the limit that a test is about.
OPEN_HANDED = {"allow_short": False, "cooldown_hours": 24, "slippage_bps": 0, "commission_per_share": 0}


def ticket(**changes: Any) -> OrderTicket:
    base = {
        "order_id": uuid.UUID(int=1),
        "account": "paper",
        "symbol": "AAA",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": NOW,
        "order_type": "market",
    }
    return OrderTicket.model_validate({**base, **changes})


def limits(**changes: Any) -> Settings:
    return Settings().model_copy(update={**OPEN_HANDED, **changes})


def held(symbol: str, quantity: float, price: float | None = 100.0) -> HeldPosition:
    at = NOW if price is not None else None
    return HeldPosition(symbol=symbol, quantity=quantity, average_cost=1, priced_at=at, market_price=price)


def account(cash: float = 100_000, equity: float | None = 100_000, *more: HeldPosition, **shares: float) -> AccountView:
    positions = [held(symbol, quantity) for symbol, quantity in shares.items()]
    return AccountView(account="paper", cash=cash, equity=equity, positions=[*positions, *more])


def reserve(quantity: float, side: str = "buy", traded: str = "AAA", **changes: Any) -> Reservation:
    """Reserve shares at 100 for another order."""
    money = 0.0 if side == "sell" else quantity * 100
    base = {"traded": traded, "symbol": traded, "side": side, "quantity": quantity, "exposure": money, "cash": money}
    return Reservation.model_validate({**base, **changes})


# Rules of features that go by more have nothing to judge by.
NO_FACTS = {code: None for code, one in DenialCode.of_features().items() if one.facts}


def context(price: float = 100.0, **changes: Any) -> RiskContext:
    base = {
        "now": NOW,
        "trading": TradingState.ACTIVE,
        "market_open": True,
        "next_open": None,
        "providers": ("endpoint",),
        "markets": ("yahoo",),
        "broker": "paper",
        "rating": Rating.BUY,
        "verdict_at": NOW,
        "instrument": Instrument.EQUITY,
        "listed": True,
        "quote": Quote(symbol="AAA", price=price, at=NOW, source="test"),
        "account": account(),
        "day_opening": 100_000,
        "high_water": 100_000,
        "recent_orders": 0,
        "orders_today": 0,
        "rejections": 0,
        "across_earnings": True,
        "facts": NO_FACTS,
    }
    return RiskContext.model_validate({**base, **changes})
