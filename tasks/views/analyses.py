"""The analyses of a run: each symbol's synthesis, with its reports' own texts, its chart and its order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.analysis import AnalysisCheck
from chordesk.models.answers import Frozen
from chordesk.models.database.artifacts import path_in_home
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Analysis, Artifact, Candidate, Report, Run, Turn, VerdictReport


class AnalystText(Frozen):
    """The text of a report: its author's, not the desk's. reason: why it is not completed."""

    role: str
    status: str
    verdict: str | None
    confidence: str | None
    summary: str
    reason: str | None
    author: str


class AnalysisOrder(Frozen):
    """The order of a selected contract. suppressed: why it was denied."""

    order_id: str
    state: str
    side: str | None
    quantity: float | None
    limit_price: float | None
    suppressed: str | None
    message: str | None


class AnalysisRow(Frozen):
    """One analysis; fields as of `models.tables.analysis.Analysis`. picture, digest: of the last chart that an analyst
    saw; picture: its file, relative to the data folder of the worker that ran the turn."""

    id: str
    symbol: str
    strategy: str
    recommendation: str
    rating: str
    confidence: str
    contract: str | None
    figures: dict[str, Any]
    checks: list[AnalysisCheck]
    reasons: list[str]
    key_risks: list[str]
    texts: list[AnalystText]
    picture: str | None
    digest: str | None
    headline: str | None
    summary: str | None
    author: str | None
    order: AnalysisOrder | None


def analyses(session: Session, run: Run) -> list[AnalysisRow]:
    """Return the analyses of a run by rank; none for a run of another kind."""
    joined = select(Analysis).join(Candidate, col(Candidate.id) == col(Analysis.candidate_id))
    rows = session.exec(joined.where(Analysis.run_id == run.id).order_by(col(Candidate.rank))).all()
    if not rows:
        return []
    texts, pictures, orders = _texts(session, run.id), _pictures(session, run.id), _orders(session, run.id)
    return [
        AnalysisRow.of(
            row,
            texts=texts[row.verdict_id],
            picture=path_in_home(*pictures[row.symbol]) if row.symbol in pictures else None,
            digest=pictures[row.symbol][0] if row.symbol in pictures else None,
            order=orders.get(row.symbol),
        )
        for row in rows
    ]


def _texts(session: Session, run_id: str) -> dict[str, list[AnalystText]]:
    found = session.exec(
        select(VerdictReport.verdict_id, Report)
        .join(Report, col(Report.id) == col(VerdictReport.report_id))
        .where(Report.run_id == run_id)
        .order_by(col(Report.created_at))
    ).all()
    texts: dict[str, list[AnalystText]] = defaultdict(list)
    for verdict_id, report in found:
        texts[verdict_id].append(AnalystText.of(report))
    return texts


def _pictures(session: Session, run_id: str) -> dict[str, tuple[str, str]]:
    """Return digest and media type of each symbol's last picture."""
    found = session.exec(
        select(Turn.subject, Artifact.digest, Artifact.kind)
        .join(Turn, col(Turn.id) == col(Artifact.turn_id))
        .where(Artifact.run_id == run_id)
        .order_by(col(Artifact.created_at), col(Artifact.id))
    ).all()
    return {symbol: (digest, kind) for symbol, digest, kind in found}


def _orders(session: Session, run_id: str) -> dict[str, AnalysisOrder]:
    rows = session.exec(select(Order).where(Order.run_id == run_id).order_by(col(Order.ordinal))).all()
    return {
        row.symbol: AnalysisOrder.of(row, order_id=row.id, suppressed=row.denial_reason if row.denial_code else None)
        for row in rows
    }
