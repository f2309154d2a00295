"""Token budgets of a run and of a UTC day, counted from the turns in the database.

A budget is checked before a turn begins and not while it runs, so it is overrun by the turns in flight at that moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from models.research import ReportStatus
from models.settings import Settings
from models.tables.columns import utcnow
from models.tables.runs import Report, Step, Turn
from tasks.engine import kinds

PREFIX = "budget: "


def used_up(session: Session, settings: Settings, run_id: str) -> str | None:
    """Return why a turn of this run may not begin; None when both budgets have something left, or there is none."""
    for used, limit, of, setting in _budgets(session, settings, run_id):
        if used >= limit:
            return f"{PREFIX}the {of} has used {used:,} of {limit:,} tokens ({setting})"
    return None


def has_spare(session: Session, settings: Settings, run_id: str) -> bool:
    """Return whether each budget is less than half used: then turns that may turn out needless are affordable."""
    return all(2 * used < limit for used, limit, _, _ in _budgets(session, settings, run_id))


def _budgets(session: Session, settings: Settings, run_id: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield used tokens, limit, what it is the budget of and its setting, for each budget that is set."""
    if settings.budget_run_tokens is not None:
        yield _tokens(session, Turn.run_id == run_id), settings.budget_run_tokens, "run", "DESK_BUDGET_RUN_TOKENS"
    if settings.budget_day_tokens is not None:
        used = _tokens(session, col(Turn.id) >= _first_id(utcnow()))
        yield used, settings.budget_day_tokens, "UTC day", "DESK_BUDGET_DAY_TOKENS"


def _tokens(session: Session, of: Any) -> int:
    return session.exec(select(func.sum(Turn.total_tokens)).where(of)).one() or 0


def _first_id(now: dt.datetime) -> str:
    """Return the least id of the UTC day: ids begin with their time, so the primary key's index finds the day's
    turns."""
    midnight = now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return f"{int(midnight.timestamp() * 1000):012x}"


def cut_short(session: Session, run_id: str) -> str | None:
    """Return why a run is not whole, the reason of its first skipped report or grouped step; None when no budget cut it
    short."""
    report = session.exec(
        select(Report.reason)
        .where(Report.run_id == run_id, Report.status == ReportStatus.SKIPPED)
        .order_by(col(Report.created_at))
        .limit(1)
    ).first()
    if report is not None:
        return report
    steps = session.exec(select(Step).where(Step.run_id == run_id, col(Step.kind).in_(kinds.grouped()))).all()
    return next(iter(skipped(steps)), None)


def skipped(steps: Iterable[Step]) -> list[str]:
    """Return the reason of each step that a budget kept from its turn."""
    reasons = (str(step.result.get("reason") or "") for step in steps if step.result.get("status") == "skipped")
    return [why for why in reasons if why.startswith(PREFIX)]
