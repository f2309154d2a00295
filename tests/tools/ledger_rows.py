"""Rows that other rows rest on: a run with its step, turn, candidate, verdict and report, and an order."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from sqlmodel import Session

from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, Turn, Verdict
from chordesk.tools.market.clock import ReplayClock
from tests.builders import a_candidate, a_run, a_step, a_turn, a_verdict_on

NOW = ReplayClock(dt.date(2010, 8, 12)).now()


def add(session: Session, row: Any) -> Any:
    session.add(row)
    session.flush()
    return row


def add_run(session: Session, at: dt.datetime = NOW, **changes: Any) -> Run:
    values = {"kind": "research", "state": "done", "model": "rules", "market_now": at}
    return a_run(session, **values | {"deadline_at": at + dt.timedelta(hours=1)} | changes)


def add_turn(session: Session, run: Run) -> Turn:
    step = a_step(session, run, state="done")
    times = {"started_at": run.market_now, "finished_at": run.market_now}
    return a_turn(session, step, role="risk", subject="AAPL", kept=True, model="rules", thread_id=None, **times)


def add_candidate(session: Session, run: Run, symbol: str) -> Candidate:
    return a_candidate(session, run, symbol, confidence="high", origin="manual")


def add_report(session: Session, run: Run, candidate: Candidate, role: str, **changes: Any) -> Report:
    turn = add_turn(session, run)
    values = {
        "run_id": run.id,
        "step_id": turn.step_id,
        "candidate_id": candidate.id,
        "turn_id": turn.id,
        "symbol": candidate.symbol,
        "role": role,
        "status": "completed",
        "verdict": "CONFIRMED",
        "confidence": "high",
        "summary": f"{role} of {candidate.symbol}",
        "key_risks": ["one", "two"],
        "author": "rulebook (rules, no model)",
        "market_at": run.market_now,
    }
    return add(session, Report(**values | changes))


def add_verdict(session: Session, run: Run, candidate: Candidate, rating: str) -> Verdict:
    values = {"rating": rating, "confidence": "medium", "summary": f"{rating} it", "key_risks": ["one"]}
    return a_verdict_on(session, candidate.id, **values)


def filled_order(session: Session) -> Order:
    run = add_run(session)
    verdict = add_verdict(session, run, add_candidate(session, run, "AAPL"), "BUY")
    turn = add_turn(session, run)
    decision = Decision(
        run_id=run.id,
        step_id=turn.step_id,
        turn_id=turn.id,
        account="paper",
        status="completed",
        author="rulebook (rules, no model)",
    )
    add(session, decision)
    return Order(
        id=str(uuid.uuid4()),
        run_id=run.id,
        decision_id=decision.id,
        verdict_id=verdict.id,
        ordinal=0,
        account="paper",
        symbol="AAPL",
        action="open",
        side="buy",
        state="filled",
        market_at=NOW,
    )
