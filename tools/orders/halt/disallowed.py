"""Orders at the broker that the trading state no longer allows: all of a halted account, the opening ones of a
reducing one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from sqlmodel import Session, col, select

from models.settings import Settings
from models.states import ORDER_WORKING, RunKind, TradingState
from models.tables.orders import Order, Position
from models.tables.runs import Run
from tools.decimals import exact
from tools.orders.halt import halting
from tools.orders.records.reservations import filled_quantities
from tools.risk import opening_part


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
    return [order.id for order in rows if not is_flattening(session, order)]


def is_flattening(session: Session, order: Order) -> bool:
    """Return whether the order is one of `--flatten`: it only gives exposure back, so a halt does not apply to it."""
    return session.get_one(Run, order.run_id).kind == RunKind.FLATTEN


def _opening(session: Session, account: str, rows: Sequence[Order]) -> list[str]:
    """Return the orders that would take exposure on, if all before them on their side filled and nothing on the
    other."""
    positions = session.exec(select(Position).where(col(Position.account) == account)).all()
    booked = filled_quantities(session, [order.id for order in rows])
    held = {row.symbol: exact(row.quantity) for row in positions}
    taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    found = []
    for order in rows:
        traded, side = order.contract or order.symbol, order.side or ""
        left = max(exact(order.quantity or 0) - booked.get(order.id, Decimal(0)), Decimal(0))
        base = held.get(traded, Decimal(0)) + taken[traded, side] * (1 if side == "buy" else -1)
        if opening_part(base, side, left):
            found.append(order.id)
        else:
            taken[traded, side] += left
    return found
