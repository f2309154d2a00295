"""What a finished run amounts to: its state, its notes and its figures, all counted from the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, func
from sqlmodel import Session, col, select

from models.columns import utcnow
from models.order_tables import Account, Order, Position
from models.research import ReportStatus
from models.settings import Settings
from models.states import OrderState, RunState, StepKind, StepState
from models.tables import Candidate, Report, Run, ScreenHit, Step, Turn, Verdict
from tasks.budgets import skipped

# Steps without which a run has done nothing of what it was started for; a single lens or report is not among them.
_SPINE = frozenset({StepKind.MERGE, StepKind.CONCLUDE, StepKind.DECIDE, StepKind.SUBMIT})
NO_CANDIDATES = "no candidates; no decision was made"


def run_state(steps: Sequence[Step]) -> tuple[RunState, list[str]]:
    """done when nothing failed and no budget cut anything off; failed when every lens failed or no step of the spine
    got through; partial between. With a note for each reason."""
    failed = [step for step in steps if step.state == StepState.FAILED]
    notes = [note for step in steps if step.kind == StepKind.MERGE for note in step.result.get("notes", [])]
    notes += [_note(step) for step in failed if step.kind != StepKind.SCREEN_SHARD]
    cut = Counter(skipped(step for step in steps if step.kind != StepKind.SCREEN_SHARD))
    notes += [f"skipped: {why} ({count} steps)" for why, count in sorted(cut.items())]
    if any(step.kind == StepKind.MERGE and step.result.get("candidates") == 0 for step in steps):
        notes.append(NO_CANDIDATES)
    if not failed:
        return (RunState.PARTIAL if skipped(steps) else RunState.DONE), notes
    return (RunState.FAILED if _all_failed(steps) else RunState.PARTIAL), notes


def _all_failed(steps: Sequence[Step]) -> bool:
    shards = [step.state for step in steps if step.kind == StepKind.SCREEN_SHARD]
    spine = [step.state for step in steps if step.kind in _SPINE]
    return any(states and set(states) == {StepState.FAILED} for states in (shards, spine))


def _note(step: Step) -> str:
    name = " ".join(part for part in (step.kind, step.role, step.subject) if part)
    return f"{name}: {step.error or 'failed'}"


def summarise(session: Session, run: Run, settings: Settings) -> dict[str, Any]:
    """The figures of a run; tokens as the provider counted them. With the portfolio when an order was filled."""
    orders = _tally(session, Order.state, run.id)
    portfolio = {"portfolio": _portfolio(session, run.account)} if OrderState.FILLED in orders else {}
    return {
        "spokenBy": run.model,
        "live": settings.trader_live,
        "seconds": round((utcnow() - run.created_at).total_seconds(), 3),
        "symbols": len(run.params.get("symbols", [])),
        "hits": _count(session, ScreenHit, run.id),
        "candidates": _count(session, Candidate, run.id),
        "reports": _tally(session, Report.status, run.id),
        "verdicts": _tally(session, Verdict.rating, run.id),
        "orders": orders,
        "turns": session.exec(select(func.count()).select_from(Turn).where(Turn.run_id == run.id, was_run())).one(),
        "tokens": session.exec(select(func.sum(Turn.total_tokens)).where(Turn.run_id == run.id)).one() or 0,
        **portfolio,
    }


def was_run() -> ColumnElement[bool]:
    """A turn that was begun, not the row of one that a budget kept from it."""
    return col(Turn.status) != ReportStatus.SKIPPED


def _portfolio(session: Session, account: str) -> dict[str, Any]:
    """Cash in account currency, and shares with their average cost, as the ledger has them now."""
    rows = session.exec(select(Position).where(Position.account == account).order_by(col(Position.symbol))).all()
    fields = {"symbol", "quantity", "average_cost"}
    return {
        "cash": round(session.get_one(Account, account).cash, 2),
        "positions": [row.model_dump(include=fields) for row in rows],
    }


def _count(session: Session, table: Any, run_id: str) -> int:
    return session.exec(select(func.count()).select_from(table).where(table.run_id == run_id)).one()


def _tally(session: Session, column: Any, run_id: str) -> dict[str, int]:
    table = column.class_
    values: Iterable[str] = session.exec(select(col(column)).where(table.run_id == run_id)).all()
    return dict(sorted(Counter(values).items()))
