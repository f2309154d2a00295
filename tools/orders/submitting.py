"""Submission of an order to its broker, once, and the look-up of orders that were sent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
from sqlalchemy import bindparam
from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, OrderError
from chordesk.models.money import Money
from chordesk.models.orders import BrokerAnswer, DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_FINAL, ORDER_WORKING, OrderState, RunState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Run
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.ledger import value
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import accounts, approvals, audit, halting, mandates
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit_watch import halt_if_broken
from chordesk.tools.orders.booking import (
    NO_ANSWER,
    UNKNOWN_TO_BROKER,
    advance,
    book,
    deny_order,
    load_order,
    lock_order,
)
from chordesk.tools.orders.checking import evaluate, settings_denial, ticket_of
from chordesk.tools.orders.halting import disallowed_orders, only_reduces
from chordesk.tools.orders.previews import price_moved, terms_of, verify, waits_for_person
from chordesk.tools.orders.reconciliation import reconcile
from chordesk.tools.orders.snapshots import Snapshot, take_snapshot, with_facts
from chordesk.tools.orders.stops import in_the_way
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.conduct import halted

log = structlog.get_logger(__name__)

# Quotes are read again when an order before this one took longer.
QUOTES_SECONDS = 5.0
ORDERS_SECONDS = 60.0  # between two checks of open orders and of the account
# Time that a protective order has to end before what it holds is sold.
WITHDRAW_SECONDS = 10.0
PAUSE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class SubmissionContext:
    """The parts that take an order from its row to the broker. lease: this process's right to submit for the
    account."""

    store: Store
    settings: Settings
    market: MarketData
    broker: Broker
    lease: FencingLease


@dataclass(slots=True)
class QuoteCache:
    """Quotes of the symbols that a call needs, never much older than the order they are used for, and the rates of
    their currencies into the account's."""

    market: MarketData
    symbols: frozenset[str]
    money: Money
    _snapshot: Snapshot | None = None
    _at: float = field(default=0.0)

    def snapshot(self) -> Snapshot:
        if self._snapshot is None or time.monotonic() - self._at > QUOTES_SECONDS:
            self._snapshot, self._at = take_snapshot(self.market, self.symbols, self.money), time.monotonic()
        return self._snapshot


def submit_or_poll(context: SubmissionContext, quotes: QuoteCache, order_ids: Iterable[str]) -> None:
    context.lease.acquire()
    halt_if_broken(context.store, context.settings, context.broker.name, context.lease.owner)
    cancelled = cancel_disallowed(context)
    unready = ensure_reconciled(context)
    for order_id in order_ids:
        if order_id not in cancelled and not submit(context, quotes.snapshot(), order_id, unready):
            poll(context, quotes.snapshot(), order_id)


def cancel_disallowed(context: SubmissionContext) -> set[str]:
    """Return the ids of orders that may no longer fill."""
    with context.store.read() as session:
        ids = disallowed_orders(session, context.settings, context.broker.name)
    for order_id in ids:
        cancel(context, order_id)
    return set(ids)


def ensure_reconciled(context: SubmissionContext, max_age_seconds: float | None = None) -> Denied | None:
    """Reconcile the account unless this process did so lately; return a denial when that fails, for nothing may be sent
    then. Unexplained differences halt the account, which `submit` then finds."""
    age = context.lease.seconds_since_reconciled()
    if age is not None and age <= (max_age_seconds or 2 * ORDERS_SECONDS):
        return None
    try:
        reconcile(context.store, context.settings, context.broker, context.lease.owner)
    except DeskError as error:
        log.warning("orders.not_reconciled", account=context.broker.name, error=str(error))
        reason = f"account {context.broker.name} could not be compared with its broker: {error}"
        return deny(DenialCode.NOT_RECONCILED, reason, "not reconciled", "reconciled before the first order")
    context.lease.mark_reconciled()
    return None


def submit(context: SubmissionContext, snapshot: Snapshot, order_id: str, unready: Denied | None) -> bool:
    """Send an approved order, once; False when the order is not at that point. `submitting` is written, with the
    fencing token, before the broker gets the order, and every check that could forbid it runs in that same transaction.
    A process that dies after it leaves an order that is only looked up."""
    with context.store.read() as session:
        order = load_order(session, order_id)
    if order.state != OrderState.APPROVED:
        return False
    snapshot = with_facts(snapshot, context.store, context.settings, context.market, order)
    for _ in range(2):
        blocking = _submit(context, snapshot, order_id, unready)
        if not isinstance(blocking, list):
            return blocking
        if not all(withdraw(context, protective) for protective in blocking):
            log.warning("orders.kept_waiting", order=order_id, until="its protective order is cancelled")
            break
    return True


