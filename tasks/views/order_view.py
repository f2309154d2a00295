"""The complete view of an order: its row, its lineage, and its approval and fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.orders import Approval, Fill, Order, Preview
from chordesk.models.tables.runs import Decision, Run, Turn
from chordesk.tasks.views.history.days import on_day
from chordesk.tasks.views.lineage import lineage

_LEAST = 4  # characters of an id that are enough, if only one begins so


def by_code(author: str | None) -> bool:
    """Return whether a decision's author is code, and neither a model nor a person."""
    return author is not None and author.startswith("code:")


def find_order(session: Session, order_id: str) -> Order:
    """Return the order with this id, or with the only id that begins so. Raises UsageError, NotFound when there is
    none."""
    remedy = "`desk orders list` shows them"
    if len(order_id) < _LEAST:
        raise UsageError(f"{order_id!r} is too short for an order's id", remedy=remedy)
    found = session.exec(select(Order).where(col(Order.id).startswith(order_id, autoescape=True)).limit(2)).all()
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"more than one order begins with {order_id!r}", remedy=remedy)
    raise NotFound(f"there is no order {order_id!r}", remedy=remedy)


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
    """Return orders with their previews, the newest first; None as a filter matches everything. day: of the exchange,
    in market time."""
    filters = ((Order.run_id, run_id), (Order.symbol, symbol), (Order.state, state), (Order.account, account))
    query = select(Order, Preview).join(Preview, col(Preview.order_id) == col(Order.id), isouter=True)
    query = query.where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    if day is not None:
        query = query.where(on_day(Order.market_at, day))
    ordered = query.order_by(col(Order.created_at).desc(), col(Order.ordinal).desc())
    found = session.exec(ordered.offset(offset).limit(limit)).all()
    return [(order, preview) for order, preview in found]


def order_view(session: Session, order: Order) -> dict[str, Any]:
    """Return rows as plain data: order, preview, approval, the orders that protect its position, fills, decision,
    verdict, analysis, reports, forecasts of voices with their citations, hits.

    Each of decision, reports, forecasts and hits has `at`: the end of its turn, in real time.
    """
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    approval = session.exec(select(Approval).where(col(Approval.order_id) == order.id)).first()
    fills = session.exec(
        select(Fill).where(col(Fill.order_id) == order.id).order_by(col(Fill.filled_at), col(Fill.id))
    ).all()
    rests_on = lineage(session, session.get_one(Run, order.run_id), order.symbol)
    found = {
        "order": order.model_dump(),
        "preview": preview.model_dump() if preview else None,
        "approval": approval.model_dump() if approval else None,
        "protected_by": [row.model_dump() for row in _protection(session, order)],
        "fills": [fill.model_dump() for fill in fills],
        "decision": _decision(session, order),
        **{name: rests_on[name] for name in ("verdict", "analysis", "reports", "forecasts", "hits")},
    }
    _date(session, [found["decision"], *found["reports"], *found["forecasts"], *found["hits"]])
    return found


def _protection(session: Session, order: Order) -> Sequence[Order]:
    rows = select(Order).where(col(Order.protects) == order.id, col(Order.id) != order.id)
    return session.exec(rows.order_by(col(Order.created_at), col(Order.id))).all()


def _decision(session: Session, order: Order) -> dict[str, Any]:
    decision = session.get_one(Decision, order.decision_id)
    action = decision.actions[order.ordinal] if order.ordinal < len(decision.actions) else {}
    why = action.get("reasoning") if isinstance(action, dict) else None
    turn = session.get(Turn, decision.turn_id) if decision.turn_id is not None else None  # a person decided
    return {
        "decision": decision.id,
        "status": decision.status,
        "author": decision.author,
        "reasoning": decision.reasoning,
        "why": why,
        "turn": turn.id if turn else None,
        "thread": turn.thread_id if turn else None,
        "codex_turn": turn.codex_turn_id if turn else None,
    }


def _date(session: Session, rows: list[dict[str, Any]]) -> None:
    ids = {row["turn"] for row in rows}
    found = session.exec(select(Turn.id, Turn.finished_at).where(col(Turn.id).in_(ids))).all()
    times: dict[str, dt.datetime] = dict(list(found))
    for row in rows:
        row["at"] = times.get(row["turn"])
