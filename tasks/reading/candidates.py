"""The candidates of a run: a table with one cell a role, and the funnel from the universe to the fills."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen, ReportStatus
from chordesk.models.states import StepKind
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import (
    Candidate,
    CandidateHit,
    Report,
    Run,
    ScreenHit,
    Step,
    Turn,
    Verdict,
    VerdictReport,
    research_run,
)


class ReportCell(Frozen):
    """What a role made of a candidate. state: of its step; the others are null before it has reported. counts: whether
    the verdict rests on it; earlier: it is an earlier run's. confidence: what counts; figures, supported: those of its
    texts, and of them those with a source."""

    role: str
    state: str
    report_id: str | None = None
    run_id: str | None = None
    status: str | None = None
    verdict: str | None = None
    confidence: str | None = None
    reason: str | None = None
    turn_id: str | None = None
    thread_id: str | None = None
    tokens: int | None = None
    figures: int | None = None
    supported: int | None = None
    counts: bool = False
    earlier: bool = False


class TableRow(Frozen):
    """A candidate. lenses: of its hits; cells: by role; rule: which gave the verdict its rating."""

    candidate: Row[Candidate]
    lenses: list[str]
    cells: dict[str, ReportCell]
    verdict: Row[Verdict] | None
    rule: str | None
    orders: list[Row[Order]]


class CandidateTable(Frozen):
    """The candidates by rank. run_id: the run that was researched, for a trade run its source; roles: columns."""

    run_id: str
    roles: list[str]
    rows: list[TableRow]


def candidate_table(session: Session, run: Run) -> CandidateTable:
    source = research_run(run)
    candidates = session.exec(select(Candidate).where(Candidate.run_id == source).order_by(col(Candidate.rank))).all()
    cells = _cells(session, source)
    lenses, verdicts, orders = _lenses(session, source), _verdicts(session, source, cells), _orders(session, run.id)
    rows = [
        TableRow(
            candidate=row,
            lenses=lenses[row.symbol],
            cells=cells[row.symbol],
            verdict=verdicts[row.symbol][0] if row.symbol in verdicts else None,
            rule=verdicts[row.symbol][1] if row.symbol in verdicts else None,
            orders=orders[row.symbol],
        )
        for row in candidates
    ]
    return CandidateTable(run_id=source, roles=_columns(cells.values()), rows=rows)


def _columns(cells: Iterable[Mapping[str, ReportCell]]) -> list[str]:
    from chordesk.agents.roles import validators  # they load every tool

    found = {role for row in cells for role in row}
    known = [role for role in validators() if role in found]
    return known + sorted(found - set(known))


def _cells(session: Session, run_id: str) -> dict[str, dict[str, ReportCell]]:
    found: dict[str, dict[str, ReportCell]] = defaultdict(dict)
    steps = select(Step.subject, Step.role, Step.state).where(Step.run_id == run_id, Step.kind == StepKind.REPORT)
    for symbol, role, state in session.exec(steps).all():
        found[symbol][role] = ReportCell(role=role, state=state)
    chapters = select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH, Step.role != "")
    for step in session.exec(chapters.order_by(col(Step.created_at), col(Step.id))).all():
        found[str(step.payload["graph"])][step.role] = ReportCell(role=step.role, state=step.state)  # its last one's
    own = session.exec(select(Report, Turn).join(Turn).where(Report.run_id == run_id)).all()
    counted = session.exec(
        select(Report, Turn)
        .join(Turn, col(Turn.id) == col(Report.turn_id))
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
        .where(Verdict.run_id == run_id)
    ).all()
    for counts, rows in ((False, own), (True, counted)):
        for report, turn in rows:
            state = cell.state if (cell := found[report.symbol].get(report.role)) is not None else "done"
            grounding = report.grounding or {}
            found[report.symbol][report.role] = ReportCell.of(
                report,
                report_id=report.id,
                state=state,
                turn_id=turn.id,
                thread_id=turn.thread_id,
                tokens=turn.total_tokens,
                figures=grounding.get("figures"),
                supported=grounding.get("supported"),
                counts=counts,
                earlier=report.run_id != run_id,
            )
    return found


def _lenses(session: Session, run_id: str) -> dict[str, list[str]]:
    rows = session.exec(
        select(Candidate.symbol, ScreenHit.lens)
        .join(CandidateHit, col(CandidateHit.candidate_id) == col(Candidate.id))
        .join(ScreenHit, col(ScreenHit.id) == col(CandidateHit.hit_id))
        .where(Candidate.run_id == run_id)
    ).all()
    found: dict[str, list[str]] = defaultdict(list)
    for symbol, lens in sorted(set(rows)):
        found[symbol].append(lens)
    return found


def _verdicts(
    session: Session, run_id: str, cells: Mapping[str, Mapping[str, ReportCell]]
) -> dict[str, tuple[Verdict, str]]:
    rows = session.exec(select(Verdict).where(Verdict.run_id == run_id)).all()
    return {row.symbol: (row, rule_of(row, _stances(cells.get(row.symbol, {})))) for row in rows}


def judged(session: Session, run_id: str) -> dict[str, tuple[Verdict, str]]:
    """Return by symbol its verdict, and the rule that gave it the rating."""
    return _verdicts(session, run_id, _cells(session, run_id))


def rule_of(verdict: Verdict, stances: Mapping[str, str]) -> str:
    """Return the rule that gave a verdict its rating. stances: of its completed reports."""
    from chordesk.agents.verdict import deciding_rule  # it loads the roles

    return deciding_rule(verdict.rating, stances, verdict.summary)


def _stances(cells: Mapping[str, ReportCell]) -> dict[str, str]:
    counted = (one for one in cells.values() if one.counts and one.status == ReportStatus.COMPLETED)
    return {one.role: one.verdict for one in counted if one.verdict is not None}


def _orders(session: Session, run_id: str) -> dict[str, list[Order]]:
    rows = session.exec(select(Order).where(Order.run_id == run_id).order_by(col(Order.ordinal))).all()
    found: dict[str, list[Order]] = defaultdict(list)
    for row in rows:
        found[row.symbol].append(row)
    return found


StageName = Literal["universe", "hits", "candidates", "verdicts", "orders", "fills"]


class FunnelItem(Frozen):
    """One thing behind a count. id: of its row, null for a symbol of the universe; label: lens of a hit, origin of a
    candidate, rating of a verdict, state of an order, side of a fill."""

    id: str | None
    symbol: str
    label: str | None = None


class FunnelStage(Frozen):
    """A stage. run_id: the run that has its rows; count: of rows; symbols: of different symbols among them; labels:
    rows by label."""

    stage: StageName
    run_id: str
    count: int
    symbols: int
    labels: dict[str, int]
    items: list[FunnelItem]


class Funnel(Frozen):
    """The stages in their order. For a trade run the first four are its source run's."""

    run_id: str
    stages: list[FunnelStage]


