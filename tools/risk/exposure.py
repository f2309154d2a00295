"""Exposure and cash of orders and positions, in account currency: cover of written options, orders with legs.

What is priced in another currency is turned into the account's where it is added up: prices, strikes and covers are in
the listing's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import wraps

from chordesk.models.duties import duty_share
from chordesk.models.exchanges import PriceSteps
from chordesk.models.market import SHARES_PER_CONTRACT, OptionContract, OrderLeg, Quote, multiplier_of, parse_contract
from chordesk.models.money import FxRate
from chordesk.models.orders import (
    AccountView,
    Denied,
    HeldPosition,
    OrderTicket,
    Reservation,
    RiskContext,
)
from chordesk.models.settings import Settings
from chordesk.tools.decimals import exact, stepped
from chordesk.tools.market.price_steps import fill_step, finest_step

# Cover of written options: the shares and bought options that stand against them, and the cash that the rest may
# need.
#
# Whatever the pairing, its sum is an upper bound of what the positions can come to, so pairs are taken greedily: of two
# contracts that could cover, the one that costs less.

ZERO = Decimal(0)
UNIT = exact(SHARES_PER_CONTRACT)
Quantities = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class Cover:
    """The needs of written options."""

    cash: Decimal = ZERO  # in the contracts' currency, what their assignment may cost at worst
    shares: Decimal = ZERO  # those that stand against written calls
    naked: Decimal = ZERO  # written calls without any cover

    def needs_more_than(self, other: Cover) -> bool:
        return self.cash > other.cash or self.naked > other.naked


def cover_of(quantities: Quantities) -> Cover:
    """Return the needs of positions in one underlying: signed quantities of its shares and of contracts on it. A
    written put needs its strike in cash, or the distance to the strike of a bought put that lives as long; a written
    call needs 100 shares, or a bought call that lives as long and the distance to its strike."""
    found = [(parse_contract(name), quantity) for name, quantity in quantities.items()]
    options = [(contract, quantity) for contract, quantity in found if contract is not None and quantity]
    shares = max(sum((quantity for contract, quantity in found if contract is None), ZERO), ZERO)
    puts, uncovered = _paired(options, "put")
    calls, left = _paired(options, "call", free_only=True)
    bound = min(sum(left.values(), ZERO) * UNIT, shares - shares % UNIT)
    left = _less(left, bound / UNIT)
    dearer, naked = _paired([*_rest(options, calls), *((one, -count) for one, count in left.items())], "call")
    strikes = sum((contract.strike * UNIT * count for contract, count in uncovered.items()), ZERO)
    return Cover(_cost(puts) + strikes + _cost(dearer), bound, sum(naked.values(), ZERO))


Pair = tuple[OptionContract, OptionContract, Decimal]  # written, bought, contracts
Options = Iterable[tuple[OptionContract, Decimal]]


def _distance(written: OptionContract, bought: OptionContract) -> Decimal:
    """Return what a pair may come to at worst, per share."""
    apart = written.strike - bought.strike if written.kind == "put" else bought.strike - written.strike
    return max(apart, ZERO)


def _paired(options: Options, kind: str, free_only: bool = False) -> tuple[list[Pair], dict[OptionContract, Decimal]]:
    """Pairs of written and bought contracts, and unpaired written ones. free_only: pairs that can come to nothing."""
    rows = [(one, count) for one, count in options if one.kind == kind]
    bought = {one: count for one, count in rows if count > 0}
    written = sorted(((one, -count) for one, count in rows if count < 0), key=lambda row: row[0].expiry, reverse=True)
    pairs: list[Pair] = []
    left: dict[OptionContract, Decimal] = {}
    for one, count in written:
        for other in sorted(bought, key=lambda other: (_distance(one, other), other.expiry)):
            fits = other.expiry >= one.expiry and not (free_only and _distance(one, other))
            taken = min(count, bought[other]) if fits else ZERO
            if taken:
                pairs.append((one, other, taken))
                bought[other] -= taken
                count -= taken
        if count:
            left[one] = left.get(one, ZERO) + count
    return pairs, left


def _cost(pairs: Iterable[Pair]) -> Decimal:
    return sum((_distance(one, other) * UNIT * count for one, other, count in pairs), ZERO)


def _rest(options: Options, pairs: Iterable[Pair]) -> Options:
    """Return the bought contracts that stand in no pair."""
    used: dict[OptionContract, Decimal] = {}
    for _, other, count in pairs:
        used[other] = used.get(other, ZERO) + count
    return [(one, count - used.get(one, ZERO)) for one, count in options if count > 0]


def _less(left: Mapping[OptionContract, Decimal], covered: Decimal) -> dict[OptionContract, Decimal]:
    """Written calls less those that shares cover, the lowest strikes first: they cost most to cover otherwise."""
    found: dict[OptionContract, Decimal] = {}
    for one in sorted(left, key=lambda one: one.strike):
        taken = min(left[one], covered)
        covered -= taken
        if left[one] > taken:
            found[one] = left[one] - taken
    return found


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
    """Return the money that so many units at a net price can come to at worst, in their currency: what they cost, and
    what their written options may need beside the bought ones. A written call without cover counts its strike x 100,
    at which the shares that must cover it are sold. Positions do not count."""
    needs = cover_of({leg.contract: leg.signed * quantity for leg in legs})
    contracts = [parse_contract(leg.contract) for leg in legs if leg.side == "sell"]
    strikes = max((found.strike for found in contracts if found and found.kind == "call"), default=ZERO)
    paid = quantity * price * UNIT if side == "buy" else ZERO
    return needs.cash + needs.naked * strikes * UNIT + paid


Rule = Callable[[OrderTicket, RiskContext, Settings], Denied | None]


def opening_part(held: Decimal, side: str, quantity: Decimal) -> Decimal:
    """Return the part of an order that takes on exposure; the rest gives back what is held (negative when short)."""
    against = -held if side == "buy" else held
    return quantity - min(quantity, max(against, ZERO))


def with_slippage(
    symbol: str, price: Decimal, side: str, basis_points: float, steps: PriceSteps | None = None
) -> Decimal:
    """Return a price moved by the slippage against the order, and rounded against it to a price at which the symbol
    fills. steps: those of its listing, where they are not known by the symbol alone."""
    moved = slipped(price, side, basis_points)
    step = fill_step(symbol, moved) if steps is None else steps.step(moved)
    if side == "buy":
        return stepped(moved, step, ROUND_CEILING)
    least = finest_step(symbol) if steps is None else steps.rows[0][1]
    return max(least, stepped(moved, step, ROUND_FLOOR))


def slipped(price: Decimal, side: str, basis_points: float) -> Decimal:
    shift = exact(basis_points) / 10_000
    return price * (1 + shift if side == "buy" else 1 - shift)


def started(ticket: OrderTicket, price: float) -> OrderTicket:
    """Return a trailing stop with the stop that it begins with, below or above `price`; any other ticket as it is."""
    if ticket.order_type != "trailing_stop" or ticket.trail_percent is None or ticket.stop_price is not None:
        return ticket
    share = exact(ticket.trail_percent) / 100
    stop = exact(price) * (1 - share if ticket.side == "sell" else 1 + share)
    return ticket.model_copy(update={"stop_price": float(stop)})


def round_trip(symbol: str, price: float | None, settings: Settings, kind: str = "share") -> float:
    """Return what buying a share and selling it again costs as a share of its price: twice the slippage and the
    commission, which without a price is not counted, and the duties of both. price: in account currency."""
    side = settings.slippage_bps / 10_000
    taxed = float(sum(duty_share(symbol, kind, one) for one in ("buy", "sell")))
    return 2 * (side + settings.commission_per_share / price if price else side) + taxed


def unit_exposure(traded: str, side: str, price: Decimal) -> Decimal:
    """Return the exposure of one share or contract that is bought, or sold short, at a price per share."""
    contract = parse_contract(traded)
    if contract is not None and side == "sell":
        return contract.strike * UNIT if contract.kind == "put" else ZERO
    return price * exact(multiplier_of(traded))


def unit_notional(traded: str, side: str, price: Decimal) -> Decimal:
    """Return the money that one share or contract of an order may move, at a price per share: of a written option its
    strike x 100, at which shares are bought, or sold."""
    contract = parse_contract(traded)
    written = contract is not None and side == "sell"
    return contract.strike * UNIT if contract and written else price * exact(multiplier_of(traded))


def cash_needed(
    traded: str, side: str, quantity: Decimal, price: Decimal, limits: Settings, fx: FxRate | None = None
) -> Decimal:
    """Return the cash that opening so many shares or contracts may need, in account currency: slippage and commission
    included. fx: of the price, None where it is in that currency."""
    commission = exact(limits.commission_per_share)
    contract = parse_contract(traded)
    if contract is not None and side == "sell":
        return quantity * (converted(unit_exposure(traded, side, price), fx) + commission)
    bps = limits.slippage_bps
    at = with_slippage(traded, price, "buy", bps) if fx is None else slipped(price, "buy", bps)
    unit = at * exact(multiplier_of(traded))
    return quantity * (converted(unit, fx) + commission)


def converted(amount: Decimal, fx: FxRate | None) -> Decimal:
    """Return an amount in the account's currency. fx: None where it is in that already."""
    return amount if fx is None else amount * exact(fx.rate)


