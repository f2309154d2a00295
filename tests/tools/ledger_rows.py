"""Rows that other rows rest on: a run with its step, turn, candidate, verdict and report, and an order."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

from sqlmodel import Session

from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, Step, Turn, Verdict
from chordesk.tools.market.clock import ReplayClock

NOW = ReplayClock(dt.date(2010, 8, 12)).now()


def add(session: Session, row: Any) -> Any:
    session.add(row)
    session.flush()
    return row


def add_run(session: Session, at: dt.datetime = NOW, **changes: Any) -> Run:
    values = {
        "kind": "research",
        "state": "done",
        "account": "paper",
        "provider": "rulebook",
        "model": "rules",
        "market": "replay",
        "market_now": at,
        "deadline_at": at + dt.timedelta(hours=1),
    }
    return add(session, Run(**values | changes))


def add_turn(session: Session, run: Run) -> Turn:
    step = add(session, Step(run_id=run.id, kind="report", state="done", subject=new_id()))
    turn = Turn(
        run_id=run.id,
        step_id=step.id,
        attempt=1,
        ordinal=0,
        role="risk",
        subject="AAPL",
        kept=True,
        provider="rulebook",
        model="rules",
        status="completed",
        outcome="completed",
        started_at=run.market_now,
        finished_at=run.market_now,
    )
    return add(session, turn)


def add_candidate(session: Session, run: Run, symbol: str) -> Candidate:
    values = {"instrument": "equity", "confidence": "high", "origin": "manual", "rank": 1, "score": 1.0}
    return add(session, Candidate(run_id=run.id, symbol=symbol, **values))


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
    about = {"run_id": run.id, "candidate_id": candidate.id, "symbol": candidate.symbol, "market_at": run.market_now}
    return add(session, Verdict(**about, **values))


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
