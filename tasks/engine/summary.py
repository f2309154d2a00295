"""State, notes and figures of a finished run, counted from the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import structlog
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.answers import ReportStatus
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.money import DOLLAR
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run
from chordesk.models.states import REUSED, OrderState, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order, Position
from chordesk.models.tables.runs import Analysis, Candidate, Report, Run, ScreenHit, Step, ToolCall, Turn, Verdict
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import cost_of, skipped, usage_of_budgets, was_run
from chordesk.tools.toolsets import LEFT_OUT

log = structlog.get_logger(__name__)
_REASONS, _REASON_CHARS = 3, 300  # shown of a run whose every report failed
_WITHOUT = {ReportStatus.FAILED: "failed", ReportStatus.REFUSED: "was refused"}
BLOCKED = "blocked"  # status of a step that trading kept from its work; its result has the reason
GOES_ON = "goes_on"  # in the result of a step that goes on in another one: it is no end


def run_state(steps: Sequence[Step]) -> tuple[RunState, list[str]]:
    """Return the state of a run from its ended steps, and a note for each reason that it is not done. done when nothing
    failed and no budget cut anything off; failed when every step of a group or every step of the spine failed; partial
    between. Steps of a group are noted by the join that sums them up, in its result."""
    grouped = kinds.grouped()
    single = [step for step in steps if step.kind not in grouped]
    notes = [note for step in single for note in step.result.get("notes", [])]
    notes += [_note(step) for step in single if step.state == StepState.FAILED]
    short = Counter(step.role for step in steps if step.result.get(LEFT_OUT))
    notes += [
        f"{role}: the model's context had no room for all of what it was to see, in {count} turns"
        for role, count in sorted(short.items())
    ]
    cut = Counter(skipped(single))
    notes += [f"skipped: {why} ({count} steps)" for why, count in sorted(cut.items())]
    off = Counter(str(step.result.get("reason")) for step in single if step.result.get("status") == BLOCKED)
    notes += [f"blocked: {why}" for why in sorted(off)]
    if all(step.state != StepState.FAILED for step in steps):
        return (RunState.PARTIAL if off or skipped(steps) else RunState.DONE), notes
    return (RunState.FAILED if _all_failed(steps) else RunState.PARTIAL), notes


def without_reports(session: Session, run_id: str) -> str | None:
    """The most frequent reasons first; None for any other run. Reports that a budget skipped are not failures."""
    found = session.exec(select(Report.status, Report.reason).where(Report.run_id == run_id)).all()
    ends = {status for status, _ in found}
    if not ends or not ends <= _WITHOUT.keys():
        return None
    reasons = Counter(" ".join((reason or status).split())[:_REASON_CHARS] for status, reason in found)
    shown = "; ".join(f"{reason} ({count} of {len(found)})" for reason, count in reasons.most_common(_REASONS))
    ended = [word for status, word in _WITHOUT.items() if status in ends]
    return f"every report {' or '.join(ended)}: {shown}"


def _all_failed(steps: Sequence[Step]) -> bool:
    spine = kinds.kinds_of(lambda spec: spec.spine)
    ends = [step for step in steps if not step.result.get(GOES_ON)]
    states = ({step.state for step in ends if step.kind in some} for some in (kinds.grouped(), spine))
    return any(found == {StepState.FAILED} for found in states)


def _note(step: Step) -> str:
    name = " ".join(part for part in (step.kind, step.role, step.subject) if part)
    return f"{name}: {step.error or 'failed'}"


def summarise(session: Session, run: Run, settings: Settings) -> dict[str, Any]:
    """Tokens as the provider counted them; the portfolio when an order was filled, analyses by recommendation."""
    settings = _settings_of(run, settings)
    orders = _tally(session, Order.state, run.id)
    portfolio = {"portfolio": _portfolio(session, run.account)} if OrderState.FILLED in orders else {}
    recommended = _tally(session, Analysis.recommendation, run.id)
    denials = _tally(session, Order.denial_code, run.id)
    return {
        "model": run.model,
        "live": settings.trader_live,
        "seconds": round((utcnow() - run.created_at).total_seconds(), 3),
        "symbols": len(run.params.get("symbols", [])),
        "hits": _count(session, ScreenHit, run.id),
        "candidates": _count(session, Candidate, run.id),
        "reports": _tally(session, Report.status, run.id),
        "verdicts": _tally(session, Verdict.rating, run.id),
        **({"analyses": recommended} if recommended else {}),
        "orders": orders,
        **({"denials": denials} if denials else {}),
        "turns": session.exec(select(func.count()).select_from(Turn).where(Turn.run_id == run.id, was_run())).one(),
        "tokens": session.exec(select(func.sum(Turn.total_tokens)).where(Turn.run_id == run.id)).one() or 0,
        "budgets": [one.model_dump() for one in usage_of_budgets(session, settings, run.id)],
        "cost": cost_of(session, settings, run.id).model_dump(),
        "lenses": _by_lens(session, run),
        "tools": _tools(session, run.id),
        "grounding": _grounding(session, run.id),
        **_reused(session, run.id),
        **portfolio,
        **_own_figures(session, run),
    }


def _own_figures(session: Session, run: Run) -> dict[str, Any]:
    """Return the figures of the run's kind. Without those of a package that fails the run ends all the same."""
    if (own := kinds.figures_of(run.kind)) is None:
        return {}
    try:
        with session.begin_nested():  # a statement that fails would end the transaction of the run's end
            return features.built(partial(own, session, run))
    except SettingError as error:
        log.warning("run.no_figures", run=run.id, error=str(error))
        return {}


