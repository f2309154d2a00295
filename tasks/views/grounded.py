"""The groundings of a run's reports: where each figure of their texts came from."""

from __future__ import annotations

from sqlmodel import Session, col, select

from chordesk.agents.grounding.report import Grounding
from chordesk.models.answers import Frozen
from chordesk.models.tables.runs import Analysis, Report, Run


class GroundedReport(Frozen):
    """The grounding of one report, or of the text around an analysis. report_id: the row's. confidence: what counts;
    claimed: the model's own, None of a report that has none; code's own for an analysis. verdict, claimed_verdict: the
    same of its stance; None of an analysis."""

    symbol: str
    role: str
    report_id: str
    confidence: str | None
    claimed: str | None
    grounding: Grounding
    verdict: str | None = None
    claimed_verdict: str | None = None


def grounded_reports(session: Session, run: Run) -> list[GroundedReport]:
    """Return the reports and texts of a run in which figures were looked for, by symbol and role."""
    rows = session.exec(
        select(Report).where(Report.run_id == run.id).order_by(col(Report.symbol), col(Report.role))
    ).all()
    analyses = session.exec(select(Analysis).where(Analysis.run_id == run.id)).all()
    found = [
        GroundedReport.of(
            row,
            report_id=row.id,
            claimed=(row.answer or {}).get("confidence"),
            claimed_verdict=(row.answer or {}).get("verdict"),
            grounding=row.grounding,
        )
        for row in rows
        if row.grounding is not None
    ]
    found += [
        GroundedReport.of(row, report_id=row.id, role="synthesis", claimed=row.confidence, grounding=row.grounding)
        for row in analyses
        if row.grounding is not None
    ]
    return sorted(found, key=lambda one: (one.symbol, one.role))
