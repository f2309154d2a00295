"""Written contracts: when one is to be bought back or rolled, and the reminder of it."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session, col, select

from chordesk.models.contracts import parse_contract
from chordesk.models.errors import MarketError
from chordesk.models.notices import is_noted, note
from chordesk.models.notifications import NoticeKind
from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.notifications import Notice
from chordesk.models.tables.orders import Order, Position
from chordesk.tools.decimals import money
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.orders.snapshots import Snapshot
from chordesk.tools.orders.stops import plan_of
from chordesk.tools.orders.submitting import SubmissionContext

_WHY = {
    ExitReason.TARGET: "half of its premium is earned: it can be bought back",
    ExitReason.INVALIDATION: "it costs three times its premium: buy it back, or roll it",
    ExitReason.HORIZON: "a week is left until it expires: buy it back, or roll it",
}


def note_written(context: SubmissionContext, snapshot: Snapshot) -> int:
    """Note each end of the plan of a written contract, once; return how many are noted now."""
    account, noted = context.broker.name, 0
    if is_backtest(account):
        return 0
    with context.store.session() as session:
        written = select(Position).where(col(Position.account) == account, col(Position.quantity) < 0)
        for row in session.exec(written).all():
            order = _writing(session, row) if parse_contract(row.symbol) is not None else None
            plan = plan_of(order)
            if order is None or plan is None:
                continue
            price = _price(snapshot, row.symbol)
            reason = written_end(plan, exchange_day(snapshot.now), price)
            key = f"{NoticeKind.PLAN_REVIEW.value}:{order.id}:{reason}"
            if reason is None or is_noted(session, key):
                continue
            at = f", now {money(price)}" if price is not None else ""
            facts = {"account": account, "order": order.id, "written": f"{row.symbol}{at}: {_WHY[reason]}"}
            kind = NoticeKind.PLAN_REVIEW.value
            made = Notice(
                key=key, kind=kind, subject=order.symbol, facts=facts, run_id=order.run_id, occurred_at=utcnow()
            )
            note(session, made)
            noted += 1
    return noted


def _writing(session: Session, row: Position) -> Order | None:
    """Return the order that last wrote a contract."""
    which = (col(Order.account) == row.account, col(Order.contract) == row.symbol, col(Order.side) == "sell")
    entries = (*which, col(Order.action).in_(("open", "add")), col(Order.fence).is_not(None))
    return session.exec(select(Order).where(*entries).order_by(col(Order.created_at).desc()).limit(1)).first()


def _price(snapshot: Snapshot, contract: str) -> float | None:
    try:
        return snapshot.quote(contract).price
    except MarketError:
        return None


def written_end(plan: PositionPlan, day: dt.date, price: float | None) -> ExitReason | None:
    """Return why a written contract is to be bought back or rolled on a day, at its last price; None while it is not,
    and of its price where none is known."""
    if price is not None and plan.stop is not None and price >= plan.stop:
        return ExitReason.INVALIDATION
    if price is not None and plan.target is not None and price <= plan.target:
        return ExitReason.TARGET
    return ExitReason.HORIZON if plan.ends is not None and day >= plan.ends else None