def _submit(context: SubmissionContext, snapshot: Snapshot, order_id: str, unready: Denied | None) -> bool | list[str]:
    """Send an approved order, as `submit` does; or return the ids of protective orders that hold what it gives away,
    and change nothing."""
    token = context.lease.acquire()
    with context.store.session() as session:
        order = lock_order(session, order_id)
        if order.state != OrderState.APPROVED:
            return False
        accounts.require(session, order.account, token)
        preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
        denied = _submission_denial(session, context, snapshot, order, preview) or unready
        if denied is not None or preview is None:
            if denied is not None:
                deny_and_record(session, context.settings, order, denied)
            return True
        if blocking := in_the_way(session, order):
            return blocking
        # Approved on a later day of simulated time, it meets no session before that.
        late = {"market_at": snapshot.now} if context.market.clock.day is not None else {}
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow(), **late)
        audit.record(
            session, context.settings, "submitting", order=order.id, fence=token, payload_hash=preview.payload_hash
        )
        ticket, view = ticket_of(order), value(session, snapshot, order.account)
    book_answer(context, order_id, lambda: context.broker.submit(ticket, preview, view))
    return True


_SENT = (
    select(Order, Preview)
    .join(Preview, col(Preview.order_id) == col(Order.id))
    .where(col(Order.id) == bindparam("order"), col(Order.state).in_(ORDER_WORKING))
)


def poll(context: SubmissionContext, snapshot: Snapshot, order_id: str) -> None:
    """Look up an order that was sent. Nothing is ever sent again."""
    with context.store.read() as session:
        found = session.exec(_SENT, params={"order": order_id}).one_or_none()
        if found is None:
            return
        order, preview = found
        ticket, view = ticket_of(order), value(session, snapshot, order.account)
    book_answer(context, order_id, lambda: context.broker.lookup(ticket, preview, view))


def cancel(context: SubmissionContext, order_id: str) -> None:
    """Cancel an order that was sent; always allowed. An answer that cannot be written is not booked: the order is
    looked up again."""
    with context.store.read() as session:
        order = load_order(session, order_id)
        if order.state not in ORDER_WORKING:
            return
        ticket = ticket_of(order)
    try:
        book_answer(context, order_id, lambda: context.broker.cancel(ticket), cancelling=True)
    except (OrderError, SQLAlchemyError) as error:
        log.error("orders.not_booked", order=order_id, error=str(error))


def withdraw(context: SubmissionContext, order_id: str) -> bool:
    """Cancel a protective order and wait for its end; return whether it has ended, filled or not. It is looked up
    first: on paper, a session may have filled it since the last look."""
    until = time.monotonic() + WITHDRAW_SECONDS
    unpriced = take_snapshot(context.market, ())
    poll(context, unpriced, order_id)
    cancel(context, order_id)
    while not _ended(context, order_id):
        if time.monotonic() >= until:
            return False
        time.sleep(PAUSE_SECONDS)
        poll(context, unpriced, order_id)
    return True


def _ended(context: SubmissionContext, order_id: str) -> bool:
    with context.store.read() as session:
        return load_order(session, order_id).state in ORDER_FINAL


def deny_and_record(session: Session, settings: Settings, order: Order, denied: Denied) -> None:
    """Deny an order and write that to the audit log."""
    deny_order(session, order, denied)
    audit.record(session, settings, "denied", order=order.id, **denied.model_dump(mode="json", exclude={"cleared"}))


def _submission_denial(
    session: Session, context: SubmissionContext, snapshot: Snapshot, order: Order, preview: Preview | None
) -> Denied | None:
    """Every rule runs again: an approval can take its time."""
    settings, broker = context.settings, context.broker
    state, why = halting.trading_state(session, settings, order.account)
    if state is TradingState.HALTED:
        return halted(state, why, order.account)
    terms = terms_of(session, settings, context.market.name, broker.name, snapshot.terms_of(order.symbol))
    denied = (
        _run_denial(session, order)
        or _terms_denial(settings, order)
        or settings_denial(session, settings, order)
        or _mandate_denial(session, context)
        or verify(order, preview, terms, snapshot.now)
    )
    if denied is not None or preview is None:
        return denied
    denied = _approval_denial(session, context, order, preview)
    if denied is not None:
        return denied
    if (held := mandates.hold_of(session, settings, order)) is not None:
        return deny(DenialCode.NOT_TRADABLE, held, "verdict CAUTION", "a mandate that sends CAUTION")
    found = evaluate(session, order, snapshot, settings, context.market.name, broker.name)
    if isinstance(found, Denied):
        return found
    denied = price_moved(preview, found.price, settings.max_price_collar)
    if denied is None and broker.real_money:
        denied = mandates.check(session, settings, order, preview, found.price)
    return denied


