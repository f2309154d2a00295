"""The rows of a person's command to close positions: a run, a decision, and one approved order a position."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from sqlmodel import Session

from chordesk.models.contracts import multiplier_of, parse_contract
from chordesk.models.market import Quote
from chordesk.models.orders import BrokerPosition
from chordesk.models.states import OrderState, RunKind
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.quotes import AVERAGE_COST
from chordesk.tools.orders.audit import log as audit
from chordesk.tools.orders.checks.evaluation import SizedOrder, ticket_of
from chordesk.tools.orders.checks.previews import terms_of, write_preview
from chordesk.tools.orders.records import events
from chordesk.tools.orders.records.decisions import write_decision
from chordesk.tools.orders.records.drafts import order_id
from chordesk.tools.orders.records.states import advance
from chordesk.tools.orders.submitting import SubmissionContext
from chordesk.tools.risk import exit_note, is_current, limits_of, underlying_of, within_collar


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
        events.state(session, order, None)
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
    """Give an order a limit within the collar of an old price; return the reason, None where it stays at market: the
    price is current, or none is known, and the person has decided already."""
    limits = limits_of(context.settings)
    if quote.source == AVERAGE_COST or is_current(quote, now, limits):
        return None
    order.order_type = "limit"
    order.limit_price = within_collar(order.side or "", quote.price, limits.max_price_collar)
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
