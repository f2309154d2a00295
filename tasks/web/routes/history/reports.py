"""Routes of reports and verdicts by themselves."""

from __future__ import annotations

from fastapi import APIRouter

from chordesk.tasks.views.history.reports import (
    ReportDetail,
    ReportRow,
    VerdictDetail,
    list_reports,
    report_detail,
    verdict_detail,
)
from chordesk.tasks.views.run_view import find_run
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import Id, IdFilter, Limit, Offset, TextFilter
from chordesk.tasks.web.security import JsonRoute

router = APIRouter(tags=["reports"], route_class=JsonRoute)


@router.get("/reports")
def reports(
    context: Context,
    run: IdFilter = None,
    symbol: IdFilter = None,
    role: TextFilter = None,
    limit: Limit = 20,
    offset: Offset = 0,
) -> list[ReportRow]:
    """List reports without their answers, the newest first."""
    with context.store.read() as session:
        run_id = find_run(session, run).id if run else None
        name = symbol.upper() if symbol else None
        return list_reports(session, limit, offset, run_id=run_id, symbol=name, role=role)


@router.get("/reports/{report_id}")
def report(context: Context, report_id: Id) -> ReportDetail:
    """Show a report: its structured answer, each figure with the tool call that it comes from, its turn and thread, and
    the verdicts that count it."""
    with context.store.read() as session:
        return report_detail(session, report_id)


@router.get("/verdicts/{verdict_id}")
def verdict(context: Context, verdict_id: Id) -> VerdictDetail:
    """Show a verdict: the rule that decided it, the reports that it rests on, what was missing, and its orders."""
    with context.store.read() as session:
        return verdict_detail(session, verdict_id)
