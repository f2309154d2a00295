"""Decisions: claimed once, put on record with the reasons for which some actions become no order, and written for those
that no model made: a person's command, or the desk's own protection of a position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from chordesk.models.events import event_log, run_events
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Decision, Run, Step
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.records.drafts import order_id


def write_decision(
    session: Session,
    market: MarketData,
    account: str,
    kind: RunKind,
    author: tuple[str, str],
    why: str,
    actions: Sequence[dict[str, Any]],
) -> Decision:
    """Write a run that is done, its step and its decision; return the decision. author: (provider, name)."""
    now, (provider, name) = utcnow(), author
    run = Run(
        kind=kind,
        state=RunState.DONE,
        account=account,
        provider=provider,
        model=name,
        market=market.name,
        market_now=market.clock.now(),
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
        actions=list(actions),
        reasoning=why,
        author=name,
        processed_at=now,
    )
    session.add(decision)
    session.flush()
    return decision


def claim_decision(session: Session, decision: Decision) -> bool:
    """Mark the decision as processed; return True for the one caller that did so first."""
    taken = session.exec(
        update(Decision)
        .where(col(Decision.id) == decision.id, col(Decision.processed_at).is_(None))
        .values(processed_at=utcnow())
        .execution_options(synchronize_session=False)
    )
    return taken.rowcount == 1


def decision_facts(session: Session, decision: Decision) -> dict[str, Any]:
    """Return the facts of a decision whose orders are drafted: its actions as given, and the reason for each that
    goes no further."""
    suppressed = [
        {"ordinal": ordinal, "why": why}
        for ordinal, action in enumerate(decision.actions)
        if (why := _suppressed(session, decision, ordinal, action)) is not None
    ]
    return {
        "decision": decision.id,
        "run_id": decision.run_id,
        "account": decision.account,
        "by": decision.author,
        "why": decision.reasoning or None,
        "actions": decision.actions,
        "suppressed": suppressed,
    }


def _suppressed(session: Session, decision: Decision, ordinal: int, action: Any) -> str | None:
    """Return the reason for which an action is no order, or was denied at once; None when it goes on."""
    order = session.get(Order, order_id(decision.id, ordinal))
    if order is not None:
        return f"{order.denial_code}: {order.denial_reason}" if order.denial_code else None
    fields = action if isinstance(action, Mapping) else {}
    return f"{fields.get('action')}: {fields.get('reasoning') or 'no reason given'}"
