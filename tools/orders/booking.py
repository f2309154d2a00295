"""Booking: a broker's answer on an order becomes its state, its events, its fills, cash and positions, in one
transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from sqlalchemy import bindparam, update
from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.errors import OrderError
from chordesk.models.events import DESK, EventType, event
from chordesk.models.market import legs_of
from chordesk.models.money import DOLLAR
from chordesk.models.orders import BrokerAnswer, BrokerFill, Denied, Settlement
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, ORDER_NEXT, ORDER_WORKING, ApprovalState, OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Approval, BookedSettlement, Fill, Order, Preview
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import OF_RATE, apply_fill, book_settlement, currency_of_account, fill_of
from chordesk.tools.orders import audit

_LONGEST = 500


def state(session: Session, order: Order, was: str | None) -> None:
    """Write that an order was drafted (was: None) or has moved to its present state."""
    moved = {"order": order.id, "state": order.state, "was": was, "account": order.account}
    traded = {"symbol": order.contract or order.symbol, "action": order.action, "side": order.side}
    denied = {"code": order.denial_code, "why": _short(order.denial_reason or order.message)}
    facts: dict[str, Any] = {**moved, **traded, "quantity": order.quantity, **denied}
    event_log.append(session, [event(EventType.ORDER_STATE, order.run_id, **facts)])


def fill_event(session: Session, order: Order, row: Fill) -> None:
    names = ("account", "symbol", "side", "quantity", "price")
    facts: dict[str, Any] = {"order": order.id, "fill": row.id, **{name: getattr(row, name) for name in names}}
    facts |= _of_money(row)
    if row.currency is None and (base := currency_of_account(session, order.account)) != DOLLAR:
        facts["currency"] = base
    if order.exit_reason:
        facts["exit"] = order.exit_reason
    event_log.append(session, [event(EventType.ORDER_FILL, order.run_id, **facts)])


def trading_changed(session: Session, account: str, state: TradingState, why: str, by: str) -> None:
    envelope = event(EventType.ORDER_TRADING, DESK, account=account, state=state.value, why=_short(why), by=by)
    event_log.append(session, [envelope])


def approval_asked(session: Session, order: Order, approval: Approval) -> None:
    asked = {"approval_id": approval.id, "kind": "order", "order": order.id, "symbol": order.contract or order.symbol}
    facts: dict[str, Any] = {**asked, "notional": approval.notional, "expires_at": approval.expires_at.isoformat()}
    facts |= {"currency": base} if (base := currency_of_account(session, order.account)) != DOLLAR else {}
    event_log.append(session, [event(EventType.APPROVAL_ASKED, order.run_id, **facts)])


def approval_answered(session: Session, order: Order, approval: Approval) -> None:
    expired = approval.state == ApprovalState.EXPIRED
    kind = EventType.APPROVAL_EXPIRED if expired else EventType.APPROVAL_DECIDED
    asked = {"approval_id": approval.id, "kind": "order", "order": order.id, "decision": approval.state}
    facts: dict[str, Any] = {**asked, "by": approval.decided_by, "why": _short(approval.why)}
    event_log.append(session, [event(kind, order.run_id, **facts)])


def _short(text: str | None) -> str | None:
    return text[:_LONGEST] if text is not None else None


def load_order(session: Session, order_id: str) -> Order:
    """Return the order's row. Raises OrderError when there is none."""
    order = session.get(Order, order_id)
    if order is None:
        raise OrderError(f"there is no order {order_id!r}", remedy="process its decision first")
    return order


def open_orders(session: Session, account: str) -> list[Order]:
    """Return orders that are approved or were sent and have not ended, the oldest first."""
    states = ORDER_WORKING | {OrderState.APPROVED}
    return in_time(session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(states))).all())


def in_time(orders: Iterable[Order]) -> list[Order]:
    """Return open orders, the oldest first. Asked for this order, SQLite would read all that an account ever had, in
    that of an index."""
    return sorted(orders, key=lambda one: (one.created_at, one.ordinal, one.id))


def lock_order(session: Session, order_id: str) -> Order:
    """Return the order's row, locked until the end of the transaction. Raises OrderError when there is none."""
    session.get(Order, order_id, with_for_update=True, populate_existing=True)
    return load_order(session, order_id)


