"""Orders with legs: the net price of one unit, and the money that they can come to at worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from chordesk.models.contracts import parse_contract
from chordesk.models.market import Quote
from chordesk.models.trading.legs import OrderLeg
from chordesk.tools.decimals import exact
from chordesk.tools.risk.cover import UNIT, ZERO, cover_of


def net_price(legs: Sequence[OrderLeg], prices: Mapping[str, Decimal], side: str) -> Decimal:
    """Return what one unit costs (side buy) or brings (side sell) per share at these prices; negative for the
    opposite."""
    cost = sum((prices[leg.contract] * leg.signed for leg in legs), ZERO)
    return cost if side == "buy" else -cost


def gross_quote(symbol: str, legs: Sequence[OrderLeg], quotes: Mapping[str, Quote]) -> Quote:
    """Return the sum of the legs' last prices for one unit, per share, as of the oldest of them: a net price can be any
    small part of it, so its collar is measured against this."""
    found = [(leg, quotes[leg.contract]) for leg in legs]
    price = sum((exact(quote.price) * leg.ratio for leg, quote in found), ZERO)
    oldest = min(quote.at for _, quote in found)
    return Quote(symbol=symbol, price=float(price), at=oldest, source=found[0][1].source)


def worst_case(legs: Sequence[OrderLeg], side: str, quantity: Decimal, price: Decimal) -> Decimal:
    """Return the money that so many units at a net price can come to at worst, in account currency: what they cost, and
    what their written options may need beside the bought ones. A written call without cover counts its strike x 100,
    at which the shares that must cover it are sold. Positions do not count."""
    needs = cover_of({leg.contract: leg.signed * quantity for leg in legs})
    contracts = [parse_contract(leg.contract) for leg in legs if leg.side == "sell"]
    strikes = max((found.strike for found in contracts if found and found.kind == "call"), default=ZERO)
    paid = quantity * price * UNIT if side == "buy" else ZERO
    return needs.cash + needs.naked * strikes * UNIT + paid
