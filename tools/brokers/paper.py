"""The paper broker: fills against the market's own prices, with slippage and commission."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Protocol, runtime_checkable
from zoneinfo import ZoneInfo

from models.errors import SettingError
from models.order_tables import Preview
from models.orders import AccountView, BrokerAnswer, BrokerFill, OrderTicket
from models.settings import Settings
from tools.decimals import exact, money, plain
from tools.market.protocol import FillSource, MarketClock, MarketData
from tools.risk import free_cash, opening_shares, slipped

EXCHANGE_TIME = ZoneInfo("America/New_York")


@runtime_checkable
class _GivesFills(FillSource, Protocol):
    """A market that also prices fills."""


class PaperBroker:
    """An order is the desk's own row, so one whose fill was not recorded can simply be asked about again.

    A market order fills whole at the fill price moved by the slippage against the order and rounded against it to
    0.0001. A limit order fills at that price if the limit allows it; if not it expires, because a day order meets no
    second price here. A buy that cash does not cover at the fill price is rejected, as a cash account would.
    """

    name = "paper"

    def __init__(self, fills: FillSource, clock: MarketClock, slippage_bps: float, commission_per_share: float) -> None:
        self._fills = fills
        self._clock = clock
        self._slippage_bps = slippage_bps
        self._commission = exact(commission_per_share)

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """Fill, reject or expire the order; `submitted` while the market has no further session."""
        now = self._clock.now()
        if _day(ticket.placed_at) != _day(now):
            return _answer(ticket, "expired", f"day order of {_day(ticket.placed_at)}; it is {_day(now)} now")
        quote = self._fills.fill_price(ticket.symbol)
        if quote is None:
            return _answer(ticket, "submitted", f"the market has no further session to fill {ticket.symbol} in")
        price = slipped(exact(quote.price), ticket.side, self._slippage_bps)
        if _beyond_limit(ticket, price):
            reason = f"limit {money(ticket.limit_price or 0)} not met by {money(price)} at {quote.at:%Y-%m-%d %H:%M %Z}"
            return _answer(ticket, "expired", f"{reason}; a day order meets no second price here")
        short = self._shortfall(ticket, price, account)
        if short is not None:
            return _answer(ticket, "rejected", short)
        commission = float(self._commission * exact(ticket.quantity))
        fill = BrokerFill(quantity=ticket.quantity, price=float(price), commission=commission, at=quote.at)
        return _answer(ticket, "filled", None, fill)

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        """The same question again: nothing is kept outside the order's row, and the answer is a function of it."""
        return self.submit(ticket, preview, account)

    def _shortfall(self, ticket: OrderTicket, price: Decimal, account: AccountView) -> str | None:
        held = sum((exact(row.quantity) for row in account.positions if row.symbol == ticket.symbol), Decimal(0))
        opening = opening_shares(held, ticket.side, exact(ticket.quantity))
        if not opening:
            return None
        need, free = opening * (price + self._commission), free_cash(account)
        if free is None:
            return "free cash is not known: a short position has no price"
        if need <= free:
            return None
        return f"{plain(opening)} {ticket.symbol} at {money(price)} need {money(need)}, {money(free)} is free"


def _beyond_limit(ticket: OrderTicket, price: Decimal) -> bool:
    if ticket.order_type != "limit" or ticket.limit_price is None:
        return False
    limit = exact(ticket.limit_price)
    return price > limit if ticket.side == "buy" else price < limit


def _day(moment: dt.datetime) -> dt.date:
    return moment.astimezone(EXCHANGE_TIME).date()


def _answer(ticket: OrderTicket, status: str, message: str | None, *fills: BrokerFill) -> BrokerAnswer:
    return BrokerAnswer.model_validate(
        {"status": status, "broker_order_id": f"paper-{ticket.order_id}", "fills": fills, "message": message}
    )


def build_broker(settings: Settings, market: MarketData) -> PaperBroker:
    """The broker that the settings name. Raises SettingError when the market prices no fills."""
    if not isinstance(market, _GivesFills):
        raise SettingError(f"the market {market.name!r} prices no fills, and the {settings.broker} broker needs them")
    return PaperBroker(market, market.clock, settings.slippage_bps, settings.commission_per_share)
