"""Reservations of the account's other orders, and counts of its recent ones, for the risk rules."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from decimal import Decimal
from itertools import takewhile

from sqlalchemy import ColumnElement, and_, exists, func, or_
from sqlmodel import Session, col, select

from chordesk.models.orders import AccountView, Reservation
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, ORDER_OPEN, ORDER_WORKING, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Order, Preview, Trading
from chordesk.models.text import NEW_YORK
from chordesk.tools.books import duties_sum
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import filled_quantities
from chordesk.tools.orders.booking import in_time, parts_of, whole_of
from chordesk.tools.orders.snapshots import WAITING
from chordesk.tools.rates import preview_rate
from chordesk.tools.risk.exposure import cash_needed, converted, cover_of, opening_part, unit_exposure

_ENDED = ORDER_FINAL - {OrderState.DENIED}
_SENT = ORDER_WORKING | _ENDED
_NO_ANSWER = (OrderState.SUBMITTING.value, OrderState.UNKNOWN.value)
_MINUTE = dt.timedelta(minutes=1)


def earlier(order: Order) -> ColumnElement[bool]:
    """Return a condition for orders of the same decision that were cleared before this one and are not sent yet."""
    return and_(
        col(Order.decision_id) == order.decision_id,
        col(Order.ordinal) < order.ordinal,
        col(Order.state) == OrderState.PREVIEWED.value,
    )


def _of(account: str) -> ColumnElement[bool]:
    """Return a condition for an account's orders. Protective ones do not count: they give way to every order that sells
    what they hold, before it is sent."""
    return and_(col(Order.account) == account, col(Order.protects).is_(None))


def _others(order: Order) -> ColumnElement[bool]:
    return and_(_of(order.account), col(Order.id) != order.id)


def reservations_of(session: Session, order: Order, view: AccountView, limits: Settings) -> tuple[Reservation, ...]:
    """Return the reservations of other orders that may still fill, with those of the order's decision that were cleared
    before it."""
    which = and_(_others(order), or_(col(Order.state).in_(ORDER_OPEN), earlier(order)))
    return _reservations(session, which, view, limits)


def reservations_on(session: Session, view: AccountView, limits: Settings) -> tuple[Reservation, ...]:
    """Return the reservations of all orders of an account that may still fill."""
    return _reservations(session, and_(_of(view.account), col(Order.state).in_(ORDER_OPEN)), view, limits)


def _reservations(
    session: Session, which: ColumnElement[bool], view: AccountView, limits: Settings
) -> tuple[Reservation, ...]:
    """Return the reservations of some orders; each side of a symbol counts as if the other never filled."""
    asked = select(Order, Preview).join(Preview, col(Preview.order_id) == col(Order.id)).where(which)
    found = {other.id: (other, preview) for other, preview in session.exec(asked)}
    rows = [found[other.id] for other in in_time(other for other, _ in found.values())]
    booked = filled_quantities(session, list(found))
    held = {position.symbol: exact(position.quantity) for position in view.positions}
    reserved: defaultdict[tuple[str, str], Decimal] = defaultdict(Decimal)
    reservations = []
    for other, preview in rows:
        if other.legs:
            reservations += _of_legs(other, preview, limits)
            continue
        traded, side = other.contract or other.symbol, other.side or ""
        left = max(exact(other.quantity or 0) - booked[other.id], Decimal(0))
        position = held.get(traded, Decimal(0)) + reserved[traded, side] * (1 if side == "buy" else -1)
        opening, price = opening_part(position, side, left), exact(preview.price)
        reserved[traded, side] += left
        fx = preview_rate(preview, view.currency)
        exposure = converted(opening * unit_exposure(traded, side, price), fx)
        cash = cash_needed(traded, side, opening, price, limits, fx)
        cash += duties_sum(preview.duties) if opening else 0
        amounts = {"quantity": float(left), "exposure": float(exposure), "cash": float(cash)}
        fields = {"traded": traded, "symbol": other.symbol, "side": side, **amounts}
        reservations.append(Reservation.model_validate(fields))
    return tuple(reservations)


def _of_legs(order: Order, preview: Preview, limits: Settings) -> list[Reservation]:
    """The worst case of the whole order while it works stands on its first leg."""
    commission = whole_of(order) * exact(limits.commission_per_share)
    found = []
    for place, (traded, side, quantity) in enumerate(parts_of(order)):
        worst = 0.0 if place else preview.notional
        cash = 0.0 if place else float(converted(exact(_cash_of(order)), preview_rate(preview, "")) + commission)
        amounts = {"quantity": float(quantity), "exposure": worst, "cash": cash}
        fields = {"traded": traded, "symbol": order.symbol, "side": side, **amounts, "whole": True}
        found.append(Reservation.model_validate(fields))
    return found


def _cash_of(order: Order) -> float:
    """Return the cash that an order with legs may need: what it pays, and what its written options need; shares cover
    its calls."""
    units, net = exact(order.quantity or 0), exact(order.limit_price or 0)
    needs = cover_of({traded: quantity if side == "buy" else -quantity for traded, side, quantity in parts_of(order)})
    return float(needs.cash + (units * net * exact(order.multiplier) if order.side == "buy" else 0))


def last_order(session: Session, order: Order, now: dt.datetime, limits: Settings) -> Order | None:
    """Return the last order on the symbol that the broker works on or filled at least in part, or that was cleared
    earlier in this decision, by market time.

    A replay can be set back to before orders of a later day: those that far ahead have not happened yet.
    """
    horizon = now + dt.timedelta(hours=limits.cooldown_hours)
    sent = or_(col(Order.state).in_(ORDER_WORKING), exists().where(col(Fill.order_id) == col(Order.id)))
    return session.exec(
        select(Order)
        .where(_others(order), col(Order.symbol) == order.symbol)
        .where(or_(sent, earlier(order)), col(Order.market_at) <= horizon)
        .order_by(col(Order.market_at).desc(), col(Order.id))
        .limit(1)
    ).first()


def recent_orders(session: Session, order: Order) -> int:
    """Orders sent within the last minute of real time, and those of this decision that go before."""
    sent = and_(col(Order.state).in_(_SENT), func.coalesce(Order.sent_at, Order.updated_at) > (utcnow() - _MINUTE))
    return _count(session, _others(order), or_(sent, earlier(order)))


def orders_today(session: Session, order: Order, now: dt.datetime) -> int:
    """Count orders of the exchange's day that were sent or wait to be, and those of this decision that go before."""
    return _count(session, _others(order), or_(_of_day(now), earlier(order)))