def advance(session: Session, order: Order, to: OrderState, **changes: Any) -> None:
    """Move an order to its next state, with other columns if named, and refresh `order`. Raises OrderError when
    ORDER_NEXT does not lead there, or when the row is no longer in the state that `order` shows: then another process
    moved it, and nothing is written."""
    was = OrderState(order.state)
    if to not in ORDER_NEXT[was]:
        following = ", ".join(sorted(ORDER_NEXT[was])) or "nothing: it is final"
        raise OrderError(f"order {order.id} is {was} and cannot become {to}", remedy=f"what may follow: {following}")
    moved = session.scalars(
        update(Order)
        .where(col(Order.id) == order.id, col(Order.state) == was.value)
        .values(state=to.value, updated_at=utcnow(), **changes)
        .returning(Order)
        .execution_options(synchronize_session=False, populate_existing=True)
    )
    if moved.one_or_none() is not order:
        raise OrderError(f"order {order.id} is no longer {was}", remedy="another worker has it; read it again")
    state(session, order, was.value)


def deny_order(session: Session, order: Order, denied: Denied) -> None:
    advance(
        session,
        order,
        OrderState.DENIED,
        denial_code=denied.code.value,
        denial_reason=denied.reason,
        measured=denied.measured,
        limit_text=denied.limit,
    )


Part = tuple[str, str, Decimal]  # symbol, side, shares or contracts


def parts_of(order: Order) -> list[Part]:
    """Return (symbol, side, quantity) of all that an order trades when it fills as a whole."""
    units = exact(order.quantity or 0)
    if not order.legs:
        return [(order.contract or order.symbol, order.side or "", units)]
    return [(leg.contract, leg.side, units * leg.ratio) for leg in legs_of(order.legs)]


def whole_of(order: Order) -> Decimal:
    return sum((quantity for _, _, quantity in parts_of(order)), Decimal(0))


# The part of the order that the fills of an answer may be.
_FILLS_OF = {
    OrderState.SUBMITTED: "none",
    OrderState.REJECTED: "none",
    OrderState.PARTIALLY_FILLED: "part",
    OrderState.CANCELLED: "none or part",
    OrderState.EXPIRED: "none or part",
    OrderState.FILLED: "all",
}


# What is written on an order in place of a broker's answer begins so, and goes with the answer.
NO_ANSWER = "no answer from the broker"
UNKNOWN_TO_BROKER = "the broker does not know this order; it is not sent again"
_WAITS = "waits for "  # begins the broker's note on an order that it has not filled yet


_FILLS = select(Fill).where(col(Fill.order_id) == bindparam("order"))


def book(session: Session, settings: Settings, order: Order, answer: BrokerAnswer) -> list[Fill]:
    """Book the fills that are not booked yet and move the order's state; return the new fills.

    An answer carries all fills of the order so far, so that the same answer twice changes nothing; an answer on a
    working order with fewer fills than are booked is outdated and ignored. Raises OrderError when the answer
    contradicts itself, or what is booked; then nothing is written.
    """
    to = OrderState(answer.status)
    reported = sum((exact(fill.quantity) for fill in answer.fills), Decimal(0))
    _require_consistent(order, to, reported)
    booked = session.exec(_FILLS, params={"order": order.id}).all()
    before = sum((exact(fill.quantity) for fill in booked), Decimal(0))
    if reported < before and to not in ORDER_FINAL:
        return []
    known = {fill.id for fill in booked}
    fresh = [row for row in _rows(session, order, answer.fills) if row.id not in known]
    if before + sum((exact(row.quantity) for row in fresh), Decimal(0)) != reported:
        raise _contradiction(order, f"fills {plain(reported)} that are not the {plain(before)} booked and new ones")
    _move(session, settings, order, to, answer)
    for row in fresh:
        session.add(row)
        fill_event(session, order, row)
        apply_fill(session, order.account, row.symbol, row.side, fill_of(row))
        audit.record(session, settings, "fill", order=order.id, **_facts(row))
    for row in fresh:  # after all fills, as the books have them, by the time of their booking
        _keep_fee(session, settings, row, answer)
    session.flush()
    return fresh


