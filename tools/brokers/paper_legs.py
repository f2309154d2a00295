"""Orders with legs on paper: all legs fill at once, at the quotes of their contracts, or none does."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.market import Quote
from chordesk.models.orders import AccountView, BrokerFill, OrderTicket
from chordesk.models.settings import Settings
from chordesk.tools.brokers.paper_matching import Session
from chordesk.tools.brokers.paper_prices import label_of
from chordesk.tools.decimals import exact, money
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.quotes import met_by, quote_of
from chordesk.tools.risk import cover_of, free_cash, held_in, net_price

Match = tuple[str, str | None, list[BrokerFill]]  # state, message, fills


def match_legs(ticket: OrderTicket, account: AccountView, market: MarketData, settings: Settings) -> Match:
    """Fill all legs, each at its quote moved by the slippage, or none while the limit does not allow their net price.
    What cash or shares do not cover at its worst is rejected. account: with prices as far as the market has them."""
    try:
        quotes = {leg.contract: met_by(quote_of(market, leg.contract), leg.side) for leg in ticket.legs}
    except NotConfigured as error:
        return "rejected", str(error), []
    except MarketError as error:
        return "submitted", f"no price to fill at: {error}", []
    bps, fee = settings.slippage_bps, exact(settings.commission_per_share)
    prices = {leg.contract: _slipped(quotes[leg.contract], leg.side, bps) for leg in ticket.legs}
    net, limit = net_price(ticket.legs, prices, ticket.side), exact(ticket.limit_price or 0)
    if net > limit if ticket.side == "buy" else net < limit:
        return "submitted", f"net limit {money(limit)} not met by {money(net)}", []
    short = _shortfall(ticket, net, fee, account)
    if short is not None:
        return "rejected", short, []
    fills = [
        BrokerFill(
            symbol=traded,
            side=side,
            quantity=quantity,
            price=float(prices[traded]),
            commission=float(fee * exact(quantity)),
            at=quotes[traded].at,
        )
        for traded, side, quantity in ticket.parts
    ]
    return "filled", label_of(list(quotes.values())), fills


def _slipped(quote: Quote, side: str, basis_points: float) -> Decimal:
    return Session.of_quote(quote, None).slipped(exact(quote.price), side, basis_points)


def _shortfall(ticket: OrderTicket, net: Decimal, fee: Decimal, account: AccountView) -> str | None:
    """Return why the account cannot carry the legs at their worst; None when it can."""
    book = held_in(ticket.symbol, account.positions)
    before, after = cover_of(book), cover_of(_with_legs(ticket, book))
    if after.naked > before.naked:
        return "the legs would leave a written call without its 100 shares"
    paid = net * exact(ticket.quantity) * exact(ticket.multiplier) * (1 if ticket.side == "buy" else -1)
    need = paid + after.cash - before.cash + fee * exact(ticket.whole)
    free = free_cash(account)
    if need <= 0 or (free is not None and need <= free):
        return None
    return f"the legs need {money(need)} at worst, {'an unknown sum' if free is None else money(free)} is free"


def _with_legs(ticket: OrderTicket, book: Mapping[str, Decimal]) -> dict[str, Decimal]:
    after = dict(book)
    for traded, side, quantity in ticket.parts:
        after[traded] = after.get(traded, Decimal(0)) + (exact(quantity) if side == "buy" else -exact(quantity))
    return after