def _terms_denial(settings: Settings, order: Order) -> Denied | None:
    """The order may have been drafted for another broker, or by a person."""
    option = order.contract is not None or bool(order.legs)
    wrong = settings.refusal(order.order_type or "", order.time_in_force or "day", option=option)
    return deny(DenialCode.MALFORMED, *wrong) if wrong is not None else None


def _run_denial(session: Session, order: Order) -> Denied | None:
    """An order whose run has ended needs a person's approval: a person may answer after the end."""
    # The lock makes a stop that comes at the same time wait until the order is on its way, or this until it is known.
    run = session.get_one(Run, order.run_id, with_for_update={"read": True}, populate_existing=True)
    allowed = {RunState.RUNNING}
    if approvals.approved(session, order.id) is not None:
        allowed |= {RunState.DONE, RunState.PARTIAL}
    if run.state in allowed:
        return None
    reason = f"run {run.id} is {run.state}: nothing of it is submitted any more"
    return deny(DenialCode.RUN_STOPPED, reason, run.state, " or ".join(sorted(allowed)))


def _mandate_denial(session: Session, context: SubmissionContext) -> Denied | None:
    """Checked before the preview, which is stale as well once its mandate ended."""
    if not context.broker.real_money:
        return None
    found = mandates.in_force(session, context.settings, context.broker.name)
    return found if isinstance(found, Denied) else None


def _approval_denial(session: Session, context: SubmissionContext, order: Order, preview: Preview) -> Denied | None:
    approval = approvals.approved(session, order.id)
    if approval is None and not waits_for_person(context.settings, context.broker.real_money, preview):
        return None
    if approval is not None and approval.payload_hash == preview.payload_hash:
        return None
    given = "approval of another payload" if approval is not None else "no approval"
    return deny(DenialCode.APPROVAL_DENIED, "no person approved this order as previewed", given, "approved by a person")


def book_answer(
    context: SubmissionContext, order_id: str, call: Callable[[], BrokerAnswer | None], *, cancelling: bool = False
) -> None:
    """Call the broker and book its answer, or record that there was none."""
    try:
        answer, note = call(), UNKNOWN_TO_BROKER
        lost = answer is None
    except Exception as error:
        # Whatever was raised, the order may be there.
        if not isinstance(error, DeskError):
            log.exception("orders.broker_raised", order=order_id)
        reason = str(error) if isinstance(error, DeskError) else type(error).__name__
        answer, lost, note = None, False, f"{NO_ANSWER}: {reason}"
    try:
        with context.store.session() as session:
            order = load_order(session, order_id)
            if order.state not in ORDER_WORKING:
                return  # another process booked the answer meanwhile
            if answer is None:
                _mark_unanswered(session, context.settings, order, note, lost)
            else:
                book(session, context.settings, order, answer)
            ends = not cancelling and order.state in ORDER_WORKING and _halted_meanwhile(session, context, order)
    except OrderError as error:
        log.error("orders.not_booked", order=order_id, error=str(error))
        with context.store.session() as session:
            _mark_unanswered(session, context.settings, load_order(session, order_id), error.args[0], False)
        return
    if ends:
        cancel(context, order_id)


def _halted_meanwhile(session: Session, context: SubmissionContext, order: Order) -> bool:
    """Return whether a halt, which did not see an order that was on its way, ends it."""
    state, _ = halting.trading_state(session, context.settings, order.account)
    return state is TradingState.HALTED and not only_reduces(session, order)


def _mark_unanswered(session: Session, settings: Settings, order: Order, why: str, lost: bool) -> None:
    """Move a submission without an answer to `unknown`, and an order that the broker no longer knows."""
    if order.state == OrderState.SUBMITTING or (lost and order.state != OrderState.UNKNOWN):
        advance(session, order, OrderState.UNKNOWN, message=why)
        audit.record(session, settings, "unknown", order=order.id, why=why)
    elif order.message != why and order.state in ORDER_WORKING:
        order.message = why
        session.add(order)
        session.flush()
