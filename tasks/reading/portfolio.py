"""The plan and the result of a run over the portfolio: by holding, the roles that ran and why, and those that did not
and when they are due."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from enum import StrEnum

from sqlmodel import Session, select

from chordesk.models.answers import Frozen, ReportStatus, Stance
from chordesk.models.states import RUN_FINAL, STEP_FINAL
from chordesk.models.tables.runs import Report, Run, Step

PLANS = "portfolio"  # where a run's parameters hold its plans
PENDING = "pending"


class DueReason(StrEnum):
    """Reasons why a role runs, in the order of the checks: the first that holds is given."""

    MANUAL = "manual"  # a person wants it, due or not
    INITIAL_RUN = "initial_run"
    UNREALIZED_CHANGE = "unrealized_change_trigger"
    PRICE_MOVE = "price_move_trigger"
    PLAN_REVIEW = "plan_review"  # the review date of its plan came after the last look
    AGE_TIMEOUT = "age_timeout"


class DueRole(Frozen):
    """why: the reason with its figure, such as `unrealized +7%`."""

    role: str
    reason: DueReason
    why: str


class SkippedRole(Frozen):
    """A role that does not run. due_at: market time at which it is due at the latest. why: since when, and what cannot
    make it due earlier. report_id: its last report, on which the verdict rests instead."""

    role: str
    due_at: dt.datetime
    why: str
    report_id: str | None = None


class HoldingPlan(Frozen):
    """One holding as it stood when the run was opened; fields as of `tools.holdings.Holding`."""

    symbol: str
    price: float | None
    unrealized: float | None
    missing: list[str]
    due: list[DueRole]
    skipped: list[SkippedRole]


class ExecutedRole(DueRole):
    """status: of its report, or `pending`, or of its step when that left none."""

    status: str
    verdict: str | None


class HoldingResult(Frozen):
    """One holding.

    price in account currency and unrealized as a share of the cost, as of the run's opening; `missing` has why one is
    null, and such a figure can make no role due.
    """

    symbol: str
    price: float | None
    unrealized: float | None
    missing: list[str]
    executed_roles_with_reasons: list[ExecutedRole]
    skipped_roles: list[SkippedRole]


class PortfolioResearchResult(Frozen):
    holdings: list[HoldingResult]


def portfolio_research(session: Session, run: Run) -> PortfolioResearchResult | None:
    if PLANS not in run.params:
        return None
    reports = {(row.symbol, row.role): row for row in session.exec(select(Report).where(Report.run_id == run.id)).all()}
    steps = {(row.subject, row.role): row for row in session.exec(select(Step).where(Step.run_id == run.id)).all()}
    plans = map(HoldingPlan.model_validate, run.params[PLANS])
    return PortfolioResearchResult(holdings=[_holding(run, plan, reports, steps) for plan in plans])


def _holding(
    run: Run, plan: HoldingPlan, reports: Mapping[tuple[str, str], Report], steps: Mapping[tuple[str, str], Step]
) -> HoldingResult:
    ended = run.state in RUN_FINAL or steps[plan.symbol, ""].state in STEP_FINAL
    executed: list[ExecutedRole] = []
    skipped: list[SkippedRole] = []
    for role in plan.due:
        key = (plan.symbol, role.role)
        report = reports.get(key)
        why = _why_not(report, key in steps, _rejected_by(plan.symbol, role.role, reports)) if ended else None
        if why is not None:
            skipped.append(SkippedRole(role=role.role, due_at=run.market_now, why=f"still due: {why}"))
        else:
            executed.append(_executed(role, report, steps.get(key)))
    figures = plan.model_dump(exclude={"due", "skipped"})
    return HoldingResult(**figures, executed_roles_with_reasons=executed, skipped_roles=[*skipped, *plan.skipped])


def _rejected_by(symbol: str, role: str, reports: Mapping[tuple[str, str], Report]) -> str | None:
    from chordesk.agents.roles import after, rejecting, validators  # they load every tool

    found = (reports.get((symbol, first)) for first in rejecting() if role in after(validators(), first))
    return next((row.role for row in found if row is not None and row.verdict == Stance.REJECT), None)


def _why_not(report: Report | None, begun: bool, rejected_by: str | None) -> str | None:
    if report is not None:
        return report.reason or "it was skipped" if report.status == ReportStatus.SKIPPED else None
    if begun and not rejected_by:
        return None
    return f"{rejected_by} rejected it" if rejected_by else "the run ended before"


def _executed(role: DueRole, report: Report | None, step: Step | None) -> ExecutedRole:
    status = report.status if report is not None else PENDING
    if report is None and step is not None and step.state in STEP_FINAL:
        status = step.state
    verdict = report.verdict if report is not None else None
    return ExecutedRole(**role.model_dump(), status=status, verdict=verdict)


def signed(change: float | None) -> str:
    return "unknown" if change is None else f"{100 * change:+.3g}%"
