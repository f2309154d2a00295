"""The rows of a person's command to close positions: a run, a decision, and one approved order a position."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

from sqlmodel import Session

from models.contracts import multiplier_of, parse_contract
from models.events import event_log, run_events
from models.market import Quote
from models.orders import BrokerPosition
from models.states import OrderState, RunKind, RunState, StepKind, StepState
from models.tables.columns import utcnow
from models.tables.orders import Order
from models.tables.runs import Decision, Run, Step
from tools.ledger import ensure_account
from tools.orders.audit import log as audit
from tools.orders.checks.evaluation import SizedOrder, ticket_of
from tools.orders.checks.previews import terms_of, write_preview
from tools.orders.records import events
from tools.orders.records.drafts import order_id
from tools.orders.records.states import advance
from tools.orders.submitting import SubmissionContext
from tools.risk import underlying_of


def write_orders(
    session: Session,
    context: SubmissionContext,
    held: Sequence[BrokerPosition],
    quotes: Mapping[str, Quote],
    by: str,
    why: str,
) -> list[str]:
    """Write orders that close these positions at market, approved by the person; return their ids."""
    ensure_account(session, context.broker.name, context.settings.starting_cash)
    decision = _decision(session, context, held, by, why)
    now = context.market.clock.now()
    ids = []
    for ordinal, row in enumerate(held):
        order = _order(decision, ordinal, row, now)
        session.add(order)
        session.flush()
        events.state(session, order, None)
        _approve(session, context, order, quotes[row.symbol], decision)
        ids.append(order.id)
    return ids


def _decision(
    session: Session, context: SubmissionContext, held: Sequence[BrokerPosition], by: str, why: str
) -> Decision:
    now, account = utcnow(), context.broker.name
    run = Run(
        kind=RunKind.FLATTEN,
        state=RunState.DONE,
        account=account,
        provider="person",
        model=by,
        market=context.market.name,
        market_now=context.market.clock.now(),
        notes=[why],
        deadline_at=now,
        finished_at=now,
    )
    session.add(run)
    session.flush()
    event_log.append(session, [run_events.started(run), run_events.completed(run)])
    step = Step(run_id=run.id, kind=StepKind.SUBMIT, state=StepState.DONE, finished_at=now)
    session.add(step)
    session.flush()
    decision = Decision(
        run_id=run.id,
        step_id=step.id,
        account=account,
        status="completed",
        actions=[_action(row, why) for row in held],
        reasoning=why,
        spoken_by=by,
        processed_at=now,
    )
    session.add(decision)
    session.flush()
    return decision


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


def _approve(session: Session, context: SubmissionContext, order: Order, quote: Quote, decision: Decision) -> None:
    settings, by = context.settings, decision.spoken_by
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    asked = {name: getattr(order, name) for name in names}
    audit.record(session, settings, "drafted", order=order.id, by=by, why=decision.reasoning, **asked)
    terms = terms_of(session, settings, context.market.name, context.broker.name)
    sized = SizedOrder(ticket_of(order), quote.price, quote.at)
    made = write_preview(session, settings, order, sized, order.market_at, terms)
    advance(session, order, OrderState.APPROVED)
    audit.record(session, settings, "approved", order=order.id, payload_hash=made.payload_hash, by=by)