def funnel(session: Session, run: Run) -> Funnel:
    source_id = research_run(run)
    source = run if source_id == run.id else session.get_one(Run, source_id)
    universe = [FunnelItem(id=None, symbol=symbol) for symbol in source.params.get("symbols") or ()]
    fills = session.exec(
        select(Fill.id, Fill.symbol, Fill.side)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(Order.run_id == run.id)
        .order_by(col(Fill.filled_at), col(Fill.id))
    ).all()
    return Funnel(
        run_id=run.id,
        stages=[
            _stage("universe", source_id, universe),
            _stage("hits", source_id, _rows(session, ScreenHit, ScreenHit.lens, source_id, ScreenHit.id)),
            _stage("candidates", source_id, _rows(session, Candidate, Candidate.origin, source_id, Candidate.rank)),
            _stage("verdicts", source_id, _rows(session, Verdict, Verdict.rating, source_id, Verdict.symbol)),
            _stage("orders", run.id, _rows(session, Order, Order.state, run.id, Order.ordinal)),
            _stage("fills", run.id, [FunnelItem(id=id_, symbol=symbol, label=side) for id_, symbol, side in fills]),
        ],
    )


def _rows(session: Session, table: Any, label: Any, run_id: str, order: Any) -> list[FunnelItem]:
    rows = session.exec(
        select(table.id, table.symbol, label).where(table.run_id == run_id).order_by(col(order), table.id)
    ).all()
    return [FunnelItem(id=id_, symbol=symbol, label=value) for id_, symbol, value in rows]


def _stage(stage: StageName, run_id: str, items: list[FunnelItem]) -> FunnelStage:
    return FunnelStage(
        stage=stage,
        run_id=run_id,
        count=len(items),
        symbols=len({one.symbol for one in items}),
        labels=_counted(one.label for one in items if one.label is not None),
        items=items,
    )


def _counted(labels: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for label in labels:
        counts[label] = counts.get(label, 0) + 1
    return dict(sorted(counts.items()))
