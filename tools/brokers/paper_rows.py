"""The paper broker's own records: orders that rest, fills and positions, as a broker reports them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

from sqlalchemy import bindparam
from sqlmodel import Session, col, select

from chordesk.models.market import legs_of
from chordesk.models.orders import AccountFill, BrokerFill, BrokerOrder, BrokerPosition, OrderTicket
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Fill, Order
from chordesk.tools.books import Books
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import fill_of, filled_quantities

RESTING = (OrderState.SUBMITTED.value, OrderState.PARTIALLY_FILLED.value)

_FILLS = select(Fill).where(col(Fill.order_id) == bindparam("order")).order_by(col(Fill.created_at), col(Fill.id))


def fills_of(session: Session, ticket: OrderTicket) -> list[BrokerFill]:
    names = ("symbol", "side") if ticket.legs else ()
    rows = session.exec(_FILLS, params={"order": str(ticket.order_id)})
    return [
        fill_of(row).model_copy(update={"id": None, **{name: getattr(row, name) for name in names}}) for row in rows
    ]


def resting(session: Session, account: str) -> list[BrokerOrder]:
    rows = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(RESTING))).all()
    filled = filled_quantities(session, [order.id for order in rows])
    return [_open_order(order, filled[order.id]) for order in rows]


def _open_order(order: Order, filled: Decimal) -> BrokerOrder:
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    whole = sum(leg.ratio for leg in legs_of(order.legs)) or 1
    quantity = float(exact(order.quantity or 0) * whole)
    traded = {"symbol": order.contract or order.symbol, "side": order.side, "quantity": quantity}
    return BrokerOrder.model_validate({**ids, **traded, "filled": float(filled)})


def recent_fills(session: Session, account: str, since: dt.datetime) -> list[AccountFill]:
    rows = session.exec(
        select(Fill, Order)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Fill.account) == account, col(Fill.filled_at) >= since)
    ).all()
    return [_account_fill(fill, order) for fill, order in rows]


def _account_fill(fill: Fill, order: Order) -> AccountFill:
    booked = fill_of(fill)
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    return AccountFill.model_validate({**ids, "symbol": fill.symbol, "side": fill.side, "fill": booked})


def position_of(books: Books, symbol: str) -> BrokerPosition:
    (held, cost), base = books.held[symbol], books.bases.get(symbol)
    of_base = {"currency": base.currency, "cost_base": float(base.rate)} if base is not None else {}
    return BrokerPosition.model_validate(
        {"symbol": symbol, "quantity": float(held), "average_cost": float(cost), **of_base}
    )
