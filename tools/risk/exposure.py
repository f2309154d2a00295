"""Exposure and cash of orders and positions, in account currency.

A share counts at its price, a short put at the cost of its assignment (strike x 100), any other option at its premium.
Cash is counted as in a cash account: the cost of a buy with slippage and commission must be free, sells that are not
filled fund nothing, a short sale is secured in full (its proceeds and as much again are held back), and a short put
holds back its strike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import wraps

from models.contracts import multiplier_of, parse_contract
from models.orders import AccountView, Denied, HeldPosition, OrderTicket, RiskContext, RiskLimits
from tools.decimals import exact

TICK = Decimal("0.0001")
ZERO = Decimal(0)

Rule = Callable[[OrderTicket, RiskContext, RiskLimits], Denied | None]


def opening_part(held: Decimal, side: str, quantity: Decimal) -> Decimal:
    """Return the part of an order that takes on exposure; the rest gives back what is held (negative when short)."""
    against = -held if side == "buy" else held
    return quantity - min(quantity, max(against, ZERO))


def with_slippage(price: Decimal, side: str, basis_points: float) -> Decimal:
    """Return a price moved by the slippage against the order, and rounded against it to 0.0001."""
    shift = exact(basis_points) / 10_000
    if side == "buy":
        return (price * (1 + shift)).quantize(TICK, ROUND_CEILING)
    return max(TICK, (price * (1 - shift)).quantize(TICK, ROUND_FLOOR))


def unit_exposure(traded: str, side: str, price: Decimal) -> Decimal:
    """Return the exposure of one share or contract that is bought, or sold short, at a price per share."""
    contract = parse_contract(traded)
    if contract is not None and contract.kind == "put" and side == "sell":
        return contract.strike * exact(multiplier_of(traded))
    return price * exact(multiplier_of(traded))


def cash_needed(traded: str, side: str, quantity: Decimal, price: Decimal, limits: RiskLimits) -> Decimal:
    """Return the cash that opening so many shares or contracts may need, slippage and commission included."""
    commission = exact(limits.commission_per_share)
    contract = parse_contract(traded)
    if contract is not None and side == "sell":
        return quantity * (unit_exposure(traded, side, price) + commission)
    return quantity * (with_slippage(price, "buy", limits.slippage_bps) * exact(multiplier_of(traded)) + commission)


def free_cash(account: AccountView) -> Decimal | None:
    """Return cash that nothing is held against. None when a short position cannot be secured with a known sum: one
    of shares without a price, or a call."""
    free = exact(account.cash)
    for position in account.positions:
        if position.quantity >= 0:
            continue
        secured = _secured(position)
        if secured is None:
            return None
        free -= secured
    return free


def _secured(position: HeldPosition) -> Decimal | None:
    contract = parse_contract(position.symbol)
    if contract is not None:
        strike = contract.strike * exact(multiplier_of(position.symbol))
        return -exact(position.quantity) * strike if contract.kind == "put" else None
    if position.market_price is None:
        return None
    return -2 * exact(position.quantity) * exact(position.market_price)


def underlying_of(traded: str) -> str:
    contract = parse_contract(traded)
    return contract.underlying if contract else traded


def price_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the higher of the last quote and the limit price, per share."""
    return exact(max(context.quote.price, ticket.limit_price or 0.0))


def assumed_position(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the position this order starts from, if all reservations on its own side fill and none on the other."""
    held = (exact(position.quantity) for position in context.account.positions if position.symbol == ticket.traded)
    reserved = (
        exact(reservation.quantity)
        for reservation in context.reservations
        if (reservation.traded, reservation.side) == (ticket.traded, ticket.side)
    )
    return sum(held, ZERO) + sum(reserved, ZERO) * (1 if ticket.side == "buy" else -1)


def opening_quantity(ticket: OrderTicket, context: RiskContext) -> Decimal:
    return opening_part(assumed_position(ticket, context), ticket.side, exact(ticket.quantity))


def opening_only(rule: Rule) -> Rule:
    """Return the rule for orders that take on exposure; a position may always be given back."""

    @wraps(rule)
    def applied(ticket: OrderTicket, context: RiskContext, limits: RiskLimits) -> Denied | None:
        return rule(ticket, context, limits) if opening_quantity(ticket, context) else None

    return applied


def notional_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the larger of the stated amount of money and of quantity x unit exposure."""
    side = ticket.side if opening_quantity(ticket, context) else "buy"
    computed = exact(ticket.quantity) * unit_exposure(ticket.traded, side, price_of(ticket, context))
    return max(computed, exact(context.stated_notional or 0))


def exposures(ticket: OrderTicket, context: RiskContext) -> Mapping[str, Decimal] | None:
    """Return exposure by underlying once this order and all reservations are filled; None when a position has no
    price."""
    found: dict[str, Decimal] = {}
    for position in context.account.positions:
        if position.symbol != ticket.traded:
            worth = _worth(position)
            if worth is None:
                return None
            _add(found, position.symbol, worth)
    for reservation in context.reservations:
        if reservation.traded != ticket.traded:
            _add(found, reservation.symbol, exact(reservation.exposure))
    price = price_of(ticket, context)
    after = assumed_position(ticket, context) + exact(ticket.quantity) * (1 if ticket.side == "buy" else -1)
    computed = exact(ticket.quantity) * unit_exposure(ticket.traded, ticket.side, price)
    stated = max(exact(context.stated_notional or 0) - computed, ZERO)
    own = abs(after) * unit_exposure(ticket.traded, "buy" if after >= 0 else "sell", price)
    _add(found, ticket.symbol, own + stated)
    return found


def _worth(position: HeldPosition) -> Decimal | None:
    contract = parse_contract(position.symbol)
    written_put = contract is not None and contract.kind == "put" and position.quantity < 0
    if position.market_price is None and not written_put:
        return None
    side = "buy" if position.quantity >= 0 else "sell"
    return abs(exact(position.quantity)) * unit_exposure(position.symbol, side, exact(position.market_price or 0))


def _add(found: dict[str, Decimal], traded: str, amount: Decimal) -> None:
    symbol = underlying_of(traded)
    found[symbol] = found.get(symbol, ZERO) + amount
