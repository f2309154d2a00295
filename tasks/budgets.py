"""Token budgets: what a run, and what all runs of a UTC day, have used; counted from the turns in the database.

A budget is looked at before a turn begins and not while it runs, so it is overrun by what is in flight at that moment.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from models.columns import utcnow
from models.research import ReportStatus
from models.settings import Settings
from models.tables import Report, Step, Turn

PREFIX = "budget: "


def used_up(session: Session, settings: Settings, run_id: str) -> str | None:
    """Why a turn of this run may not begin; None when both budgets have something left, or there is none."""
    run_limit, day_limit = settings.budget_run_tokens, settings.budget_day_tokens
    if run_limit is not None:
        used = _tokens(session, Turn.run_id == run_id)
        if used >= run_limit:
            return f"{PREFIX}the run has used {used:,} of {run_limit:,} tokens (DESK_BUDGET_RUN_TOKENS)"
    if day_limit is not None:
        used = _tokens(session, col(Turn.id) >= _first_id(utcnow()))
        if used >= day_limit:
            return f"{PREFIX}the UTC day has used {used:,} of {day_limit:,} tokens (DESK_BUDGET_DAY_TOKENS)"
    return None


def _tokens(session: Session, of: Any) -> int:
    return session.exec(select(func.sum(Turn.total_tokens)).where(of)).one() or 0


def _first_id(now: dt.datetime) -> str:
    """The least id of the UTC day: ids begin with their time, so the primary key's index finds the day's turns."""
    midnight = now.astimezone(dt.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return f"{int(midnight.timestamp() * 1000):012x}"


def cut_short(session: Session, run_id: str) -> str | None:
    """Why a run is not whole: the reason of its first skipped shard or report; None when no budget cut it short."""
    report = session.exec(
        select(Report.reason)
        .where(Report.run_id == run_id, Report.status == ReportStatus.SKIPPED)
        .order_by(col(Report.created_at))
        .limit(1)
    ).first()
    if report is not None:
        return report
    steps = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == "screen_shard")).all()
    return next(iter(skipped(steps)), None)


def skipped(steps: Iterable[Step]) -> list[str]:
    """The reasons of the steps that a budget kept from their turn, one for each."""
    reasons = (str(step.result.get("reason") or "") for step in steps if step.result.get("status") == "skipped")
    return [why for why in reasons if why.startswith(PREFIX)]
