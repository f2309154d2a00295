"""The funnel from a decision to its fills. Killed anywhere, it can be run again and does nothing twice."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from sqlmodel import Session, col, select

from models.errors import DeskError, OrderError
from models.order_tables import Fill, Order, Position, Preview
from models.orders import BrokerAnswer, BrokerFill, DenialCode, Denied, OrderOutcome, OrderTicket, RiskLimits
from models.settings import Settings
from models.states import ORDER_FINAL, OrderState, RunState
from models.store import Store
from models.tables import Run
from tools.brokers.protocol import Broker
from tools.decimals import exact, plain
from tools.ledger import account_view, apply_fill, ensure_account
from tools.market.protocol import MarketData
from tools.orders.context import Snapshot, evaluate, take_snapshot, ticket_of
from tools.orders.drafts import draft_orders, load_decision
from tools.orders.previews import make_preview, verify
from tools.orders.states import advance, deny_order, load_order
from tools.risk import limits_of

LIVE_OFF = "live trading off"


@dataclass(frozen=True, slots=True)
class _Funnel:
    store: Store
    settings: Settings
    market: MarketData
    broker: Broker
    limits: RiskLimits


def process_decision(
    store: Store, settings: Settings, market: MarketData, broker: Broker, decision_id: str
) -> list[OrderOutcome]:
    """Take every trading action of a decision as far as it may go, and say how far that was, by ordinal.

    All orders are drafted in one transaction, then each is checked and previewed, and only then, with
    settings.trader_live, each is submitted and its fills booked. Rows that are further along are left as they are,
    so that a second call returns the same outcomes. One caller at a time: the trade queue has a single worker.
    Raises OrderError when there is no such decision.
    """
    funnel = _Funnel(store, settings, market, broker, limits_of(settings))
    with store.session() as session:
        decision = load_decision(session, decision_id)
        ensure_account(session, decision.account, settings.starting_cash)
        ids = draft_orders(session, decision, market.clock.now(), settings.allow_short)
    symbols = _symbols_to_price(funnel, ids, decision.account)
    if symbols:
        snapshot = take_snapshot(market, symbols)
        cleared_now = {order_id for order_id in ids if _preview(funnel, snapshot, order_id)}
        for order_id in ids if settings.trader_live else ():
            _submit(funnel, snapshot, order_id, recheck=order_id not in cleared_now)
    with store.read() as session:
        return [_outcome(session, load_order(session, order_id), settings.trader_live) for order_id in ids]


def _symbols_to_price(funnel: _Funnel, ids: list[str], account: str) -> set[str]:
    """Symbols of the orders that may still move and, if there are any, of all positions."""
    with funnel.store.read() as session:
        orders = [load_order(session, order_id) for order_id in ids]
        moving = {order.symbol for order in orders if order.state not in ORDER_FINAL}
        held = session.exec(select(Position.symbol).where(col(Position.account) == account)).all()
    return moving.union(held) if moving else moving


def _preview(funnel: _Funnel, snapshot: Snapshot, order_id: str) -> bool:
    """Check a drafted order and preview it; True when it was cleared here and now."""
    market, broker = funnel.market.name, funnel.broker.name
    with funnel.store.session() as session:
        order = load_order(session, order_id)
        if order.state != OrderState.DRAFTED:
            return False
        found = evaluate(session, order, snapshot, funnel.limits, market, broker)
        if isinstance(found, Denied):
            deny_order(session, order, found)
            return False
        changes = {"quantity": found.ticket.quantity, "market_at": snapshot.now}
        advance(session, order, OrderState.PREVIEWED, message=_rounded(order, found.ticket), **changes)
        session.add(make_preview(order, found.price, found.priced_at, market, broker))
    return True


def _rounded(order: Order, ticket: OrderTicket) -> str | None:
    if order.quantity is None or exact(order.quantity) == exact(ticket.quantity):
        return None
    return f"{plain(order.quantity)} shares asked; whole shares are traded: {plain(ticket.quantity)}"


def _submit(funnel: _Funnel, snapshot: Snapshot, order_id: str, recheck: bool) -> None:
    """Send a previewed order, or ask what became of one that was sent, and book the answer.

    `submitted` is written before the broker hears of the order. A call that finds it so was preceded by one that
    died or got no answer: it only asks.
    """
    with funnel.store.session() as session:
        order = load_order(session, order_id)
        sent_before = order.state == OrderState.SUBMITTED
        if order.state == OrderState.PREVIEWED:
            denied = _bar(session, funnel, snapshot, order, recheck)
            if denied is not None:
                deny_order(session, order, denied)
                return
            advance(session, order, OrderState.SUBMITTED)
        elif not sent_before:
            return
        preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
        view = account_view(session, snapshot, order.account)
        ticket = ticket_of(order)
    try:
        call = funnel.broker.lookup if sent_before else funnel.broker.submit
        answer = call(ticket, preview, view)
        unknown = "the broker does not know this order; it is not sent again"
    except DeskError as error:
        answer, unknown = None, f"no answer from the broker: {error}"
    with funnel.store.session() as session:
        order = load_order(session, order_id)
        if order.state != OrderState.SUBMITTED:
            return  # another worker booked the answer meanwhile
        if answer is None:
            _note(session, order, unknown)
        else:
            _book(session, order, answer)


def _bar(session: Session, funnel: _Funnel, snapshot: Snapshot, order: Order, recheck: bool) -> Denied | None:
    """Why a previewed order may not be sent. One that an earlier call previewed passes every rule anew."""
    # The lock makes a stop that comes at the same time wait until the order is on its way, or this until it is known.
    run = session.get_one(Run, order.run_id, with_for_update={"read": True}, populate_existing=True)
    if run.state != RunState.RUNNING:
        reason = f"run {run.id} is {run.state}: nothing of it is submitted any more"
        return Denied(code=DenialCode.RUN_STOPPED, reason=reason, measured=run.state, limit=RunState.RUNNING)
    market, broker = funnel.market.name, funnel.broker.name
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    denied = verify(order, preview, market, broker, snapshot.now)
    if denied is None and recheck:
        found = evaluate(session, order, snapshot, funnel.limits, market, broker)
        denied = found if isinstance(found, Denied) else None
    return denied


def _note(session: Session, order: Order, message: str | None) -> None:
    order.message = message
    session.add(order)


def _book(session: Session, order: Order, answer: BrokerAnswer) -> None:
    """Write what the broker said; fills, cash and position move in the transaction that moves the state."""
    if answer.status == "submitted":
        order.broker_order_id = answer.broker_order_id
        _note(session, order, answer.message)
        return
    filled = sum(exact(fill.quantity) for fill in answer.fills)
    expected = exact(order.quantity or 0) if answer.status == "filled" else 0
    if filled != expected:
        raise OrderError(
            f"the broker says {answer.status} on order {order.id} and fills {plain(filled)} of {plain(expected)}",
            remedy="compare the broker's own record; the order stays submitted",
        )
    to = OrderState(answer.status)
    advance(session, order, to, broker_order_id=answer.broker_order_id, message=answer.message or order.message)
    for number, fill in enumerate(answer.fills):
        session.add(_fill_row(order, number, fill))
        apply_fill(session, order.account, order.symbol, order.side or "", fill)


def _fill_row(order: Order, number: int, fill: BrokerFill) -> Fill:
    return Fill(
        id=uuid.uuid5(uuid.UUID(order.id), f"fill/{number}").hex,
        order_id=order.id,
        account=order.account,
        symbol=order.symbol,
        side=order.side or "",
        quantity=fill.quantity,
        price=fill.price,
        commission=fill.commission,
        filled_at=fill.at,
    )


def _outcome(session: Session, order: Order, live: bool) -> OrderOutcome:
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    fills = session.exec(select(Fill).where(col(Fill.order_id) == order.id).order_by(col(Fill.filled_at))).all()
    held_back = order.state == OrderState.PREVIEWED and not live
    return OrderOutcome(
        order_id=uuid.UUID(order.id),
        ordinal=order.ordinal,
        symbol=order.symbol,
        action=order.action,
        side=order.side,
        quantity=order.quantity,
        order_type=order.order_type,
        limit_price=order.limit_price,
        state=OrderState(order.state),
        denied=_denial(order),
        price=preview.price if preview else None,
        notional=preview.notional if preview else None,
        payload_hash=preview.payload_hash if preview else None,
        gate=LIVE_OFF if held_back else None,
        message=order.message,
        fills=[BrokerFill(quantity=f.quantity, price=f.price, commission=f.commission, at=f.filled_at) for f in fills],
    )


def _denial(order: Order) -> Denied | None:
    if order.denial_code is None:
        return None
    return Denied(
        code=DenialCode(order.denial_code),
        reason=order.denial_reason or "",
        measured=order.measured or "",
        limit=order.limit_text or "",
    )
