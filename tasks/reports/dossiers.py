"""The dossiers of a run's symbols: reports, verdict, memory, orders, the way back to the hits, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.answers import ReportStatus
from chordesk.models.errors import DeskError
from chordesk.models.rogue_calls import ROGUE_CONFIDENCE
from chordesk.models.states import STEP_FINAL, StepState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run
from chordesk.tasks.reading.candidates import CandidateTable, ReportCell, TableRow
from chordesk.tasks.reading.chain import chain
from chordesk.tasks.reading.orders import OrderParts
from chordesk.tasks.reading.portfolio import HoldingResult
from chordesk.tasks.reading.reports import ReportDetail, report_detail
from chordesk.tasks.reading.run_details import RunDetail
from chordesk.tasks.reading.runs import ActionRow
from chordesk.tasks.reading.symbols import SymbolDetail, listing_of, symbol_detail
from chordesk.tasks.reports.figures import marked
from chordesk.tasks.reports.schema import (
    ChartMark,
    Dossier,
    MissingItem,
    OrderLine,
    PageLinks,
    PriceChart,
    RoleArtifact,
    ToolUse,
)
from chordesk.tasks.reports.sections import lineage_steps, order_line, order_marks, price_chart, views_of
from chordesk.tools.registry import ToolContext

_FIGURES = 12  # of those without a source, named


def role_artifact(found: ReportDetail, pages: PageLinks, *, counts: bool, earlier: bool) -> RoleArtifact:
    turn = found.turn
    return RoleArtifact(
        report=found.report,
        claimed=found.claimed,
        unsupported=[str(one["figure"]) for one in found.unsupported[:_FIGURES]],
        counts=counts,
        earlier=earlier,
        model=turn.model,
        codex_turn_id=turn.codex_turn_id,
        thread_id=turn.thread_id,
        thread_reason=turn.thread_reason,
        tokens=turn.total_tokens,
        cost_usd=turn.cost_usd,
        seconds=(turn.finished_at - turn.started_at).total_seconds(),
        tools=[ToolUse.of(one) for one in found.calls],
        pictures=[one.digest for one in found.pictures],
        page=pages.report(found.report.id),
    )


def gaps_of(artifact: RoleArtifact) -> Iterator[MissingItem]:
    """Yield what a report lacks: its answer, the source of some of its figures, or the answers of its tools."""
    one = artifact.report
    if one.status != ReportStatus.COMPLETED:
        reason = f"{one.status}: {one.reason or 'no reason was kept'}"
        yield MissingItem(what="report", reason=reason, symbol=one.symbol, role=one.role)
        return
    if one.grounding is None:
        reason = "its figures were not looked for in the answers of tools"
        yield MissingItem(what="sources", reason=reason, symbol=one.symbol, role=one.role)
    elif lack := one.grounding["figures"] - one.grounding["supported"]:
        named = f": {', '.join(artifact.unsupported)}" if artifact.unsupported else ""
        reason = f"{lack} of {one.grounding['figures']} figures have no source{named}"
        yield MissingItem(what="sources", reason=reason, symbol=one.symbol, role=one.role)
    if rogue := [f"{use.tool} ({use.rogue})" for use in artifact.tools if use.rogue is not None]:
        reason = f"rogue calls, for which it counts with {ROGUE_CONFIDENCE} confidence at most: {', '.join(rogue)}"
        yield MissingItem(what="trust", reason=reason, symbol=one.symbol, role=one.role)
    failed = [use.tool for use in artifact.tools if not use.success and use.rogue is None]
    if failed:
        reason = f"calls that failed: {', '.join(failed)}"
        yield MissingItem(what="data", reason=reason, symbol=one.symbol, role=one.role)
    empty = [use.tool for use in artifact.tools if use.success and not use.has_data]
    if empty:
        reason = f"calls that found nothing: {', '.join(empty)}"
        yield MissingItem(what="data", reason=reason, symbol=one.symbol, role=one.role)


_RISKS = 3


def summary(row: TableRow, artifacts: Sequence[RoleArtifact]) -> str:
    return "\n".join(_lines(row, artifacts)) + "\n"


def _lines(row: TableRow, artifacts: Sequence[RoleArtifact]) -> Iterator[str]:
    verdict = row.verdict
    judged = f"**{marked(verdict.rating)}** ({marked(verdict.confidence)})" if verdict else "no verdict"
    yield f"{marked(row.candidate.symbol)}: {judged}"
    if verdict is not None:
        yield f"\n{marked(verdict.summary)}"
    yield ""
    for one in (artifact.report for artifact in artifacts):
        made = f"{one.verdict} ({one.confidence})" if one.verdict else one.status
        yield f"- {marked(one.role)}: {marked(made)}. {marked(one.summary or one.reason or '')}".rstrip()
    if verdict is not None and verdict.key_risks:
        yield f"- risks: {'; '.join(marked(risk) for risk in verdict.key_risks[:_RISKS])}"
    if verdict is not None and verdict.missing:
        yield f"- missing: {'; '.join(marked(one) for one in verdict.missing)}"


PRIOR = 12  # earlier reports of a symbol
_LOOKED_THROUGH = 200  # rows of its history, the newest first, among which they are
MOST_CHARTS = 60  # of a document: more candidates than that have none


@dataclass(frozen=True, slots=True)
class Sources:
    """What the dossiers of a run are made from."""

    session: Session
    pages: PageLinks
    context: ToolContext | str  # of its market, or the reason why that cannot be had
    run: Run  # its rows
    # detail, table: its views
    detail: RunDetail
    table: CandidateTable


def dossiers(found: Sources) -> list[Dossier]:
    orders = orders_by_symbol(found)
    return [
        _dossier(found, place, row, orders.get(row.candidate.symbol, [])) for place, row in enumerate(found.table.rows)
    ]


def orders_by_symbol(found: Sources) -> dict[str, list[OrderParts]]:
    rows = found.session.exec(
        select(Order).where(Order.run_id == found.run.id).order_by(col(Order.ordinal), col(Order.id))
    ).all()
    by_symbol: dict[str, list[OrderParts]] = {}
    for view in views_of(found.session, rows):
        by_symbol.setdefault(view.order.symbol, []).append(view)
    return by_symbol


def _dossier(found: Sources, place: int, row: TableRow, orders: Sequence[OrderParts]) -> Dossier:
    candidate = row.candidate
    symbol = candidate.symbol
    past = _past(found, symbol)
    artifacts = [
        role_artifact(
            report_detail(found.session, cell.report_id), found.pages, counts=cell.counts, earlier=cell.earlier
        )
        for cell in row.cells.values()
        if cell.report_id is not None
    ]
    lines = [order_line(one, found.pages) for one in orders]
    chart = _chart(found, place, row, lines)
    actions = [one for one in found.detail.actions if one.symbol == symbol]
    verdict = row.verdict
    holding = _holding(found.detail, symbol)
    return Dossier.of(
        candidate,
        name=past.name if past else None,
        sector=past.sector if past else None,
        screeners=row.lenses,
        combined_rating=verdict.rating if verdict else None,
        combined_confidence=verdict.confidence if verdict else None,
        probability=_probability(found.detail, symbol),
        rule=row.rule,
        verdict_id=verdict.id if verdict else None,
        key_risks=verdict.key_risks if verdict else [],
        summary_markdown=summary(row, artifacts),
        memory=past.memory if past else None,
        artifacts=artifacts,
        prior_artifacts=_prior(found, past, {one.report.id for one in artifacts}),
        analysis=next((one for one in found.detail.analyses if one.analysis.symbol == symbol), None),
        executed_roles_with_reasons=holding.executed_roles_with_reasons if holding else [],
        skipped_roles=holding.skipped_roles if holding else [],
        decision_log=[_logged(one) for one in actions],
        actions=actions,
        orders=lines,
        lineage=lineage_steps(chain(found.session, found.run, symbol), found.pages),
        prices=chart,
        missing=list(_missing(found, row, artifacts, chart)),
        page=found.pages.symbol(symbol),
    )


def _past(found: Sources, symbol: str) -> SymbolDetail | None:
    if isinstance(found.context, str):
        return None
    return symbol_detail(found.session, found.context, listing_of(found.context, symbol), _LOOKED_THROUGH)


def _prior(found: Sources, past: SymbolDetail | None, own: set[str]) -> list[Report]:
    if past is None:
        return []
    began = found.run.created_at
    return [one for one in past.reports if one.created_at < began and one.id not in own][:PRIOR]


def _probability(detail: RunDetail, symbol: str) -> float | None:
    return next((one.verdict_probability for one in detail.candidates if one.symbol == symbol), None)


def _holding(detail: RunDetail, symbol: str) -> HoldingResult | None:
    rows = detail.portfolio_research.holdings if detail.portfolio_research else []
    return next((one for one in rows if one.symbol == symbol), None)


def _logged(one: ActionRow) -> str:
    what = f"skip: {one.suppressed}" if one.suppressed else one.state or "no order"
    return f"{one.action} {one.symbol}: {what}"


def _chart(found: Sources, place: int, row: TableRow, orders: Sequence[OrderLine]) -> PriceChart:
    at, run_id = found.run.market_now, found.table.run_id
    marks = [ChartMark(kind="hit", at=at, label=f"hit: {lens}", price=None, run_id=run_id) for lens in row.lenses]
    if row.verdict is not None:
        label = f"verdict: {row.verdict.rating} ({row.verdict.confidence})"
        marks.append(ChartMark(kind="verdict", at=at, label=label, price=None, run_id=run_id))
    marks += order_marks(orders)
    market, symbol = found.detail.market, row.candidate.symbol
    if place >= MOST_CHARTS:
        return price_chart(f"only the first {MOST_CHARTS} candidates have a chart", market, symbol, marks)
    return price_chart(found.context, market, symbol, marks)


def _missing(
    found: Sources, row: TableRow, artifacts: Sequence[RoleArtifact], chart: PriceChart
) -> Iterator[MissingItem]:
    symbol = row.candidate.symbol
    if isinstance(found.context, str):
        yield MissingItem(what="history", reason=found.context, symbol=symbol)
    if row.verdict is None:
        ended = "the run goes on" if not found.detail.progress.final else "its research did not come to an end"
        yield MissingItem(what="verdict", reason=ended, symbol=symbol)
    reported = set()
    for one in artifacts:
        reported.add(one.report.role)
        yield from gaps_of(one)
    for cell in row.cells.values():
        if cell.role not in reported and (why := _unreported(cell)) is not None:
            yield MissingItem(what="report", reason=why, symbol=symbol, role=cell.role)
    if row.verdict is not None:
        # Roles that were never asked have neither a report nor a step.
        known = {*reported, *row.cells}
        for line in row.verdict.missing:
            if line.partition(":")[0].strip() not in known:
                yield MissingItem(what="report", reason=line, symbol=symbol)
    for gap in chart.missing:
        yield MissingItem(what=gap.what, reason=gap.reason, symbol=symbol)


def _unreported(cell: ReportCell) -> str | None:
    if cell.state not in STEP_FINAL:
        return f"it has not reported yet: its step is {cell.state}"
    return None if cell.state == StepState.DONE else f"its step ended as {cell.state}"


def market_context(desk: Any, run_id: str) -> ToolContext | str:
    """Return the context of a run's market; the reason where this process cannot have it."""
    try:
        context: ToolContext = desk.tool_context(run_id)
        return context
    except DeskError as error:
        return str(error.args[0])
