"""Orders at the broker that the trading state no longer allows: all of a halted account, the opening ones of a
reducing one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_WORKING, RunKind, TradingState
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Run
from chordesk.tools.decimals import exact
from chordesk.tools.orders.halt import halting
from chordesk.tools.orders.records.parts import parts_of
from chordesk.tools.orders.records.reservations import filled_quantities
from chordesk.tools.risk import opening_part


def disallowed_orders(session: Session, settings: Settings, account: str) -> list[str]:
    """Return the ids of working orders that the trading state in force does not allow, the oldest first."""
    state, _ = halting.trading_state(session, settings, account)
    if state is TradingState.ACTIVE:
        return []
    rows = session.exec(
        select(Order)
        .where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING))
        .order_by(col(Order.created_at), col(Order.ordinal))
    ).all()
    if state is TradingState.REDUCING:
        return _opening(session, account, rows)
    return [order.id for order in rows if not only_reduces(session, order)]


def only_reduces(session: Session, order: Order) -> bool:
    """Return whether a halt leaves the order alone: it is one of `--flatten`, or it protects a position."""
    return order.protects is not None or session.get_one(Run, order.run_id).kind == RunKind.FLATTEN


def _opening(session: Session, account: str, rows: Sequence[Order]) -> list[str]:
    """Return the orders that would take exposure on, if all before them on their side filled and nothing on the
    other."""
    positions = session.exec(select(Position).where(col(Position.account) == account)).all()
    booked = filled_quantities(session, [order.id for order in rows])
    held = {row.symbol: exact(row.quantity) for row in positions}
    taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    found = []
    for order in rows:
        parts = [(traded, side, _left(order, quantity, booked)) for traded, side, quantity in parts_of(order)]
        if any(opening_part(_base(traded, side, held, taken), side, left) for traded, side, left in parts):
            found.append(order.id)
            continue
        for traded, side, left in parts:
            taken[traded, side] += left
    return found


def _base(traded: str, side: str, held: Mapping[str, Decimal], taken: Mapping[tuple[str, str], Decimal]) -> Decimal:
    """Return the position that a part starts from."""
    return held.get(traded, Decimal(0)) + taken.get((traded, side), Decimal(0)) * (1 if side == "buy" else -1)


def _left(order: Order, quantity: Decimal, booked: Mapping[str, Decimal]) -> Decimal:
    """Return how much of a part may still fill; a leg counts in full until its order has ended."""
    return quantity if order.legs else max(quantity - booked.get(order.id, Decimal(0)), Decimal(0))
