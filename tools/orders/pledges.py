"""What the account's other orders have spoken for, and what its recent ones say about sending another."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal

from sqlalchemy import ColumnElement, and_, exists, func, or_
from sqlmodel import Session, col, select

from models.columns import utcnow
from models.order_tables import Fill, Order, Preview, Trading
from models.orders import AccountView, Pledge, RiskLimits
from models.states import ORDER_FINAL, ORDER_WORKING, OrderState
from tools.decimals import exact
from tools.market.clock import NEW_YORK
from tools.orders.snapshots import OPEN, WAITING
from tools.risk import at_stake, cash_needed, opening_shares

_WORKING = tuple(state.value for state in ORDER_WORKING)
_SENT = (*_WORKING, *(state.value for state in ORDER_FINAL if state is not OrderState.DENIED))
_ENDED = tuple(state.value for state in ORDER_FINAL if state is not OrderState.DENIED)
_NO_ANSWER = (OrderState.SUBMITTING.value, OrderState.UNKNOWN.value)
_MINUTE = dt.timedelta(minutes=1)


def earlier(order: Order) -> ColumnElement[bool]:
    """Orders of the same decision that were cleared before this one and are not sent yet."""
    return and_(
        col(Order.decision_id) == order.decision_id,
        col(Order.ordinal) < order.ordinal,
        col(Order.state) == OrderState.PREVIEWED.value,
    )


def _others(order: Order) -> ColumnElement[bool]:
    return and_(col(Order.account) == order.account, col(Order.id) != order.id)


def pledges(session: Session, order: Order, view: AccountView, limits: RiskLimits) -> tuple[Pledge, ...]:
    """What orders that may still fill need; each side of a symbol counts as if the other never filled."""
    rows = session.exec(
        select(Order, Preview)
        .join(Preview, col(Preview.order_id) == col(Order.id))
        .where(_others(order), or_(col(Order.state).in_(OPEN), earlier(order)))
        .order_by(col(Order.created_at), col(Order.ordinal))
    ).all()
    booked = filled(session, [other.id for other, _ in rows])
    held = {position.symbol: exact(position.quantity) for position in view.positions}
    taken: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    found = []
    for other, preview in rows:
        traded, side = other.contract or other.symbol, other.side or ""
        left = max(exact(other.quantity or 0) - booked.get(other.id, Decimal(0)), Decimal(0))
        base = held.get(traded, Decimal(0)) + taken[traded, side] * (1 if side == "buy" else -1)
        opening, price = opening_shares(base, side, left), exact(preview.price)
        taken[traded, side] += left
        found.append(
            Pledge.model_validate(
                {
                    "traded": traded,
                    "symbol": other.symbol,
                    "side": side,
                    "quantity": float(left),
                    "exposure": float(opening * at_stake(traded, side, price)),
                    "cash": float(cash_needed(traded, side, opening, price, limits)),
                }
            )
        )
    return tuple(found)


def filled(session: Session, ids: list[str]) -> dict[str, Decimal]:
    """How many shares or contracts of each order are filled; no entry for none."""
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for order_id, quantity in session.exec(
        select(Fill.order_id, Fill.quantity).where(col(Fill.order_id).in_(ids))
    ).all():
        found[order_id] += exact(quantity)
    return found


def last_order_at(session: Session, order: Order, now: dt.datetime, limits: RiskLimits) -> dt.datetime | None:
    """Market time of the last order on the symbol that the broker works on or filled at least in part, or that was
    cleared earlier in this decision.

    A replay can be set back to before orders of a later day: those that far ahead have not happened yet.
    """
    horizon = now + dt.timedelta(hours=limits.cooldown_hours)
    sent = or_(col(Order.state).in_(_WORKING), exists().where(col(Fill.order_id) == col(Order.id)))
    return session.exec(
        select(func.max(Order.market_at))
        .where(_others(order), col(Order.symbol) == order.symbol)
        .where(or_(sent, earlier(order)), col(Order.market_at) <= horizon)
    ).one()


def recent_orders(session: Session, order: Order) -> int:
    """Orders of the account sent within the last minute of real time, and those of this decision that go before."""
    sent = and_(col(Order.state).in_(_SENT), func.coalesce(Order.sent_at, Order.updated_at) > (utcnow() - _MINUTE))
    return _count(session, order, or_(sent, earlier(order)))


def orders_today(session: Session, order: Order, now: dt.datetime) -> int:
    """Orders of the exchange's day that were sent or wait to be, and those of this decision that go before."""
    start, end = _day(now)
    today = and_(col(Order.market_at) >= start, col(Order.market_at) < end)
    claimed = and_(col(Order.state).in_((*_SENT, *WAITING)), today)
    return _count(session, order, or_(claimed, earlier(order)))


def _count(session: Session, order: Order, which: ColumnElement[bool]) -> int:
    return session.exec(select(func.count()).select_from(Order).where(_others(order), which)).one()


def _day(now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    start = now.astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
    return start, (start + dt.timedelta(days=1)).replace(hour=0)


def rejections(session: Session, order: Order, now: dt.datetime, most: int) -> int:
    """How many of the day's last orders in a row the broker refused, `most` at the most. A resume starts anew."""
    start, end = _day(now)
    which = [_others(order), col(Order.state).in_(_ENDED), col(Order.market_at) >= start, col(Order.market_at) < end]
    trading = session.get(Trading, order.account)
    if trading is not None:
        which.append(col(Order.updated_at) > trading.since)
    newest = select(Order.state).where(*which).order_by(col(Order.updated_at).desc(), col(Order.id)).limit(most)
    count = 0
    for state in session.exec(newest).all():
        if state != OrderState.REJECTED.value:
            break
        count += 1
    return count


def open_order(session: Session, order: Order) -> str | None:
    """The id of another open order on the same side of what this one trades. Those that one decision asks for together
    are meant, until one is sent."""
    meant = and_(col(Order.decision_id) == order.decision_id, col(Order.state).in_(WAITING))
    same = [_others(order), col(Order.symbol) == order.symbol, col(Order.side) == order.side]
    contract = col(Order.contract) == order.contract if order.contract else col(Order.contract).is_(None)
    return session.exec(select(Order.id).where(*same, contract, col(Order.state).in_(OPEN), ~meant).limit(1)).first()


def unresolved(session: Session, order: Order) -> str | None:
    """The id of an order on the symbol that was sent and whose outcome is not known."""
    which = [_others(order), col(Order.symbol) == order.symbol, col(Order.state).in_(_NO_ANSWER)]
    return session.exec(select(Order.id).where(*which).limit(1)).first()
