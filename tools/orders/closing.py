"""Closing at a person's command: every position, on a path that can only give exposure back."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.contracts import multiplier_of, parse_contract
from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.models.orders import BrokerPosition, DenialCode, Denied
from chordesk.models.states import ORDER_WORKING, OrderState, RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Decision
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import ensure_account, value
from chordesk.tools.market.prices import AVERAGE_COST, at_cost, quote_of
from chordesk.tools.orders import accounts, audit, booking
from chordesk.tools.orders.booking import advance, load_order, open_orders
from chordesk.tools.orders.checking import SizedOrder, ticket_of
from chordesk.tools.orders.drafting import order_id, write_decision
from chordesk.tools.orders.flow import cancel_open
from chordesk.tools.orders.previews import terms_of, write_preview
from chordesk.tools.orders.snapshots import take_snapshot
from chordesk.tools.orders.submitting import SubmissionContext, book_answer, deny_and_record, poll
from chordesk.tools.risk import deny, exit_note, is_current, underlying_of, within_collar


def write_orders(
    session: Session,
    context: SubmissionContext,
    held: Sequence[BrokerPosition],
    quotes: Mapping[str, Quote],
    by: str,
    why: str,
) -> list[str]:
    """Write orders that close these positions, approved by the person; return their ids. They are market orders; one
    whose last price is old is a limit order within its collar, as every exit is."""
    ensure_account(session, context.broker.name, context.settings.starting_cash)
    actions = [_action(row, why) for row in held]
    account, author = context.broker.name, ("person", by)
    decision = write_decision(session, context.market, account, RunKind.FLATTEN, author, why, actions)
    now = context.market.clock.now()
    ids = []
    for ordinal, row in enumerate(held):
        order = _order(decision, ordinal, row, now)
        note = _limit(context, order, quotes[row.symbol], now)
        session.add(order)
        session.flush()
        booking.state(session, order, None)
        _approve(session, context, order, quotes[row.symbol], decision, note)
        ids.append(order.id)
    return ids


def _action(row: BrokerPosition, why: str) -> dict[str, object]:
    return {
        "symbol": underlying_of(row.symbol),
        "action": "close",
        "side": _side(row),
        "quantity": abs(row.quantity),
        "notional": None,
        "orderType": "market",
        "limitPrice": None,
        "contract": _contract(row),
        "confidence": "high",
        "reasoning": why,
    }


def _side(row: BrokerPosition) -> str:
    return "sell" if row.quantity > 0 else "buy"


def _contract(row: BrokerPosition) -> str | None:
    return row.symbol if parse_contract(row.symbol) else None


def _order(decision: Decision, ordinal: int, row: BrokerPosition, now: dt.datetime) -> Order:
    return Order(
        id=order_id(decision.id, ordinal),
        run_id=decision.run_id,
        decision_id=decision.id,
        ordinal=ordinal,
        account=decision.account,
        symbol=underlying_of(row.symbol),
        action="close",
        side=_side(row),
        quantity=abs(row.quantity),
        order_type="market",
        contract=_contract(row),
        multiplier=multiplier_of(row.symbol),
        state=OrderState.DRAFTED.value,
        market_at=now,
    )


def _limit(context: SubmissionContext, order: Order, quote: Quote, now: dt.datetime) -> str | None:
    """Set a limit within the collar of an old price and return the reason; None if it stays at market."""
    if quote.source == AVERAGE_COST or is_current(quote, now, context.settings):
        return None
    order.order_type = "limit"
    order.limit_price = within_collar(order.side or "", quote.price, context.settings.max_price_collar)
    return exit_note(quote, order.limit_price, stale=True)


def _approve(
    session: Session, context: SubmissionContext, order: Order, quote: Quote, decision: Decision, note: str | None
) -> None:
    settings, by = context.settings, decision.author
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    asked = {name: getattr(order, name) for name in names}
    audit.record(session, settings, "drafted", order=order.id, by=by, why=decision.reasoning, **asked)
    terms = terms_of(session, settings, context.market.name, context.broker.name)
    sized = SizedOrder(ticket_of(order), quote.price, quote.at)
    made = write_preview(session, settings, order, sized, order.market_at, terms, note)
    advance(session, order, OrderState.APPROVED)
    audit.record(session, settings, "approved", order=order.id, payload_hash=made.payload_hash, by=by)


CANCEL_SECONDS = 15.0
FILL_SECONDS = 5.0  # a broker acknowledges a market order first and fills it a moment later
PAUSE_SECONDS = 0.5


def flatten(context: SubmissionContext, by: str, why: str) -> tuple[list[str], list[str]]:
    """Cancel open orders and close every position that the broker shows; return the ids of the closing orders, and of
    orders whose cancellation the broker did not confirm: nothing is closed on their symbols.

    This process takes the account's lease, so that a trade worker submits nothing meanwhile, and releases it at the
    end. The orders are rows like any other, of a decision that a person made. Raises FencedOff when another process
    takes the account, and the broker's error when it does not show its positions.
    """
    token = context.lease.acquire()
    left = _cancelled(context)
    with context.store.read() as session:
        busy = {load_order(session, id_).symbol for id_ in left}
    held = [row for row in context.broker.state().positions if row.quantity and underlying_of(row.symbol) not in busy]
    held.sort(key=lambda row: row.quantity > 0)  # written calls are bought back before the shares that cover them go
    quotes = {row.symbol: _price(context, row) for row in held}
    with context.store.session() as session:
        accounts.require(session, context.broker.name, token)
        ids = write_orders(session, context, held, quotes, by, why) if held else []
    bought_back = sum(row.quantity < 0 for row in held)
    for group in (ids[:bought_back], ids[bought_back:]):
        for id_ in group:
            _send(context, id_)
        _await_fills(context, group)
    with context.store.session() as session:
        accounts.release(session, context.broker.name, token)
    return ids, left


def _cancelled(context: SubmissionContext) -> list[str]:
    """Cancel open orders and wait for their end: they must not fill beside the orders that close their positions."""
    until = time.monotonic() + CANCEL_SECONDS
    left = cancel_open(context, protective=True)
    while left and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        for id_ in left:
            poll(context, take_snapshot(context.market, ()), id_)
        with context.store.read() as session:
            left = [order.id for order in open_orders(session, context.broker.name) if order.state in ORDER_WORKING]
    return left


def _await_fills(context: SubmissionContext, ids: Sequence[str]) -> None:
    """Poll until the closing orders have ended. In simulated time their end comes with a later session."""
    if context.market.clock.day is not None:
        return
    until = time.monotonic() + FILL_SECONDS
    while time.monotonic() < until:
        with context.store.read() as session:
            open_ = [id_ for id_ in ids if load_order(session, id_).state in ORDER_WORKING]
        if not open_:
            return
        time.sleep(PAUSE_SECONDS)
        for id_ in open_:
            poll(context, take_snapshot(context.market, ()), id_)


def _price(context: SubmissionContext, row: BrokerPosition) -> Quote:
    """Return the last price; without one the average cost: an emergency does not wait for a quote."""
    try:
        return quote_of(context.market, row.symbol)
    except MarketError:
        return at_cost(row.symbol, row.average_cost, context.market.clock.now())


def _send(context: SubmissionContext, id_: str) -> None:
    """Send one of these orders, once, if it still only reduces the position that the broker shows."""
    token = context.lease.acquire()
    shown = {row.symbol: row.quantity for row in context.broker.state().positions}
    with context.store.session() as session:
        order = load_order(session, id_)
        accounts.require(session, order.account, token)
        denied = _would_open(order, exact(shown.get(order.contract or order.symbol, 0.0)))
        if denied is not None:
            deny_and_record(session, context.settings, order, denied)
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == id_)).one()
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        audit.record(session, context.settings, "submitting", order=id_, fence=token, payload_hash=found.payload_hash)
        ticket, view = ticket_of(order), value(session, take_snapshot(context.market, ()), order.account)
    book_answer(context, id_, lambda: context.broker.submit(ticket, found, view))


def _would_open(order: Order, held: Decimal) -> Denied | None:
    quantity = exact(order.quantity or 0)
    against = held if order.side == "sell" else -held
    if quantity <= against:
        return None
    reason = f"the broker shows {plain(held)} {order.contract or order.symbol} by now; flatten again"
    limit = f"at most {plain(max(against, Decimal(0)))}"
    return deny(DenialCode.REDUCING, reason, f"{order.side} {plain(quantity)}", limit)
