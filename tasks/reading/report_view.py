"""Reports, verdicts and analyses by themselves, each figure with the tool call that it comes from."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.answers import Citation, Frozen, Grounding, ReportStatus
from chordesk.models.database.blobs import path_in_home
from chordesk.models.errors import NotFound
from chordesk.models.groups import by_key
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import (
    Analysis,
    Artifact,
    Candidate,
    Report,
    Run,
    ToolCall,
    Turn,
    Verdict,
    VerdictReport,
)
from chordesk.models.thesis import Pooled
from chordesk.tasks.reading.chain import rule_of
from chordesk.tools import rogue_calls
from chordesk.tools.rogue_calls import RogueRow
from chordesk.tools.scoring.verdict_calibration import odds_of_run

EVEN = 0.5


class CitedFigure(Citation):
    """A figure with its source. call_id, other_call_id: rows of the tool calls; null for a figure of the question."""

    call_id: str | None
    other_call_id: str | None


class ReportDetail(Frozen):
    """A report. account: of its run. claimed: the model's own confidence, where the report's is what counts. cited,
    unsupported: figures of its texts with a source, and those without, the first of each. calls: of all turns of its
    attempt, as citations count them; verdicts: those that count it."""

    report: Row[Report]
    account: str
    claimed: str | None
    cited: list[CitedFigure]
    unsupported: list[dict[str, Any]]
    turn: Row[Turn]
    calls: list[Row[ToolCall]]
    pictures: list[Row[Artifact]]
    verdicts: list[Row[Verdict]]


class VerdictDetail(Frozen):
    """A verdict. account: of its run. rule: which rule gave its rating; probability: that its symbol beats the median,
    null until a calibration has found it; reports: those it rests on; rogue: rogue calls of these and of its hits;
    orders: ids of those that rest on it, of any run."""

    verdict: Row[Verdict]
    account: str
    candidate: Row[Candidate]
    rule: str
    probability: float | None
    market_at: dt.datetime
    analysis_id: str | None
    reports: list[Row[Report]]
    orders: list[str]
    rogue: list[RogueRow]


def list_reports(
    session: Session,
    limit: int,
    offset: int = 0,
    *,
    run_id: str | None = None,
    symbol: str | None = None,
    role: str | None = None,
) -> Sequence[Report]:
    """Return reports, the newest first; None as a filter matches everything."""
    filters = ((Report.run_id, run_id), (Report.symbol, symbol), (Report.role, role))
    query = select(Report).where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    return session.exec(query.order_by(col(Report.id).desc()).offset(offset).limit(limit)).all()


def report_detail(session: Session, report_id: str) -> ReportDetail:
    row = session.get(Report, report_id)
    if row is None:
        raise NotFound(f"there is no report {report_id!r}", remedy="GET /reports lists them")
    turn = session.get_one(Turn, row.turn_id)
    calls = _calls(session, turn)
    grounding = Grounding.model_validate(row.grounding) if row.grounding is not None else None
    ids = {one.ordinal: one.id for one in calls}
    return ReportDetail(
        report=row,
        account=session.get_one(Run, row.run_id).account,
        claimed=(row.answer or {}).get("confidence"),
        cited=[_cited(one, ids) for one in grounding.citations] if grounding is not None else [],
        unsupported=[one.model_dump() for one in grounding.unsupported] if grounding is not None else [],
        turn=turn,
        calls=calls,
        pictures=_pictures(session, calls),
        verdicts=_uses(session, row.id),
    )


def verdict_detail(session: Session, verdict_id: str) -> VerdictDetail:
    row = session.get(Verdict, verdict_id)
    if row is None:
        raise NotFound(f"there is no verdict {verdict_id!r}", remedy="GET /runs/RUN/verdicts lists a run's")
    candidate = session.get_one(Candidate, row.candidate_id)
    analysis = session.exec(select(Analysis).where(Analysis.verdict_id == row.id)).first()
    reports = session.exec(
        select(Report)
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .where(VerdictReport.verdict_id == row.id)
        .order_by(col(Report.created_at), col(Report.role))
    ).all()
    stances = {one.role: one.verdict for one in reports if one.status == ReportStatus.COMPLETED and one.verdict}
    orders = session.exec(select(Order.id).where(Order.verdict_id == row.id).order_by(col(Order.created_at))).all()
    run = session.get_one(Run, row.run_id)
    return VerdictDetail(
        verdict=row,
        account=run.account,
        candidate=candidate,
        rule=rule_of(row, stances),
        probability=odds_of_run(session, row.run_id)(row),
        market_at=run.market_now,
        analysis_id=analysis.id if analysis is not None else None,
        reports=list(reports),
        orders=list(orders),
        rogue=rogue_calls.of_verdict(session, row),
    )


class Ground(Frozen):
    """What a report says for or against an order. says: its summary; probability: that its thesis states; risks: what
    it warns of."""

    role: str
    report: str
    verdict: str | None
    probability: float | None
    says: str
    risks: list[str]


class OrderCase(Frozen):
    """Why an order was made, and what speaks against it.

    probability: that the share beats its benchmark over `horizon` sessions, with its 95 % interval from low to high;
    base: the benchmark's own rate; similar: how often earlier verdicts of this rating and confidence came true, null
    before a calibration; move: the expected return. missing: what nobody could look at. All are null where the verdict
    has none.
    """

    verdict: str
    rating: str
    confidence: str
    rule: str
    probability: float | None
    low: float | None
    high: float | None
    base: float | None
    similar: float | None
    horizon: int | None
    move: float | None
    invalidation: float | None
    in_favour: list[Ground]
    against: list[Ground]
    missing: list[str]


def order_case(session: Session, order: Order) -> OrderCase | None:
    """Return what the order's verdict rests on; None for an order without one.

    A report speaks for the share where its thesis states more than one half, against it where it states less; one
    without a probability by its verdict: CONFIRMED is for it, CAUTION and REJECT are against it. What is for the share
    is for a purchase and against a sale.
    """
    if order.verdict_id is None:
        return None
    found = verdict_detail(session, order.verdict_id)
    pooled = Pooled.model_validate(found.verdict.pooled or {})
    stated = {one.role: one.probability for one in pooled.rows}
    sides: dict[bool, list[Ground]] = {True: [], False: []}
    for one in found.reports:
        if (bullish := _speaks_for(one, stated.get(one.role))) is not None:
            ground = Ground.of(one, report=one.id, probability=stated.get(one.role), says=one.summary,
                risks=one.key_risks)  # fmt: skip
            sides[bullish == (order.side != "sell")].append(ground)
    return OrderCase(
        **pooled.model_dump(include={"probability", "low", "high", "base", "horizon", "move"}),
        verdict=found.verdict.id,
        rating=found.verdict.rating,
        confidence=found.verdict.confidence,
        rule=found.rule,
        similar=found.probability,
        invalidation=pooled.invalidation_price,
        in_favour=sides[True],
        against=sides[False],
        missing=found.verdict.missing,
    )


_STANCES = {"CONFIRMED": True, "CAUTION": False, "REJECT": False}


def _speaks_for(report: Report, probability: float | None) -> bool | None:
    if report.status != ReportStatus.COMPLETED:
        return None
    if probability is None:
        return _STANCES.get(report.verdict or "")
    return None if probability == EVEN else probability > EVEN


def _calls(session: Session, turn: Turn) -> list[ToolCall]:
    rows = session.exec(
        select(ToolCall)
        .join(Turn, col(Turn.id) == col(ToolCall.turn_id))
        .where(Turn.step_id == turn.step_id, Turn.attempt == turn.attempt)
        .order_by(col(ToolCall.ordinal), col(ToolCall.id))
    ).all()
    return list(rows)


def _cited(one: Citation, ids: Mapping[int, str]) -> CitedFigure:
    call, other = (ids.get(at) if at is not None else None for at in (one.call, one.other_call))
    return CitedFigure(**one.model_dump(), call_id=call, other_call_id=other)


def _pictures(session: Session, calls: Sequence[ToolCall]) -> list[Artifact]:
    known = [one.id for one in calls]
    rows = session.exec(select(Artifact).where(col(Artifact.call_id).in_(known)).order_by(col(Artifact.id))).all()
    return list(rows)


def _uses(session: Session, report_id: str) -> list[Verdict]:
    rows = session.exec(
        select(Verdict)
        .join(VerdictReport, col(VerdictReport.verdict_id) == col(Verdict.id))
        .where(VerdictReport.report_id == report_id)
        .order_by(col(Verdict.id).desc())
    ).all()
    return list(rows)


class AnalysisRow(Frozen):
    """One analysis. picture, digest: of the last chart that an analyst saw; picture: its file, relative to the data
    folder of the worker that ran the turn."""

    analysis: Row[Analysis]
    texts: list[Row[Report]]
    picture: str | None
    digest: str | None
    order: Row[Order] | None


def analyses(session: Session, run: Run) -> list[AnalysisRow]:
    joined = select(Analysis).join(Candidate, col(Candidate.id) == col(Analysis.candidate_id))
    rows = session.exec(joined.where(Analysis.run_id == run.id).order_by(col(Candidate.rank))).all()
    if not rows:
        return []
    texts, pictures, orders = _texts(session, run.id), _chart_pictures(session, run.id), _orders(session, run.id)
    return [
        AnalysisRow(
            analysis=row,
            texts=texts[row.verdict_id],
            picture=path_in_home(*pictures[row.symbol]) if row.symbol in pictures else None,
            digest=pictures[row.symbol][0] if row.symbol in pictures else None,
            order=orders.get(row.symbol),
        )
        for row in rows
    ]


def _texts(session: Session, run_id: str) -> dict[str, list[Report]]:
    found = session.exec(
        select(VerdictReport.verdict_id, Report)
        .join(Report, col(Report.id) == col(VerdictReport.report_id))
        .where(Report.run_id == run_id)
        .order_by(col(Report.created_at))
    ).all()
    return by_key(found)


def _chart_pictures(session: Session, run_id: str) -> dict[str, tuple[str, str]]:
    found = session.exec(
        select(Turn.subject, Artifact.digest, Artifact.kind)
        .join(Turn, col(Turn.id) == col(Artifact.turn_id))
        .where(Artifact.run_id == run_id)
        .order_by(col(Artifact.created_at), col(Artifact.id))
    ).all()
    return {symbol: (digest, kind) for symbol, digest, kind in found}


def _orders(session: Session, run_id: str) -> dict[str, Order]:
    rows = session.exec(select(Order).where(Order.run_id == run_id).order_by(col(Order.ordinal))).all()
    return {row.symbol: row for row in rows}


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
