"""Every account of the database, and what of one is left for its own broker to end."""

from __future__ import annotations

from sqlmodel import Session, col, select

from models.order_tables import Account, Order, Position, Submitter, Trading
from models.states import ORDER_WORKING, TradingState

_WORKING = sorted(state.value for state in ORDER_WORKING)


def known(session: Session, own: str) -> list[str]:
    """`own` first, then every other account that has a row."""
    found: set[str] = set()
    for column in (Account.name, Submitter.account, Order.account, Trading.account):
        found.update(session.exec(select(column).distinct()))
    return [own, *sorted(found - {own})]


def left_of(session: Session, account: str, positions: bool) -> list[str]:
    """What of a halted account only its own broker can end, in words: its working orders and, if asked, its
    positions."""
    said = []
    working = select(Order.id).where(col(Order.account) == account, col(Order.state).in_(_WORKING))
    if ids := session.exec(working.order_by(col(Order.id))).all():
        said.append(f"open orders {', '.join(ids)}")
    if not positions:
        return said
    held = select(Position.symbol).where(col(Position.account) == account, col(Position.quantity) != 0)
    if symbols := session.exec(held.order_by(col(Position.symbol))).all():
        said.append(f"positions {', '.join(symbols)}")
    return said


def halted(session: Session) -> list[Trading]:
    """The rows of accounts that are halted, by name."""
    rows = select(Trading).where(col(Trading.state) == TradingState.HALTED.value)
    return list(session.exec(rows.order_by(col(Trading.account))).all())
