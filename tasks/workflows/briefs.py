"""The subject of a research step's turn, with the answers of earlier roles where its role reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.roles import ROLES
from chordesk.agents.subjects import AnalystSubject, ResearchSubject, analyst_subject, validator_subject
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.research import ReportStatus
from chordesk.models.tables.runs import Report
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tools.registry import ToolContext


def brief_of(desk: Desk, step: ClaimedStep, context: ToolContext) -> ResearchSubject | AnalystSubject:
    """Return the subject of a step that reports on a candidate, of the type that its role has.

    The step's payload has instrument, theses and capital; for an analyst it may have `analysis`, an AnalysisRequest.
    """
    role, payload, settings = ROLES[step.role], step.payload, context.settings
    found = validator_subject(step.subject, payload["instrument"], payload["theses"], settings, payload["capital"])
    if role.subject is not AnalystSubject:
        return found
    asked = payload.get("analysis")
    request = AnalysisRequest.model_validate(asked) if asked is not None else None
    with desk.store.read() as session:
        earlier = completed_answers(session, step.run_id, step.subject, role.reads)
    return analyst_subject(found, settings, request, earlier)


def completed_answers(session: Session, run_id: str, symbol: str, roles: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the answers of the completed reports of these roles on a symbol in a run, by role."""
    rows = session.exec(
        select(Report).where(
            Report.run_id == run_id,
            Report.symbol == symbol,
            Report.status == ReportStatus.COMPLETED,
            col(Report.role).in_(roles),
        )
    ).all()
    return {row.role: row.answer for row in rows if row.answer is not None}