def free_cash(account: AccountView) -> Decimal | None:
    """None when a short position cannot be secured with a known sum."""
    free = exact(account.cash)
    for position in account.positions:
        if position.quantity < 0 and parse_contract(position.symbol) is None:
            if position.market_price is None or without_rate(position):
                return None
            free -= converted(-2 * exact(position.quantity) * exact(position.market_price), position.fx)
    rates = {underlying_of(position.symbol): position for position in account.positions}
    for symbol, one in rates.items():
        needs = cover_of(held_in(symbol, account.positions))
        if needs.naked or (needs.cash and without_rate(one)):
            return None
        free -= converted(needs.cash, one.fx)
    return free


def without_rate(position: HeldPosition) -> bool:
    """Return whether a position is in a currency whose rate into the account's is not known."""
    return position.currency is not None and position.fx is None


def held_in(symbol: str, positions: Iterable[HeldPosition]) -> dict[str, Decimal]:
    return {row.symbol: exact(row.quantity) for row in positions if underlying_of(row.symbol) == symbol}


def underlying_of(traded: str) -> str:
    contract = parse_contract(traded)
    return contract.underlying if contract else traded


def price_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """The highest of last quote, limit and stop, per share; the limit of an order with legs is net."""
    return exact(ticket.limit_price or 0.0) if ticket.legs else exact(ticket.dearest(context.quote.price))


