"""The trader's notes: one line for each action of a decision, and a symbol's last lines for the next prompt."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import sqlalchemy
from sqlalchemy import Row, bindparam
from sqlmodel import Session, col, func, select

from chordesk.models.orders import RiskLimits
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, ORDER_WORKING, OrderState
from chordesk.models.tables.composing import composed_once
from chordesk.models.tables.orders import Fill, Order, Preview, TraderNote
from chordesk.models.tables.runs import Decision
from chordesk.models.trading.legs import legs_of
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.orders.records.drafts import order_id
from chordesk.tools.orders.records.reservations import last_order_at
from chordesk.tools.risk import limits_of

LINES_A_SYMBOL = 3
LINES_AT_MOST = 60  # of one prompt, however many symbols it is about
LINE_CHARS = 200
# The columns that a line is made of.
NOTED = ("decision_id", "ordinal", "symbol", "action", "outcome", "line", "market_at")
Note = TraderNote | Row[Any]
_NOT_SENT = {
    OrderState.DRAFTED: "not checked yet",
    OrderState.PREVIEWED: "checked, not sent",
    OrderState.APPROVAL_PENDING: "waits for a person's approval",
    OrderState.APPROVED: "approved, not sent yet",
}


def write_notes(session: Session, settings: Settings, decision: Decision, now: dt.datetime) -> None:
    """Write or renew one note for each action, as things stand.

    now: market time; a note keeps that of the first call.
    """
    rows = session.exec(select(TraderNote).where(col(TraderNote.decision_id) == decision.id)).all()
    written = {row.ordinal: row for row in rows}
    limits = limits_of(settings)
    for ordinal, action in enumerate(decision.actions):
        raw = action if isinstance(action, Mapping) else {}
        order = session.get(Order, order_id(decision.id, ordinal))
        row = written.get(ordinal) or TraderNote(
            account=decision.account,
            symbol=order.symbol if order else _short(raw.get("symbol")).upper(),
            decision_id=decision.id,
            ordinal=ordinal,
            action=order.action if order else _short(raw.get("action")),
            outcome="no_order",
            line="",
            market_at=now,
        )
        row.outcome = order.state if order else row.outcome
        row.line = _line(row, _of_order(session, order, limits) if order else _without_order(raw))
        session.add(row)
    session.flush()


def last_notes(
    session: Session, settings: Settings, account: str, symbols: Iterable[str], now: dt.datetime
) -> dict[str, list[str]]:
    """Return by symbol the last lines that are not of a later market time, oldest first; LINES_A_SYMBOL of each and
    at most LINES_AT_MOST in all. The line of an order that has changed since shows its present state."""
    parameters = {"account": account, "symbols": sorted(set(symbols)), "now": now}
    rows = session.connection().execute(_newest(), parameters).all()
    if not rows:
        return {}
    ids = [order_id(row.decision_id, row.ordinal) for row in rows]
    orders = {order.id: order for order in session.exec(select(Order).where(col(Order.id).in_(ids))).all()}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for row, order_key in reversed(list(zip(rows, ids, strict=True))):
        found[row.symbol].append(_now(session, row, orders.get(order_key), limits_of(settings)))
    return dict(found)


@composed_once
def _newest() -> Any:
    """Return the statement for the last notes, built once: each turn runs it, and composing it costs more than
    running it."""
    newest_first = (col(TraderNote.market_at).desc(), col(TraderNote.id).desc())
    place = func.row_number().over(partition_by=col(TraderNote.symbol), order_by=newest_first).label("place")
    known = (
        select(col(TraderNote.id), place)
        .where(col(TraderNote.account) == bindparam("account"))
        .where(col(TraderNote.symbol).in_(bindparam("symbols", expanding=True)))
        .where(col(TraderNote.market_at) <= bindparam("now"))
        .subquery()
    )
    return (
        sqlalchemy.select(*(getattr(TraderNote, name) for name in NOTED))
        .join(known, known.c.id == col(TraderNote.id))
        .where(known.c.place <= LINES_A_SYMBOL)
        .order_by(*newest_first)
        .limit(LINES_AT_MOST)
    )


def _now(session: Session, row: Note, order: Order | None, limits: RiskLimits) -> str:
    if order is None or (order.state in ORDER_FINAL and order.state == row.outcome):
        return row.line
    return _line(row, _of_order(session, order, limits))


def _line(row: Note, what: str) -> str:
    text = " ".join(f"{row.market_at:%Y-%m-%d} {row.action} {row.symbol}: {what}".split())
    return text if len(text) <= LINE_CHARS else text[: LINE_CHARS - 1] + "…"


def _of_order(session: Session, order: Order, limits: RiskLimits) -> str:
    state = OrderState(order.state)
    if state is OrderState.DENIED:
        return f"not sent, {order.denial_code}: {order.denial_reason}"
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    traded = order.contract or ", ".join(str(leg) for leg in legs_of(order.legs))
    what = f"{order.side} {plain(order.quantity or 0)}{f' {traded}' if traded else ''}"
    # The price of the check, not the broker's: in replay a fill is of the next open, which is not known yet.
    what += f" at {money(preview.price)}" if preview else ""
    if state in _NOT_SENT:
        return f"{what}: {_NOT_SENT[state]}"
    fills = session.exec(select(Fill).where(col(Fill.order_id) == order.id)).all()
    filled = sum((exact(fill.quantity) for fill in fills), Decimal(0))
    text = f"{what}: {state.replace('_', ' ')}, {plain(filled)} filled"
    cooldown = _cooldown(session, order, limits) if filled or state in ORDER_WORKING else ""
    return f"{text}; {cooldown}" if cooldown else text


def _cooldown(session: Session, order: Order, limits: RiskLimits) -> str:
    """Return the end of the symbol's cooldown, which runs from the newest order on it."""
    if not limits.cooldown_hours:
        return ""
    others = last_order_at(session, order, order.market_at, limits)
    last = max(order.market_at, others) if others else order.market_at
    until = last + dt.timedelta(hours=limits.cooldown_hours)
    return f"nothing opens on it before {until:%Y-%m-%d %H:%M} UTC"


def _without_order(raw: Mapping[str, Any]) -> str:
    why = _short(raw.get("reasoning"), LINE_CHARS)
    return f"no order; {why}" if why else "no order"


def _short(value: Any, most: int = 21) -> str:
    return str(value or "")[:most]