def _keep_fee(session: Session, settings: Settings, row: Fill, answer: BrokerAnswer) -> None:
    """Book what the venue kept of a purchase as its fee. The fill has moved the whole quantity and paid the commission
    in cash; the fee leaves the position at the fill's price, which gives that cash back. So the cash is what was paid,
    the position what came, and the commission is known as a cost."""
    kept = next(
        (fill.kept for number, fill in enumerate(answer.fills) if _fill_id(row.order_id, fill, number) == row.id), None
    )
    if kept is None:
        return
    money = {name: getattr(row, name) for name in OF_RATE}
    leg = Settlement.model_validate(
        {"id": f"fee/{row.id}", "kind": "fee", "symbol": row.symbol, "quantity": -kept, "price": row.price,
         "at": row.filled_at, **money}
    )  # fmt: skip
    book_settlement(session, row.account, leg)
    columns = leg.model_dump(exclude={"at", "ratio", "growth"})
    session.add(BookedSettlement(account=row.account, settled_at=leg.at, **columns))
    facts = {**leg.model_dump(mode="json", exclude={"kind"}), "event": leg.kind}
    audit.record(session, settings, "settlement", account=row.account, **facts)


def _fill_id(order_id: str, fill: BrokerFill, number: int) -> str:
    return uuid.uuid5(uuid.UUID(order_id), f"fill/{fill.id if fill.id is not None else number}").hex


def _require_consistent(order: Order, to: OrderState, reported: Decimal) -> None:
    whole = whole_of(order)
    amount = (
        "all" if reported == whole else "none" if reported == 0 else "part" if reported < whole else "more than all"
    )
    if amount not in _FILLS_OF[to].split(" or "):
        raise _contradiction(order, f"{to} and fills {plain(reported)} of {plain(whole)}")


def _contradiction(order: Order, what: str) -> OrderError:
    remedy = f"compare the broker's own record; the order stays {order.state}"
    return OrderError(f"the broker reports {what} on order {order.id}", remedy=remedy)


def _move(session: Session, settings: Settings, order: Order, to: OrderState, answer: BrokerAnswer) -> None:
    passing = (NO_ANSWER, UNKNOWN_TO_BROKER, *([_WAITS] if to == OrderState.FILLED else []))
    over = (order.message or "").startswith(passing)
    changes: dict[str, Any] = {
        "broker_order_id": answer.broker_order_id or order.broker_order_id,
        "message": answer.message or (None if over else order.message),
    }
    if order.state != to:
        advance(session, order, to, **changes)
    elif all(getattr(order, name) == value for name, value in changes.items()):
        return
    else:
        for name, value in changes.items():
            setattr(order, name, value)
        session.add(order)
    audit.record(session, settings, "answer", order=order.id, state=to, **changes)


def _rows(session: Session, order: Order, fills: list[BrokerFill]) -> list[Fill]:
    own = session.get_one(Account, order.account).currency
    return [
        Fill(
            id=_fill_id(order.id, fill, number),
            order_id=order.id,
            account=order.account,
            symbol=fill.symbol or order.contract or order.symbol,
            side=fill.side or order.side or "",
            quantity=fill.quantity,
            price=fill.price,
            commission=fill.commission,
            filled_at=fill.at,
            duties=[list(duty) for duty in fill.duties] or None,
            **_rate(session, order, fill, own),
        )
        for number, fill in enumerate(fills)
    ]


def _rate(session: Session, order: Order, fill: BrokerFill, own: str) -> dict[str, Any]:
    """Return the rate of a fill in another currency than the account's: the broker's, else that of the preview. Raises
    OrderError where there is neither."""
    if fill.currency in (None, own):
        return {}
    if fill.rate is not None:
        return {name: getattr(fill, name) for name in OF_RATE}
    found = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    if found is None or found.currency != fill.currency or found.rate is None:
        raise _contradiction(order, f"a fill in {fill.currency} without a rate into {own}")
    return {name: getattr(found, name) for name in OF_RATE}


def _facts(row: Fill) -> dict[str, Any]:
    names = ("id", "symbol", "side", "quantity", "price", "commission")
    return {**{name: getattr(row, name) for name in names}, "filled_at": row.filled_at.isoformat(), **_of_money(row)}


def _of_money(row: Fill) -> dict[str, Any]:
    """Return the facts of a fill in another currency, and those of its duties; none where there is neither."""
    rated = {} if row.currency is None else {"currency": row.currency, "rate": row.rate, "rate_source": row.rate_source}
    if row.rate_at is not None:
        rated["rate_at"] = row.rate_at.isoformat()
    return {**rated, **({"duties": row.duties} if row.duties else {})}
