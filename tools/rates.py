"""Rates of orders that are not priced in the account's currency, that of a preview, and that of an exit, which does not
wait for one of today; and what duties come to in it."""

from __future__ import annotations

import datetime as dt
from decimal import ROUND_HALF_UP, Context, Decimal

from sqlmodel import Session

from chordesk.models.duties import duties_due
from chordesk.models.errors import MarketError
from chordesk.models.money import Duty, FxRate, Money
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Position, Preview
from chordesk.tools.decimals import exact
from chordesk.tools.market.fx import Converting, kind_of, listed_in, rate_into
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.risk.exposure import round_trip

_DIGITS = Context(prec=10)  # as of a rate that is crossed
OF_COST = "cost of the position"


def preview_rate(found: Preview, base: str) -> FxRate | None:
    """Return the rate that a preview was made with, None where its price is in the account's currency. base: that."""
    if found.currency is None or found.rate is None or found.rate_at is None:
        return None
    return FxRate(found.currency, base, found.rate, found.rate_at, found.rate_source or "")


def rate_fields(fx: FxRate) -> dict[str, object]:
    """Return the rate of a fill or a leg as its fields."""
    return {"currency": fx.currency, "rate": fx.rate, "rate_at": fx.at, "rate_source": fx.source}


def cost_rate(currency: str, base: str, average: Decimal, cost_base: Decimal, at: dt.datetime) -> FxRate | None:
    """Return the rate that a position was bought at; None where it cost nothing."""
    if not average or not cost_base:
        return None
    return FxRate(currency, base, float(_DIGITS.divide(cost_base, average)), at, OF_COST)


def cost_to_trade(market: MarketData, symbol: str, price: float | None, settings: Settings) -> float:
    """Return what buying a share and selling it again costs as a share of its price, see `round_trip`. price: as the
    listing has it; without a rate into the account's currency the commission is not counted."""
    money = Money(settings.currency, dt.timedelta(days=settings.max_fx_age))
    if price is not None and settings.commission_per_share and (currency := listed_in(market, symbol)) != money.base:
        try:
            price *= rate_into(market, currency, money).rate
        except MarketError:
            price = None
    return round_trip(symbol, price, settings, kind_of(market, symbol))


_CENT = Decimal("0.01")


def duties_of(
    symbol: str, kind: str, side: str, before: Decimal, after: Decimal, fx: FxRate | None
) -> tuple[Duty, ...]:
    """Return the duties that a fill adds to its order, in the account's currency and to its cent. before, after: what
    the order has moved without and with it, in the listing's currency; fx: the rate of that."""
    rate = Decimal(1) if fx is None else exact(fx.rate)
    due = duties_due(symbol, kind, side, before, after)
    found = ((name, (amount * rate).quantize(_CENT, ROUND_HALF_UP)) for name, amount in due)
    return tuple(Duty(name, float(amount)) for name, amount in found if amount)


def exit_rate(session: Session, account: str, symbol: str, base: str, rates: Converting | None = None) -> FxRate | None:
    """Return the rate at which a position is given back, None where it is in the account's currency: that of now, else
    the newest, however old, else the one that it was bought at. rates: read beforehand; without them the last alone."""
    held = session.get(Position, (account, symbol))
    if held is None or held.currency in (None, base):
        return None
    if rates is not None and rates.money.base == base:
        try:
            return rates.rate(held.currency)
        except MarketError:
            if (newest := rates.newest(held.currency)) is not None:
                return newest
    if held.cost_base is None:
        return None
    return cost_rate(held.currency, base, exact(held.average_cost), exact(held.cost_base), held.filled_at)
