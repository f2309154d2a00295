"""What an order or a position puts at stake, in account currency.

A share counts at its price, a short put at what its assignment costs (strike x 100), any other option at its premium.
Cash is counted as a cash account does: what a buy may cost with slippage and commission must be free, sells that are
not filled fund nothing, a short sale is secured in full (its proceeds and as much again are held back), and a short put
holds back its strike.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from models.contracts import multiplier_of, parse_contract
from models.orders import AccountView, HeldPosition, OrderTicket, RiskContext, RiskLimits
from tools.decimals import exact

TICK = Decimal("0.0001")
ZERO = Decimal(0)


def opening_shares(held: Decimal, side: str, quantity: Decimal) -> Decimal:
    """The part of an order that takes on exposure; the rest gives back what is held (negative when short)."""
    against = -held if side == "buy" else held
    return quantity - min(quantity, max(against, ZERO))


def slipped(price: Decimal, side: str, basis_points: float) -> Decimal:
    """A price moved by the slippage against the order, and rounded against it to 0.0001."""
    shift = exact(basis_points) / 10_000
    if side == "buy":
        return (price * (1 + shift)).quantize(TICK, ROUND_CEILING)
    return max(TICK, (price * (1 - shift)).quantize(TICK, ROUND_FLOOR))


def at_stake(traded: str, side: str, price: Decimal) -> Decimal:
    """What one share or contract puts at stake when it is bought, or sold short, at a price per share."""
    contract = parse_contract(traded)
    if contract is not None and contract.kind == "put" and side == "sell":
        return contract.strike * exact(multiplier_of(traded))
    return price * exact(multiplier_of(traded))


def cash_needed(traded: str, side: str, quantity: Decimal, price: Decimal, limits: RiskLimits) -> Decimal:
    """Cash that taking on so many shares or contracts may need, slippage and commission included."""
    commission = exact(limits.commission_per_share)
    contract = parse_contract(traded)
    if contract is not None and side == "sell":
        return quantity * (at_stake(traded, side, price) + commission)
    return quantity * (slipped(price, "buy", limits.slippage_bps) * exact(multiplier_of(traded)) + commission)


def free_cash(account: AccountView) -> Decimal | None:
    """Cash that nothing is held against. None when a short position cannot be secured with a known sum: one of shares
    without a price, or a call."""
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
    """Per share: the higher of the last quote and the limit price."""
    return exact(max(context.quote.price, ticket.limit_price or 0.0))


def base_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """What this order starts from, if all that is pledged on its own side fills and nothing on the other."""
    held = (exact(position.quantity) for position in context.account.positions if position.symbol == ticket.traded)
    pledged = (
        exact(pledge.quantity)
        for pledge in context.pledges
        if (pledge.traded, pledge.side) == (ticket.traded, ticket.side)
    )
    return sum(held, ZERO) + sum(pledged, ZERO) * (1 if ticket.side == "buy" else -1)


def opening_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    return opening_shares(base_of(ticket, context), ticket.side, exact(ticket.quantity))


def notional_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """The larger of what was stated in money and of quantity x what one of them puts at stake."""
    side = ticket.side if opening_of(ticket, context) else "buy"
    computed = exact(ticket.quantity) * at_stake(ticket.traded, side, price_of(ticket, context))
    return max(computed, exact(context.stated_notional or 0))


def exposures(ticket: OrderTicket, context: RiskContext) -> Mapping[str, Decimal] | None:
    """By underlying, what is at stake once this order and all that is pledged are filled; None when a position has no
    price."""
    found: dict[str, Decimal] = {}
    for position in context.account.positions:
        if position.symbol != ticket.traded:
            worth = _worth(position)
            if worth is None:
                return None
            _add(found, position.symbol, worth)
    for pledge in context.pledges:
        if pledge.traded != ticket.traded:
            _add(found, pledge.symbol, exact(pledge.exposure))
    price = price_of(ticket, context)
    after = base_of(ticket, context) + exact(ticket.quantity) * (1 if ticket.side == "buy" else -1)
    computed = exact(ticket.quantity) * at_stake(ticket.traded, ticket.side, price)
    stated = max(exact(context.stated_notional or 0) - computed, ZERO)
    own = abs(after) * at_stake(ticket.traded, "buy" if after >= 0 else "sell", price)
    _add(found, ticket.symbol, own + stated)
    return found


def _worth(position: HeldPosition) -> Decimal | None:
    contract = parse_contract(position.symbol)
    known = position.market_price is not None or (
        contract is not None and contract.kind == "put" and position.quantity < 0
    )
    if not known:
        return None
    side = "buy" if position.quantity >= 0 else "sell"
    return abs(exact(position.quantity)) * at_stake(position.symbol, side, exact(position.market_price or 0))


def _add(found: dict[str, Decimal], traded: str, amount: Decimal) -> None:
    symbol = underlying_of(traded)
    found[symbol] = found.get(symbol, ZERO) + amount
