"""The plan of a run over the portfolio: for each holding, the roles that are due, and those that are not with when."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence

from sqlmodel import Session, col, select

from chordesk.agents.roles import rejecting, research_roles, validators
from chordesk.models.errors import UsageError
from chordesk.models.research import Frozen, Stance
from chordesk.models.tables.runs import Report
from chordesk.models.tables.threads import RoleSchedule
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.workflows.portfolio.due import Due, DueReason, HoldingSnapshot, Limits, ago, due, limits_of
from chordesk.tasks.workflows.portfolio.schedule import RoleScheduleStore
from chordesk.tasks.workflows.speculation import after
from chordesk.tools.holdings import Holding, holdings

PLANS = "portfolio"  # where a run's parameters hold its plans


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


def plan_portfolio(desk: Desk, *, force: bool = False) -> list[HoldingPlan]:
    """Return a plan for each holding of the desk's account, by symbol, as the market has it now. Raises UsageError when
    there is none."""
    account, now = desk.settings.account, desk.market.clock.now()
    held = holdings(desk.tool_context())
    if not held:
        remedy = "`desk research SYMBOL...` researches symbols that you name"
        raise UsageError(f"the account {account} holds nothing: there is nothing to research", remedy=remedy)
    with desk.store.read() as session:
        rows = RoleScheduleStore(account, desk.market.name).rows(session, now)
        reports = _last_reports(session, rows.values())
    limits, roles = limits_of(desk.settings), research_roles(desk.settings)
    return [plan(one, rows, reports, now, limits, roles, asked=force) for one in held]


def _last_reports(session: Session, rows: Iterable[RoleSchedule]) -> Mapping[str, Report]:
    """Return the reports that rows of the schedule name, by id."""
    ids = [row.report_id for row in rows if row.report_id is not None]
    return {report.id: report for report in session.exec(select(Report).where(col(Report.id).in_(ids))).all()}


def plan(
    holding: Holding,
    rows: Mapping[tuple[str, str], RoleSchedule],
    reports: Mapping[str, Report],
    now: dt.datetime,
    limits: Limits,
    roles: Sequence[str],
    *,
    asked: bool = False,
) -> HoldingPlan:
    """Return the plan of one holding.

    rows: the schedule's, by symbol and role; reports: by id, those that the rows name. roles: those of the desk's
    research. asked: every role runs.
    """
    seen = HoldingSnapshot(now, holding.price, holding.unrealized)
    found: list[DueRole] = []
    skipped: list[SkippedRole] = []
    for role in roles:
        row = rows.get((holding.symbol, role))
        report = reports.get(row.report_id or "") if row else None
        # A review without its report does not count: a verdict has nothing to rest on.
        last = HoldingSnapshot(row.last_at, row.last_price, row.last_unrealized) if row and report else None
        answer = due(last, seen, limits, asked=asked)
        if isinstance(answer, Due):
            found.append(DueRole(role=role, reason=answer.reason, why=answer.text))
        elif last is not None and report is not None:
            why = "; ".join((f"looked {ago(now - last.at)} ago", *answer.blind))
            skipped.append(SkippedRole(role=role, due_at=answer.due_at, why=why, report_id=report.id))
    found, skipped = _held_back(found, skipped, reports)
    missing, figures = list(holding.missing), {"price": holding.price, "unrealized": holding.unrealized}
    return HoldingPlan(symbol=holding.symbol, **figures, missing=missing, due=found, skipped=skipped)


def _held_back(
    found: list[DueRole], skipped: list[SkippedRole], reports: Mapping[str, Report]
) -> tuple[list[DueRole], list[SkippedRole]]:
    """Skip the roles after one that ends the research with a REJECT, rejected last and is not due again."""
    stored = (one for one in skipped if one.role in rejecting())
    held: list[SkippedRole] = []
    for last in [one for one in stored if reports[one.report_id or ""].verdict == Stance.REJECT]:
        ended, why = after(validators(), last.role), f"{last.role} rejected it"
        held += [SkippedRole(role=one.role, due_at=last.due_at, why=why) for one in found if one.role in ended]
        found = [one for one in found if one.role not in ended]
    return found, [*skipped, *held]
