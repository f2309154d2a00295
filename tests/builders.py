"""Rows for tests, each with what it must rest on."""

from __future__ import annotations

import datetime as dt
from importlib.metadata import PackageNotFoundError
from typing import Any

import pytest
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.board import VerdictQuestion
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Candidate, Report, Run, Step, Turn, Verdict

MARKET_NOW = dt.datetime(2010, 8, 12, 19, 55, tzinfo=dt.UTC)


def run_row(**values: Any) -> Run:
    defaults: dict[str, Any] = {
        "id": new_id(),
        "kind": RunKind.SCREEN,
        "state": RunState.RUNNING,
        "account": "paper",
        "provider": "rulebook",
        "model": "rulebook (rules, no model)",
        "market": "replay",
        "market_now": MARKET_NOW,
        "deadline_at": utcnow() + dt.timedelta(hours=1),
    }
    return Run(**{**defaults, **values})


def a_run(session: Session, **values: Any) -> Run:
    run = run_row(**values)
    session.add(run)
    session.flush()
    return run


def a_step(session: Session, run: Run, **values: Any) -> Step:
    defaults: dict[str, Any] = {
        "run_id": run.id,
        "kind": StepKind.REPORT,
        "state": StepState.READY,
        "subject": new_id(),
    }
    step = Step(**{**defaults, **values})
    session.add(step)
    session.flush()
    return step


def a_turn(session: Session, step: Step, **values: Any) -> Turn:
    now = utcnow()
    defaults: dict[str, Any] = {
        "run_id": step.run_id,
        "step_id": step.id,
        "attempt": 1,
        "ordinal": 0,
        "role": step.role or "quick",
        "subject": step.subject,
        "thread_id": "thread-1",
        "kept": False,
        "provider": "rulebook",
        "model": "gpt-5.5",
        "status": "completed",
        "outcome": "completed",
        "started_at": now,
        "finished_at": now,
    }
    turn = Turn(**{**defaults, **values})
    session.add(turn)
    session.flush()
    return turn


def a_candidate(session: Session, run: Run, symbol: str = "AAPL", **values: Any) -> Candidate:
    defaults: dict[str, Any] = {
        "run_id": run.id,
        "symbol": symbol,
        "instrument": "equity",
        "confidence": "medium",
        "origin": "screen",
        "rank": 1,
        "score": 1.0,
    }
    candidate = Candidate(**{**defaults, **values})
    session.add(candidate)
    session.flush()
    return candidate


def a_report(session: Session, step: Step, turn: Turn | None, symbol: str = "AAPL", **values: Any) -> Report:
    run = session.get_one(Run, step.run_id)
    defaults: dict[str, Any] = {
        "run_id": run.id,
        "step_id": step.id,
        "candidate_id": a_candidate(session, run, symbol).id,
        "turn_id": turn.id if turn else None,
        "symbol": symbol,
        "role": step.role or "quick",
        "status": "completed",
        "verdict": "CONFIRMED",
        "confidence": "high",
        "author": "rulebook (rules, no model)",
        "market_at": MARKET_NOW,
    }
    report = Report(**{**defaults, **values})
    session.add(report)
    session.flush()
    return report


def a_verdict_on(session: Session, candidate_id: str, question_id: str | None = None, **values: Any) -> Verdict:
    """question_id: of the question by which it is scored."""
    candidate = session.get_one(Candidate, candidate_id)
    run = session.get_one(Run, candidate.run_id)
    defaults: dict[str, Any] = {
        "run_id": run.id, "candidate_id": candidate.id, "symbol": candidate.symbol, "rating": "BUY",
        "confidence": "high", "summary": "", "market_at": run.market_now,
    }  # fmt: skip
    verdict = Verdict(**{**defaults, **values})
    session.add(verdict)
    session.flush()
    if question_id is not None:
        session.add(VerdictQuestion(verdict_id=verdict.id, question_id=question_id))
        session.flush()
    return verdict


def uninstalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package of any extra is installed, by what their metadata say."""

    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(features, "version", version)