def assumed_position(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the position this order starts from, if all reservations on its own side fill and none on the other."""
    return _assumed(ticket.traded, ticket.side, context)


def _assumed(traded: str, side: str, context: RiskContext) -> Decimal:
    held = (exact(position.quantity) for position in context.account.positions if position.symbol == traded)
    reserved = (
        exact(reservation.quantity)
        for reservation in context.reservations
        if (reservation.traded, reservation.side) == (traded, side)
    )
    return sum(held, ZERO) + sum(reserved, ZERO) * (1 if side == "buy" else -1)


def opening_parts(ticket: OrderTicket, context: RiskContext) -> list[Decimal]:
    return [
        opening_part(_assumed(traded, side, context), side, exact(quantity)) for traded, side, quantity in ticket.parts
    ]


def opening_quantity(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return how much of an order opens: shares, contracts, or contracts of all its legs."""
    return sum(opening_parts(ticket, context), ZERO)


def covers(ticket: OrderTicket, context: RiskContext) -> tuple[Cover, Cover]:
    """Return the needs of the written options on the order's underlying without the order and with it, if all sales
    that are reserved fill and no purchase does, but for one that fills together with a sale."""
    book = held_in(ticket.symbol, context.account.positions)
    for row in context.reservations:
        if row.symbol == ticket.symbol and (row.side == "sell" or row.whole):
            book[row.traded] = book.get(row.traded, ZERO) + _signed(row.side, row.quantity)
    after = dict(book)
    for traded, side, quantity in ticket.parts:
        after[traded] = after.get(traded, ZERO) + _signed(side, quantity)
    return cover_of(book), cover_of(after)


def _signed(side: str, quantity: float) -> Decimal:
    return exact(quantity) if side == "buy" else -exact(quantity)


def only_reduces(ticket: OrderTicket, context: RiskContext) -> bool:
    """Return whether an order only gives back held exposure: its action is to reduce or close, no part of it opens, and
    no written option loses its cover. An order that crosses through zero opens, with all of it."""
    if ticket.action not in ("reduce", "close") or opening_quantity(ticket, context):
        return False
    before, after = covers(ticket, context)
    return not after.needs_more_than(before)


def opening_only(rule: Rule) -> Rule:
    """Return the rule for every order but those that only reduce: it is made for entries, and never blocks an exit."""

    @wraps(rule)
    def applied(ticket: OrderTicket, context: RiskContext, limits: Settings) -> Denied | None:
        return None if only_reduces(ticket, context) else rule(ticket, context, limits)

    return applied


def notional_of(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the larger of the stated amount of money and of quantity x unit notional; of legs their worst case; in
    account currency."""
    if ticket.legs:
        worst = worst_case(ticket.legs, ticket.side, exact(ticket.quantity), price_of(ticket, context))
        return converted(worst, context.fx)
    side = ticket.side if opening_quantity(ticket, context) else "buy"
    computed = exact(ticket.quantity) * unit_notional(ticket.traded, side, price_of(ticket, context))
    return max(converted(computed, context.fx), exact(context.stated_notional or 0))


def exposures(ticket: OrderTicket, context: RiskContext) -> Mapping[str, Decimal] | None:
    """Exposure by underlying once this order and all reservations are filled; None when a position has no price, or no
    rate."""
    found = book_exposures(
        (one for one in context.account.positions if ticket.legs or one.symbol != ticket.traded),
        (one for one in context.reservations if ticket.legs or one.traded != ticket.traded),
    )
    if found is None:
        return None
    price = price_of(ticket, context)
    if ticket.legs:
        needs, needed = covers(ticket, context)
        _add(found, ticket.symbol, converted(needed.cash - needs.cash, context.fx) + _paid(ticket, context))
        return found
    after = assumed_position(ticket, context) + exact(ticket.quantity) * (1 if ticket.side == "buy" else -1)
    computed = converted(exact(ticket.quantity) * unit_exposure(ticket.traded, ticket.side, price), context.fx)
    stated = max(exact(context.stated_notional or 0) - computed, ZERO)
    own = converted(abs(after) * unit_exposure(ticket.traded, "buy" if after >= 0 else "sell", price), context.fx)
    _add(found, ticket.symbol, own + stated)
    return found


def book_exposures(positions: Iterable[HeldPosition], reservations: Iterable[Reservation]) -> dict[str, Decimal] | None:
    """Exposure by underlying of positions and open orders; None when a position has no price, or no rate."""
    found: dict[str, Decimal] = {}
    for position in positions:
        worth = _worth(position)
        if worth is None:
            return None
        _add(found, position.symbol, worth)
    for reservation in reservations:
        _add(found, reservation.symbol, exact(reservation.exposure))
    return found


def added_risk(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return the cash that an order with legs may cost at worst beside what is held: the price it pays, and what the
    written options then need more."""
    before, after = covers(ticket, context)
    return converted(max(after.cash - before.cash, ZERO), context.fx) + _paid(ticket, context)


def _paid(ticket: OrderTicket, context: RiskContext) -> Decimal:
    """Return what an order with legs pays at its limit; what one brings does not count."""
    paid = exact(ticket.quantity) * price_of(ticket, context) * UNIT if ticket.side == "buy" else ZERO
    return converted(paid, context.fx)


def _worth(position: HeldPosition) -> Decimal | None:
    written = parse_contract(position.symbol) is not None and position.quantity < 0
    if (position.market_price is None and not written) or without_rate(position):
        return None
    side = "buy" if position.quantity >= 0 else "sell"
    worth = abs(exact(position.quantity)) * unit_exposure(position.symbol, side, exact(position.market_price or 0))
    return converted(worth, position.fx)


def _add(found: dict[str, Decimal], traded: str, amount: Decimal) -> None:
    symbol = underlying_of(traded)
    found[symbol] = found.get(symbol, ZERO) + amount
