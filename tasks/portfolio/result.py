"""What a run over the portfolio came to: by holding, the roles that ran and why, and those that did not and when they
are due."""

from __future__ import annotations

from collections.abc import Mapping

from sqlmodel import Session, select

from agents.researchers import FIRST_ROLE
from models.research import Frozen, ReportStatus, Stance
from models.states import RUN_FINAL, STEP_FINAL
from models.tables import Report, Run, Step
from tasks.portfolio.due import DueReason
from tasks.portfolio.plan import PLANS, DueRole, HoldingPlan, SkippedRole

PENDING = "pending"


class ExecutedRole(Frozen):
    """why: the reason with its figure. status: of its report, or `pending`, or of its step when that left none."""

    role: str
    reason: DueReason
    why: str
    status: str
    verdict: str | None


class HoldingResult(Frozen):
    """One holding. price in account currency and unrealized as a share of the cost, as of the run's opening; `missing`
    says why one is null, and such a figure can make no role due."""

    symbol: str
    price: float | None
    unrealized: float | None
    missing: list[str]
    executed_roles_with_reasons: list[ExecutedRole]
    skipped_roles: list[SkippedRole]


class PortfolioResearchResult(Frozen):
    holdings: list[HoldingResult]


def portfolio_research(session: Session, run: Run) -> PortfolioResearchResult | None:
    """So far, if the run still goes on; None for a run that is not one over the portfolio."""
    if PLANS not in run.params:
        return None
    reports = {(row.symbol, row.role): row for row in session.exec(select(Report).where(Report.run_id == run.id)).all()}
    steps = {(row.subject, row.role): row for row in session.exec(select(Step).where(Step.run_id == run.id)).all()}
    plans = map(HoldingPlan.model_validate, run.params[PLANS])
    return PortfolioResearchResult(holdings=[_holding(run, plan, reports, steps) for plan in plans])


def _holding(
    run: Run,
    plan: HoldingPlan,
    reports: Mapping[tuple[str, str], Report],
    steps: Mapping[tuple[str, str], Step],
) -> HoldingResult:
    ended = run.state in RUN_FINAL or steps[plan.symbol, ""].state in STEP_FINAL
    executed: list[ExecutedRole] = []
    skipped: list[SkippedRole] = []
    for role in plan.due:
        key = (plan.symbol, role.role)
        report = reports.get(key)
        why = _why_not(report, key in steps, reports.get((plan.symbol, FIRST_ROLE))) if ended else None
        if why is not None:
            skipped.append(SkippedRole(role=role.role, due_at=run.market_now, why=f"still due: {why}"))
        else:
            executed.append(_executed(role, report, steps.get(key)))
    return HoldingResult(
        symbol=plan.symbol,
        price=plan.price,
        unrealized=plan.unrealized,
        missing=plan.missing,
        executed_roles_with_reasons=executed,
        skipped_roles=[*skipped, *plan.skipped],
    )


def _why_not(report: Report | None, begun: bool, first: Report | None) -> str | None:
    """Why a role that was due did not run after all; None when it did."""
    if report is not None:
        return report.reason or "it was skipped" if report.status == ReportStatus.SKIPPED else None
    if begun:
        return None
    rejected = first is not None and first.verdict == Stance.REJECT
    return f"{FIRST_ROLE} rejected it" if rejected else "the run ended before"


def _executed(role: DueRole, report: Report | None, step: Step | None) -> ExecutedRole:
    status = report.status if report is not None else PENDING
    if report is None and step is not None and step.state in STEP_FINAL:
        status = step.state
    verdict = report.verdict if report is not None else None
    return ExecutedRole(role=role.role, reason=role.reason, why=role.why, status=status, verdict=verdict)
