"""The one step that sends an order, and the question what became of one that was sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from models.columns import utcnow
from models.errors import DeskError, OrderError
from models.order_tables import Order, Preview
from models.orders import BrokerAnswer, DenialCode, Denied
from models.settings import Settings
from models.states import ORDER_WORKING, OrderState, RunState, TradingState
from models.store import Store
from models.tables import Run
from tools.brokers.protocol import Broker
from tools.ledger import account_view
from tools.market.protocol import MarketData
from tools.orders import approvals, audit, fence, halting, mandates
from tools.orders.booking import book
from tools.orders.context import evaluate, ticket_of
from tools.orders.fence import Seat
from tools.orders.previews import moved, terms_of, verify
from tools.orders.recalling import closes, unwanted
from tools.orders.reconcile import reconcile
from tools.orders.snapshots import Snapshot, take_snapshot
from tools.orders.states import advance, deny_order, load_order, lock_order
from tools.risk import deny, halted

log = structlog.get_logger(__name__)

NOT_KNOWN = "the broker does not know this order; it is not sent again"
# Quotes are read anew when an order before this one took its time.
QUOTES_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Funnel:
    """What takes an order from its row to the broker. seat: this process's place at the account's fence."""

    store: Store
    settings: Settings
    market: MarketData
    broker: Broker
    seat: Seat


@dataclass(slots=True)
class Prices:
    """Quotes of the symbols that a call needs, never much older than the order they are used for."""

    market: MarketData
    symbols: frozenset[str]
    _snapshot: Snapshot | None = None
    _at: float = field(default=0.0)

    def now(self) -> Snapshot:
        if self._snapshot is None or time.monotonic() - self._at > QUOTES_SECONDS:
            self._snapshot, self._at = take_snapshot(self.market, self.symbols), time.monotonic()
        return self._snapshot


def carry(funnel: Funnel, prices: Prices, order_ids: Iterable[str]) -> None:
    """Submit what is approved and ask about what was sent, but not about what was recalled: on paper to ask is to
    fill. Raises FencedOff when this process may not."""
    funnel.seat.hold()
    recalled = recall(funnel)
    unready = compare(funnel)
    for order_id in order_ids:
        if order_id not in recalled and not submit(funnel, prices.now(), order_id, unready):
            ask(funnel, prices.now(), order_id)


def recall(funnel: Funnel) -> set[str]:
    """Cancel what was sent and may no longer fill; the ids of those orders."""
    with funnel.store.read() as session:
        ids = unwanted(session, funnel.settings, funnel.broker.name)
    for order_id in ids:
        cancel(funnel, order_id)
    return set(ids)


def compare(funnel: Funnel, max_age_seconds: float | None = None) -> Denied | None:
    """Reconcile the account unless this process did so lately; why nothing may be sent when that cannot be done.

    Differences that nobody can explain halt the account, which the submit step then finds.
    """
    age = funnel.seat.since_compared()
    if age is not None and age <= (max_age_seconds or 2 * funnel.settings.orders_seconds):
        return None
    try:
        reconcile(funnel.store, funnel.settings, funnel.broker, funnel.seat.owner)
    except DeskError as error:
        log.warning("orders.not_reconciled", account=funnel.broker.name, error=str(error))
        reason = f"account {funnel.broker.name} could not be compared with its broker: {error}"
        return deny(DenialCode.NOT_RECONCILED, reason, "not reconciled", "reconciled before the first order")
    funnel.seat.compared()
    return None


def submit(funnel: Funnel, snapshot: Snapshot, order_id: str, unready: Denied | None) -> bool:
    """Send an approved order, once; False when the order is not at that point.

    `submitting` is written, with the fence, before the broker hears of the order, and all that could forbid it is
    asked in that same transaction. A process that dies after it leaves an order that is only asked about.
    """
    token = funnel.seat.hold()
    with funnel.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.APPROVED:
            return False
        fence.require(session, order.account, token)
        preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
        denied = _bar(session, funnel, snapshot, order, preview) or unready
        if denied is not None or preview is None:
            if denied is not None:
                refuse(session, funnel.settings, order, denied)
            return True
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        audit.record(
            session, funnel.settings, "submitting", order=order.id, fence=token, payload_hash=preview.payload_hash
        )
        ticket, view = ticket_of(order), account_view(session, snapshot, order.account)
    hear(funnel, order_id, lambda: funnel.broker.submit(ticket, preview, view))
    return True


def ask(funnel: Funnel, snapshot: Snapshot, order_id: str) -> None:
    """Ask the broker what became of an order that was sent. Nothing is ever sent again."""
    with funnel.store.read() as session:
        order = load_order(session, order_id)
        if order.state not in ORDER_WORKING:
            return
        preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
        ticket, view = ticket_of(order), account_view(session, snapshot, order.account)
    hear(funnel, order_id, lambda: funnel.broker.lookup(ticket, preview, view))


def cancel(funnel: Funnel, order_id: str) -> None:
    """Ask for the end of an order that was sent; always allowed.

    What the broker says to it and cannot be written down is not booked: the order is asked about again.
    """
    with funnel.store.read() as session:
        order = load_order(session, order_id)
        if order.state not in ORDER_WORKING:
            return
        ticket = ticket_of(order)
    try:
        hear(funnel, order_id, lambda: funnel.broker.cancel(ticket), cancelling=True)
    except (OrderError, SQLAlchemyError) as error:
        log.error("orders.not_booked", order=order_id, error=str(error))


def refuse(session: Session, settings: Settings, order: Order, denied: Denied) -> None:
    """Close an order that goes no further, and put it on record."""
    deny_order(session, order, denied)
    audit.record(session, settings, "denied", order=order.id, **denied.model_dump(mode="json", exclude={"cleared"}))


def _bar(session: Session, funnel: Funnel, snapshot: Snapshot, order: Order, preview: Preview | None) -> Denied | None:
    """Why an approved order may not be sent. Every rule is asked anew: an approval can take its time."""
    settings, broker = funnel.settings, funnel.broker
    state, why = halting.trading_state(session, settings, order.account)
    if state is TradingState.HALTED:
        return halted(state, why, order.account)
    terms = terms_of(session, settings, funnel.market.name, broker.name)
    denied = _run_bars(session, order) or _unarmed(session, funnel) or verify(order, preview, terms, snapshot.now)
    if denied is not None or preview is None:
        return denied
    denied = _unapproved(session, funnel, order, preview)
    if denied is not None:
        return denied
    found = evaluate(session, order, snapshot, settings, funnel.market.name, broker.name)
    if isinstance(found, Denied):
        return found
    denied = moved(preview, found.price, settings.max_price_collar)
    if denied is None and broker.real_money:
        denied = mandates.check(session, settings, order, preview, found.price)
    return denied


def _run_bars(session: Session, order: Order) -> Denied | None:
    """A person may answer after the run has ended; what no person was asked about goes with its run, or not at all."""
    # The lock makes a stop that comes at the same time wait until the order is on its way, or this until it is known.
    run = session.get_one(Run, order.run_id, with_for_update={"read": True}, populate_existing=True)
    allowed = {RunState.RUNNING}
    if approvals.approved(session, order.id) is not None:
        allowed |= {RunState.DONE, RunState.PARTIAL}
    if run.state in allowed:
        return None
    reason = f"run {run.id} is {run.state}: nothing of it is submitted any more"
    return deny(DenialCode.RUN_STOPPED, reason, run.state, " or ".join(sorted(allowed)))


def _unarmed(session: Session, funnel: Funnel) -> Denied | None:
    """Real money and no mandate: asked first, for a preview under a mandate that has ended is stale as well."""
    if not funnel.broker.real_money:
        return None
    found = mandates.in_force(session, funnel.settings, funnel.broker.name)
    return found if isinstance(found, Denied) else None


def _unapproved(session: Session, funnel: Funnel, order: Order, preview: Preview) -> Denied | None:
    approval = approvals.approved(session, order.id)
    if approval is None and not approvals.needs_person(funnel.settings, funnel.broker.real_money, preview.notional):
        return None
    if approval is not None and approval.payload_hash == preview.payload_hash:
        return None
    given = "approval of another payload" if approval is not None else "no approval"
    return deny(DenialCode.APPROVAL_DENIED, "no person approved this order as previewed", given, "approved by a person")


def hear(funnel: Funnel, order_id: str, call: Callable[[], BrokerAnswer | None], *, cancelling: bool = False) -> None:
    """Ask the broker and write down what it says, or that it said nothing."""
    try:
        answer, silence = call(), NOT_KNOWN
        lost = answer is None
    except Exception as error:
        # Whatever was raised, the order may be there.
        if not isinstance(error, DeskError):
            log.exception("orders.broker_raised", order=order_id)
        said = str(error) if isinstance(error, DeskError) else type(error).__name__
        answer, lost, silence = None, False, f"no answer from the broker: {said}"
    try:
        with funnel.store.session() as session:
            order = load_order(session, order_id)
            if order.state not in ORDER_WORKING:
                return  # another process booked the answer meanwhile
            if answer is None:
                _unanswered(session, funnel.settings, order, silence, lost)
            else:
                book(session, funnel.settings, order, answer)
            session.refresh(order)
            still_open = order.state in ORDER_WORKING
            state, _ = halting.trading_state(session, funnel.settings, order.account)
            halted_now = state is TradingState.HALTED and not closes(session, order)
    except OrderError as error:
        log.error("orders.not_booked", order=order_id, error=str(error))
        with funnel.store.session() as session:
            _unanswered(session, funnel.settings, load_order(session, order_id), error.args[0], False)
        return
    # A halt that came while the order was on its way did not see it.
    if still_open and halted_now and not cancelling:
        cancel(funnel, order_id)


def _unanswered(session: Session, settings: Settings, order: Order, why: str, lost: bool) -> None:
    """No answer makes a submission `unknown`; an order that was known becomes so when the broker knows it no more."""
    if order.state == OrderState.SUBMITTING or (lost and order.state != OrderState.UNKNOWN):
        advance(session, order, OrderState.UNKNOWN, message=why)
        audit.record(session, settings, "unknown", order=order.id, why=why)
    elif order.message != why and order.state in ORDER_WORKING:
        order.message = why
        session.add(order)
        session.flush()
