"""Orders: their list, and one with all that belongs to it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Approval, Fill, Order, Preview
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.chain import Chain, chain, protecting
from chordesk.tasks.reading.run_list import on_day
from chordesk.tools import rogue_calls
from chordesk.tools.orders.audit import AuditEntry
from chordesk.tools.rogue_calls import RogueRow


class OrderParts(Frozen):
    """An order with what came of it. protected_by: the orders that protect its position."""

    order: Row[Order]
    preview: Row[Preview] | None
    approval: Row[Approval] | None
    protected_by: list[Row[Order]]
    fills: list[Row[Fill]]


class OrderDetail(OrderParts):
    """The same, with the chain that leads to it. rogue: rogue calls of what it rests on; log: its lines in the audit
    log, if they were requested."""

    chain: Chain
    rogue: list[RogueRow]
    log: list[AuditEntry] | None = None


def newest_order(session: Session) -> Order:
    newest = (col(Order.created_at).desc(), col(Order.ordinal).desc())
    found = session.exec(select(Order).order_by(*newest).limit(1)).first()
    if found is None:
        raise NotFound("there is no order yet", remedy="every trading action of a decision makes one")
    return found


def list_orders(
    session: Session,
    run_id: str | None,
    symbol: str | None,
    state: str | None,
    limit: int,
    *,
    offset: int = 0,
    account: str | None = None,
    day: dt.date | None = None,
) -> Sequence[tuple[Order, Preview | None]]:
    """The newest first. day: of the exchange, in market time."""
    filters = ((Order.run_id, run_id), (Order.symbol, symbol), (Order.state, state), (Order.account, account))
    query = select(Order, Preview).join(Preview, col(Preview.order_id) == col(Order.id), isouter=True)
    query = query.where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    if day is not None:
        query = query.where(on_day(Order.market_at, day))
    ordered = query.order_by(col(Order.created_at).desc(), col(Order.ordinal).desc())
    found = session.exec(ordered.offset(offset).limit(limit)).all()
    return [(order, preview) for order, preview in found]


def order_parts(session: Session, order: Order) -> OrderParts:
    return OrderParts(
        order=order,
        preview=session.exec(select(Preview).where(Preview.order_id == order.id)).first(),
        approval=session.exec(select(Approval).where(Approval.order_id == order.id)).first(),
        protected_by=list(protecting(session, order)),
        fills=list(
            session.exec(
                select(Fill).where(Fill.order_id == order.id).order_by(col(Fill.filled_at), col(Fill.id))
            ).all()
        ),
    )


def order_detail(session: Session, order: Order) -> OrderDetail:
    found = chain(session, session.get_one(Run, order.run_id), order.symbol, order.id)
    return OrderDetail(**dict(order_parts(session, order)), chain=found, rogue=rogue_calls.of_order(session, order))