def orders_of_day(session: Session, account: str, now: dt.datetime) -> int:
    return _count(session, _of(account), _of_day(now))


def _of_day(now: dt.datetime) -> ColumnElement[bool]:
    start, end = _day(now)
    today = and_(col(Order.market_at) >= start, col(Order.market_at) < end)
    return and_(col(Order.state).in_((*_SENT, *WAITING)), today)


def _count(session: Session, *which: ColumnElement[bool]) -> int:
    return session.exec(select(func.count()).select_from(Order).where(*which)).one()


def _day(now: dt.datetime) -> tuple[dt.datetime, dt.datetime]:
    start = now.astimezone(NEW_YORK).replace(hour=0, minute=0, second=0, microsecond=0)
    return start, (start + dt.timedelta(days=1)).replace(hour=0)


def rejections(session: Session, order: Order, now: dt.datetime, most: int) -> int:
    """Count the day's last orders in a row that the broker refused, `most` at the most. A resume starts anew."""
    start, end = _day(now)
    which = [_others(order), col(Order.state).in_(_ENDED), col(Order.market_at) >= start, col(Order.market_at) < end]
    trading = session.get(Trading, order.account)
    if trading is not None:
        which.append(col(Order.updated_at) > trading.since)
    newest = select(Order.state).where(*which).order_by(col(Order.updated_at).desc(), col(Order.id)).limit(most)
    return len(list(takewhile(lambda state: state == OrderState.REJECTED, session.exec(newest))))


def open_order(session: Session, order: Order) -> str | None:
    """Orders of one decision are not duplicates of each other until one is sent."""
    together = and_(col(Order.decision_id) == order.decision_id, col(Order.state).in_(WAITING))
    others = session.exec(select(Order).where(_others(order), col(Order.state).in_(ORDER_OPEN), ~together)).all()
    own = {(traded, side) for traded, side, _ in parts_of(order)}
    same = in_time(row for row in others if row.symbol == order.symbol)
    return next((row.id for row in same if own & {(traded, side) for traded, side, _ in parts_of(row)}), None)


def unresolved(session: Session, order: Order) -> str | None:
    """Return the id of an order on the symbol that was sent and whose outcome is not known."""
    which = [_others(order), col(Order.symbol) == order.symbol, col(Order.state).in_(_NO_ANSWER)]
    return session.exec(select(Order.id).where(*which).limit(1)).first()
