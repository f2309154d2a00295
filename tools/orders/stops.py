"""Stops: the one that a rule asks for, and the positions and protective orders of the books."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any, NamedTuple

from sqlalchemy import select as columns
from sqlmodel import Session, col, select

from chordesk.models.errors import MarketError
from chordesk.models.market import SHARES_PER_CONTRACT, legs_of, multiplier_of, parse_contract
from chordesk.models.money import DOLLAR
from chordesk.models.order_terms import Protection, parse_protection
from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.states import ORDER_WORKING
from chordesk.models.tables.orders import Fill, Order, Position
from chordesk.tools.decimals import exact, money, plain, stepped
from chordesk.tools.ledger import filled_quantities, former_names
from chordesk.tools.market.actions import growth_since
from chordesk.tools.market.clock import day_of, hours_of
from chordesk.tools.market.price_steps import Terms, stepped_quantity, symbol_terms
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.booking import in_time

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class ProtectiveStop:
    """A protective order as it should be: it closes `quantity` shares of `symbol`.

    reference: price that the percentage is measured from; trail_percent is None for a stop that stays where it is.
    reason: of an order that ends a position's plan. stop_price: None where the position is closed now, at market.
    terms: of the listing; without them its steps are those that its symbol alone tells.
    """

    symbol: str
    side: str
    quantity: Decimal
    stop_price: Decimal | None
    reference: Decimal
    trail_percent: float | None
    reason: ExitReason | None = None
    terms: Terms | None = None

    @property
    def traded(self) -> Terms:
        return self.terms or symbol_terms(self.symbol)

    @property
    def order_type(self) -> str:
        if self.stop_price is None:
            return "market"
        return "stop" if self.trail_percent is None else "trailing_stop"

    def raised(self, stop: Decimal) -> ProtectiveStop:
        """Return the stop at this price, unless its own is closer to the market."""
        own = self.stop_price if self.stop_price is not None else stop
        return replace(self, stop_price=max(stop, own) if self.side == "sell" else min(stop, own))

    def is_that_of(self, order: Order, left: Decimal) -> bool:
        """Return whether a working order, of which so much is not filled yet, is this one. A trail has moved since it
        was placed: only its percentage counts. A step of the price is what rounding leaves after a split."""
        same = (order.side, order.order_type, left) == (self.side, self.order_type, self.quantity)
        if not same or self.trail_percent is not None:
            return same and order.trail_percent == self.trail_percent
        at, own = exact(order.stop_price or 0), self.stop_price or ZERO
        return abs(at - own) <= (0 if not at or not own else self.traded.steps.step(own))


def stop_for(rule: Protection, bare: ProtectiveStop, cost: Decimal) -> ProtectiveStop | None:
    """Return the stop of a position at its average cost; None where the listing has no price for it. bare: the closing
    of the position, without a price."""
    trail = rule.percent if rule.kind == "trail" else None
    at = stop_price(bare.traded, rule.percent, bare.side, cost)
    return None if at is None else replace(bare, stop_price=at, reference=cost, trail_percent=trail)


def planned_stop(plan: PositionPlan | None, stop: ProtectiveStop | None, bare: ProtectiveStop) -> ProtectiveStop | None:
    """Return the one standing stop of a position: the plan's or the rule's, whichever is closer to the market. bare:
    the closing of the position, without a price."""
    if plan is None or plan.stop is None:
        return stop
    at = _within(bare.traded, exact(plan.stop), "sell", bare.reference)
    if at is None:
        return stop
    if stop is None:
        return replace(bare, stop_price=at, reason=ExitReason.INVALIDATION)
    raised = stop.raised(at)
    return replace(raised, reason=ExitReason.INVALIDATION) if raised != stop else stop


def stop_price(terms: Terms, percent: float, side: str, reference: Decimal) -> Decimal | None:
    """Return a price so far from the reference as `_within` has it."""
    share = exact(percent) / 100
    return _within(terms, reference * (1 - share if side == "sell" else 1 + share), side, reference)


def _within(terms: Terms, asked: Decimal, side: str, reference: Decimal) -> Decimal | None:
    """Return the price of a stop in steps of the listing, not further from the reference than asked for. Where no step
    lies between the two the stop would be met at once at the reference: then it is the next step away from it, and None
    where that is not above 0."""
    near, far = (ROUND_CEILING, ROUND_FLOOR) if side == "sell" else (ROUND_FLOOR, ROUND_CEILING)
    found = terms.price(asked, near)
    if (asked < reference <= found) if side == "sell" else (found <= reference < asked):
        found = stepped(asked, terms.steps.step(asked), far)
    return found if found > 0 else None


def trailed(market: MarketData, order: Order, first: Decimal) -> Decimal:
    """Where an earlier trailing stop stands now, in shares of now; it never falls back. first: where it began, in
    shares of its day."""
    import numpy as np  # most readers of stops have no use for it

    hours, day = hours_of(order.symbol), day_of(order.market_at, order.symbol)
    share = exact(order.trail_percent or 0) / 100
    started = first / exact(growth_since(actions_of(market, order.symbol, day), day))
    try:
        bars = market.bars(order.symbol, (market.clock.now() - order.market_at).days + 2)
    except MarketError:
        return started
    high, low = np.fmax(bars.high, bars.close), np.fmin(bars.low, bars.close)  # a market may have closes alone
    later = [
        place for place, day in enumerate(bars.dates) if hours.is_session(day) and hours.open_of(day) >= order.market_at
    ]
    if order.side == "sell":
        best = max((exact(float(high[place])) * (1 - share) for place in later), default=started)
        return max(started, best)
    return min(started, min((exact(float(low[place])) * (1 + share) for place in later), default=started))


def preview_of(
    rule: str, action: str, bare: ProtectiveStop, plan: PositionPlan | None = None
) -> Mapping[str, Any] | None:
    """Return the protective order that a fill of an opening order would get, for its preview; None where it would get
    none. bare: the closing of what it would open, at the price of the fill."""
    found = parse_protection(rule)
    if action not in ("open", "add"):
        return None
    of_rule = stop_for(found, bare, bare.reference) if found else None
    stop = planned_stop(plan, of_rule, bare)
    if stop is None or stop.stop_price is None:
        return None
    trail = None if stop.trail_percent is None else plain(stop.trail_percent)
    return {
        "orderType": stop.order_type,
        "quantity": plain(bare.quantity),
        "rule": rule if stop.reason is None else "plan",
        "side": stop.side,
        "stopPrice": plain(stop.stop_price),
        "timeInForce": "gtc",
        "trailPercent": trail,
    }


def preview_text(payload: str, currency: str = DOLLAR) -> str | None:
    try:
        found = json.loads(payload)["protection"]
    except (ValueError, TypeError, KeyError):
        return None  # altered text, or one of an older version
    if not found:
        return None
    start = "stop" if found["trailPercent"] is None else f"stop that trails by {found['trailPercent']} % from"
    price = money(float(found["stopPrice"]), currency)
    return f"{found['side']} {found['quantity']}, {start} {price}, {found['timeInForce']}"


def plan_text(plan: PositionPlan, currency: str = DOLLAR) -> str:
    """currency: of the prices."""
    prices = [
        f"{name} {money(value, currency)}" for name in ("entry", "stop", "target") if (value := getattr(plan, name))
    ]
    days = [f"{name} {value}" for name in ("ends", "review") if (value := getattr(plan, name)) is not None]
    return ", ".join((*prices, *days))


def bound_text(plan: PositionPlan, currency: str = DOLLAR, *, always: bool = False) -> str | None:
    """currency: of the account; always: as `coded` has it."""
    if plan.most is None:
        return None
    asked = f"; {money(plan.asked, currency, always=always)} was asked for" if plan.asked is not None else ""
    return f"at most {money(plan.most, currency, always=always)} by {plan.bound}{asked}"


@dataclass(frozen=True, slots=True)
class ShareHolding:
    symbol: str
    held: Decimal  # negative when short
    free: Decimal  # whole ones that no other order closes and no written call needs
    unbound: Decimal  # as free, with what is less than a step
    cost: Decimal
    opened_by: str | None  # id of the order that last opened or added to it, None where no order of the desk did
    since: dt.datetime | None  # real time from which it has not been flat
    moves: Sequence[_Move] = ()  # its fills
    first_day: dt.date | None = None  # of its fills, or of what it came by


def working_protection(session: Session, account: str, symbol: str | None = None) -> list[Order]:
    which = [col(Order.account) == account, col(Order.protects).is_not(None), col(Order.state).in_(ORDER_WORKING)]
    found = session.exec(select(Order).where(*which)).all()
    return in_time(one for one in found if symbol is None or one.symbol == symbol)


def in_the_way(session: Session, order: Order) -> list[str]:
    """Protective orders that hold shares which this order gives away, or that calls it writes would need."""
    side = "sell" if _calls_written(order) else None if order.contract or order.legs else order.side
    found = working_protection(session, order.account, order.symbol)
    return [row.id for row in found if row.id != order.id and row.side == side]


def left_of(session: Session, order: Order) -> Decimal:
    return left_of_each(session, [order])[order.id]


def left_of_each(session: Session, orders: Iterable[Order]) -> dict[str, Decimal]:
    """Return what is not filled yet of each order, by its id."""
    whole = {order.id: exact(order.quantity or 0) for order in orders}
    filled = filled_quantities(session, whole)
    return {order_id: max(quantity - filled[order_id], ZERO) for order_id, quantity in whole.items()}


class _Move(NamedTuple):
    """A fill of a position."""

    symbol: str
    order_id: str
    side: str
    quantity: float
    at: dt.datetime
    price: float
    filled_at: dt.datetime

    @property
    def day(self) -> dt.date:
        return day_of(self.filled_at, self.symbol)

    @property
    def signed(self) -> Decimal:
        return exact(self.quantity) * (1 if self.side == "buy" else -1)


def holdings(session: Session, account: str, symbol: str | None = None) -> list[ShareHolding]:
    every = session.exec(select(Position).where(Position.account == account).order_by(col(Position.symbol))).all()
    rows = [row for row in every if row.quantity and symbol in (None, row.symbol) and not parse_contract(row.symbol)]
    if not rows:
        return []
    symbols = [row.symbol for row in rows]
    own = (Order.account == account, col(Order.symbol).in_(symbols), col(Order.protects).is_(None))
    orders = session.exec(select(Order).where(*own, col(Order.state).in_(ORDER_WORKING))).all()
    left = left_of_each(session, orders)
    moves: dict[str, list[_Move]] = {symbol: [] for symbol in symbols}
    figures = (Fill.symbol, Fill.order_id, Fill.side, Fill.quantity, Fill.created_at, Fill.price, Fill.filled_at)
    fills = columns(*map(col, figures))
    names = former_names(session, account)
    before = [old for old in names if _name_now(old, names) in moves]
    of_positions = fills.where(col(Fill.account) == account, col(Fill.symbol).in_([*symbols, *before]))
    for move in session.execute(of_positions.order_by(col(Fill.created_at), col(Fill.id))).all():
        moves[_name_now(move.symbol, names)].append(_Move(*move))

    def holding(row: Position) -> ShareHolding:
        held, working = exact(row.quantity), [order for order in orders if order.symbol == row.symbol]
        taken = _closing(working, left, "sell" if held > 0 else "buy") + _covering(row, every, working, left)
        unbound = max(abs(held) - taken, ZERO)
        whole = stepped_quantity(row.symbol, unbound, opens=False)
        own, cost = moves[row.symbol], exact(row.average_cost)
        first_day = min((move.day for move in own), default=day_of(row.filled_at, row.symbol))
        return ShareHolding(row.symbol, held, whole, unbound, cost, *_opening(row, own), own, first_day)

    return [holding(row) for row in rows]


def _name_now(symbol: str, names: Mapping[str, str]) -> str:
    seen = {symbol}
    while (following := names.get(symbol)) is not None and following not in seen:
        symbol = following
        seen.add(symbol)
    return symbol


def _closing(working: Iterable[Order], left: Mapping[str, Decimal], side: str) -> Decimal:
    closing = (order for order in working if order.contract is None and order.side == side and not order.legs)
    return sum((left[order.id] for order in closing), ZERO)


def _covering(
    row: Position, every: Iterable[Position], working: Iterable[Order], left: Mapping[str, Decimal]
) -> Decimal:
    """Return shares that written calls need: those held, and those of working orders."""
    if row.quantity <= 0:
        return ZERO
    needed = ZERO
    for other in every:
        contract = parse_contract(other.symbol)
        if contract is not None and (contract.underlying, contract.kind) == (row.symbol, "call"):
            needed += max(-exact(other.quantity), ZERO) * exact(multiplier_of(other.symbol))
    for order in working:
        if calls := _calls_written(order):
            # A leg counts in full until its order has ended.
            units = exact(order.quantity or 0) if order.legs else left[order.id]
            needed += units * calls * exact(SHARES_PER_CONTRACT)
    return needed


def _calls_written(order: Order) -> int:
    """Return how many calls one unit of an order writes more than it buys: each may need 100 shares."""
    if order.legs:
        calls = (leg for leg in legs_of(order.legs) if (found := parse_contract(leg.contract)) and found.kind == "call")
        return max(-sum(leg.signed for leg in calls), 0)
    contract = parse_contract(order.contract or "")
    written = order.side == "sell" and order.action in ("open", "add")
    return int(written and contract is not None and contract.kind == "call")


def _opening(row: Position, moves: Sequence[_Move]) -> tuple[str | None, dt.datetime | None]:
    """Return the order of the last fill that opened or added to the position, and the time of the first since it was
    flat."""
    moved = sum((move.signed for move in moves), ZERO)
    running = exact(row.quantity) - moved  # what came without an order, by adoption or delivery
    opened_by, since = None, None
    for move in moves:
        before, running = running, running + move.signed
        if not running:
            opened_by, since = None, None
        elif before * running <= 0 or abs(running) > abs(before):
            opened_by = move.order_id
            since = move.at if since is None or before * running <= 0 else since
    return opened_by, since
