"""The groundings of a run's reports: where each figure of their texts came from."""

from __future__ import annotations

from sqlmodel import Session, col, select

from agents.grounding.report import Grounding
from models.research import Frozen
from models.tables.runs import Report, Run


class GroundedReport(Frozen):
    """One report's grounding. confidence: what counts; claimed: the model's own, None of a report that has none."""

    symbol: str
    role: str
    report_id: str
    confidence: str | None
    claimed: str | None
    grounding: Grounding


def grounded_reports(session: Session, run: Run) -> list[GroundedReport]:
    """Return the reports of a run in which figures were looked for, by symbol and role."""
    rows = session.exec(
        select(Report).where(Report.run_id == run.id).order_by(col(Report.symbol), col(Report.role))
    ).all()
    return [
        GroundedReport.of(row, report_id=row.id, claimed=(row.answer or {}).get("confidence"), grounding=row.grounding)
        for row in rows
        if row.grounding is not None
    ]