def _settings_of(run: Run, settings: Settings) -> Settings:
    try:
        return in_run(settings, run.settings, run.account)
    except UsageError:
        return settings


def _portfolio(session: Session, account: str) -> dict[str, Any]:
    rows = session.exec(select(Position).where(Position.account == account).order_by(col(Position.symbol))).all()
    fields, head = {"symbol", "quantity", "average_cost", "currency"}, session.get_one(Account, account)
    return {
        "cash": round(head.cash, 2),
        "positions": [row.model_dump(include=fields, exclude_none=True) for row in rows],
        **({"currency": head.currency} if head.currency != DOLLAR else {}),
    }


def _by_lens(session: Session, run: Run) -> dict[str, int]:
    hits = session.exec(select(ScreenHit.lens, func.count()).where(ScreenHit.run_id == run.id).group_by(ScreenHit.lens))
    return dict.fromkeys(run.params.get("lenses", ()), 0) | dict(hits.all())


def _tools(session: Session, run_id: str) -> dict[str, int]:
    calls = select(ToolCall.tool, func.count()).join(Turn).where(Turn.run_id == run_id).group_by(ToolCall.tool)
    return dict(sorted(session.exec(calls).all(), key=lambda row: (-row[1], row[0])))


def _reused(session: Session, run_id: str) -> dict[str, Any]:
    """Return how many reports and shards counted again, and the tokens of their turns; nothing without any."""
    kinds_of_turn = (StepKind.REPORT, StepKind.SCREEN_SHARD)
    wanted = select(Step.kind, Step.result).where(Step.run_id == run_id, col(Step.kind).in_(kinds_of_turn))
    rows = session.exec(wanted).all()
    reports = [one["tokens"] for kind, one in rows if kind == StepKind.REPORT and one.get("status") == REUSED]
    shards = [one[REUSED]["tokens"] for kind, one in rows if kind == StepKind.SCREEN_SHARD and REUSED in one]
    if not reports and not shards:
        return {}
    return {REUSED: {"reports": len(reports), "shards": len(shards), "tokens": sum(reports) + sum(shards)}}


def _grounding(session: Session, run_id: str) -> dict[str, Any]:
    """Return how many figures the texts of all reports have, and the share of those with a source; None without any."""
    reports = session.exec(select(Report.grounding).where(Report.run_id == run_id)).all()
    texts = session.exec(select(Analysis.grounding).where(Analysis.run_id == run_id)).all()
    found = [row for row in (*reports, *texts) if row is not None]
    figures, supported = (sum(row[name] for row in found) for name in ("figures", "supported"))
    return {"figures": figures, "supported": supported, "share": round(supported / figures, 4) if figures else None}


def _count(session: Session, table: Any, run_id: str) -> int:
    return session.exec(select(func.count()).select_from(table).where(table.run_id == run_id)).one()


def _tally(session: Session, column: Any, run_id: str) -> dict[str, int]:
    found = select(col(column)).where(column.class_.run_id == run_id, col(column).is_not(None))
    values: Iterable[str] = session.exec(found).all()
    return dict(sorted(Counter(values).items()))
