"""Positions and what protects them, read from the books: shares that are free to protect, and protective orders."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal

from sqlmodel import Session, col, select

from chordesk.models.contracts import SHARES_PER_CONTRACT, multiplier_of, parse_contract
from chordesk.models.states import ORDER_WORKING
from chordesk.models.tables.orders import Fill, Order, Position
from chordesk.models.trading.legs import legs_of
from chordesk.tools.decimals import exact

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class ShareHolding:
    """Shares of one symbol. held: negative when short; free: whole ones that no other order closes and no written call
    needs.

    opened_by: id of the order that last opened or added to it, None where no order of the desk did; since: real time
    from which it has not been flat.
    """

    symbol: str
    held: Decimal
    free: Decimal
    cost: Decimal
    opened_by: str | None
    since: dt.datetime | None


def working_protection(session: Session, account: str, symbol: str | None = None) -> list[Order]:
    """Return protective orders that the broker works on, or may, the oldest first."""
    which = [col(Order.account) == account, col(Order.protects).is_not(None), col(Order.state).in_(ORDER_WORKING)]
    if symbol is not None:
        which.append(col(Order.symbol) == symbol)
    return list(session.exec(select(Order).where(*which).order_by(col(Order.created_at), col(Order.id))).all())


def in_the_way(session: Session, order: Order) -> list[str]:
    """Return ids of protective orders that hold shares which this order gives away, or calls that it writes would
    need."""
    side = "sell" if _calls_written(order) else None if order.contract or order.legs else order.side
    found = working_protection(session, order.account, order.symbol)
    return [row.id for row in found if row.id != order.id and row.side == side]


def left_of(session: Session, order: Order) -> Decimal:
    """Return how much of an order is not filled."""
    quantities = session.exec(select(Fill.quantity).where(col(Fill.order_id) == order.id)).all()
    filled = sum((exact(quantity) for quantity in quantities), ZERO)
    return max(exact(order.quantity or 0) - filled, ZERO)


def holdings(session: Session, account: str, symbol: str | None = None) -> list[ShareHolding]:
    """Return the account's positions in shares, by symbol."""
    which = [col(Position.account) == account]
    if symbol is not None:
        which.append(col(Position.symbol) == symbol)
    rows = session.exec(select(Position).where(*which).order_by(col(Position.symbol))).all()
    return [_holding(session, row) for row in rows if row.quantity and parse_contract(row.symbol) is None]


def _holding(session: Session, row: Position) -> ShareHolding:
    held = exact(row.quantity)
    taken = _closing(session, row, "sell" if held > 0 else "buy") + _covering(session, row, held)
    whole = (abs(held) - taken).to_integral_value(ROUND_FLOOR)
    opened_by, since = _opening(session, row)
    return ShareHolding(row.symbol, held, max(whole, ZERO), exact(row.average_cost), opened_by, since)


def _closing(session: Session, row: Position, side: str) -> Decimal:
    """Return shares that other working orders on this side may still take."""
    orders = session.exec(
        select(Order).where(
            col(Order.account) == row.account,
            col(Order.symbol) == row.symbol,
            col(Order.contract).is_(None),
            col(Order.side) == side,
            col(Order.protects).is_(None),
            col(Order.state).in_(ORDER_WORKING),
        )
    ).all()
    return sum((left_of(session, order) for order in orders if not order.legs), ZERO)


def _covering(session: Session, row: Position, held: Decimal) -> Decimal:
    """Return shares that written calls need: those held, and those of working orders."""
    if held <= 0:
        return ZERO
    needed = ZERO
    for other in session.exec(select(Position).where(col(Position.account) == row.account)).all():
        contract = parse_contract(other.symbol)
        if contract is not None and (contract.underlying, contract.kind) == (row.symbol, "call"):
            needed += max(-exact(other.quantity), ZERO) * exact(multiplier_of(other.symbol))
    orders = session.exec(
        select(Order).where(
            col(Order.account) == row.account,
            col(Order.symbol) == row.symbol,
            col(Order.protects).is_(None),
            col(Order.state).in_(ORDER_WORKING),
        )
    ).all()
    for order in orders:
        if calls := _calls_written(order):
            # A leg counts in full until its order has ended.
            units = exact(order.quantity or 0) if order.legs else left_of(session, order)
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


def _opening(session: Session, row: Position) -> tuple[str | None, dt.datetime | None]:
    """Return the order of the last fill that opened or added to the position, and the time of the first since it was
    flat."""
    fills = session.exec(
        select(Fill)
        .where(col(Fill.account) == row.account, col(Fill.symbol) == row.symbol)
        .order_by(col(Fill.created_at), col(Fill.id))
    ).all()
    moved = sum((_signed(fill) for fill in fills), ZERO)
    running = exact(row.quantity) - moved  # what came without an order, by adoption or delivery
    opened_by, since = None, None
    for fill in fills:
        before, running = running, running + _signed(fill)
        if not running:
            opened_by, since = None, None
        elif before * running <= 0 or abs(running) > abs(before):
            opened_by = fill.order_id
            since = fill.created_at if since is None or before * running <= 0 else since
    return opened_by, since


def _signed(fill: Fill) -> Decimal:
    return exact(fill.quantity) * (1 if fill.side == "buy" else -1)
