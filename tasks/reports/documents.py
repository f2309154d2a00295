"""The documents of a run, of the desk's day and of a symbol, put together from what is read of the database."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.answers import ROGUE_CONFIDENCE, ReportStatus
from chordesk.models.errors import DeskError, HistoryTrimmed, NotFound, UsageError
from chordesk.models.events import DESK, EventType
from chordesk.models.groups import by_key
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import RUN_FINAL, STEP_FINAL, RunKind, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run
from chordesk.models.text import NEW_YORK
from chordesk.tasks.approval_requests import waiting
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.reading import run_parts
from chordesk.tasks.reading.accounts import (
    EquityCurve,
    EquityDay,
    HoldingResult,
    LedgerRow,
    account_state,
    equity_curve,
    ledger,
)
from chordesk.tasks.reading.chain import (
    CandidateTable,
    Chain,
    Node,
    ReportCell,
    TableRow,
    candidate_table,
    chain,
    funnel,
)
from chordesk.tasks.reading.order_history import OrderParts, list_orders, order_parts
from chordesk.tasks.reading.report_view import ReportDetail, report_detail
from chordesk.tasks.reading.run_details import RunDetail, TimelineStep, TimelineTurn, detail, steps_of
from chordesk.tasks.reading.run_list import RunFilter, RunRow, run_page, run_row
from chordesk.tasks.reading.runs import ActionRow
from chordesk.tasks.reading.symbol_history import Gap, SymbolDetail, candles, list_symbols, listing_of, symbol_detail
from chordesk.tasks.reports.formats import marked
from chordesk.tasks.reports.report_schema import (
    ChartMark,
    DayDocument,
    DayVerdict,
    Dossier,
    LineageStep,
    MissingItem,
    OrderLine,
    PageLinks,
    PriceChart,
    RoleArtifact,
    RoleTotal,
    RunDocument,
    Stage,
    SymbolDocument,
    ToolUse,
    Totals,
    TradingChange,
    pages_of,
    run_document_type,
)
from chordesk.tools.market.clock import account_day, exchange_hours
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol
from chordesk.tools.registry import ToolContext

_FIGURES = 12  # of those without a source, named


def role_artifact(found: ReportDetail, pages: PageLinks, cell: ReportCell) -> RoleArtifact:
    turn = found.turn
    return RoleArtifact.of(
        found,
        turn,
        unsupported=[str(one["figure"]) for one in found.unsupported[:_FIGURES]],
        counts=cell.counts,
        earlier=cell.earlier,
        reused=cell.reused,
        tokens=turn.total_tokens,
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
    return by_key((view.order.symbol, view) for view in views_of(found.session, rows))


def _dossier(found: Sources, place: int, row: TableRow, orders: Sequence[OrderParts]) -> Dossier:
    candidate = row.candidate
    symbol = candidate.symbol
    past = _past(found, symbol)
    artifacts = [
        role_artifact(report_detail(found.session, cell.report_id), found.pages, cell)
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
        probability=next((one.verdict_probability for one in found.detail.candidates if one.symbol == symbol), None),
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
        if cell.role not in reported and (why := _without_report(cell)) is not None:
            yield MissingItem(what="report", reason=why, symbol=symbol, role=cell.role)
    if row.verdict is not None:
        # Roles that were never asked have neither a report nor a step.
        known = {*reported, *row.cells}
        for line in row.verdict.missing:
            if line.partition(":")[0].strip() not in known:
                yield MissingItem(what="report", reason=line, symbol=symbol)
    for gap in chart.missing:
        yield MissingItem(what=gap.what, reason=gap.reason, symbol=symbol)


def _without_report(cell: ReportCell) -> str | None:
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


_SHOWN = 260  # marks of an account, the newest up to the run's day


def run_document(desk: Desk, run_id: str) -> RunDocument:
    context, made = market_context(desk, run_id), run_document_type()
    with desk.store.read() as session:
        run = session.get_one(Run, run_id)
        whole = detail(session, desk.settings, run)
        pages = pages_of(desk.settings)
        table = candidate_table(session, run) if run.kind != RunKind.GRAPH else CandidateTable(
            run_id=run.id, roles=[], rows=[]
        )  # fmt: skip
        sources = Sources(session, pages, context, run, whole, table)
        symbols = dossiers(sources)
        found = [*missing_of_run(whole), *[item for one in symbols for item in one.missing]]
        return made(
            title=f"{run.kind} {run.id[:16]}",
            made_at=utcnow(),
            in_flight=run.state not in RUN_FINAL,
            page=pages.run(run.id),
            service=pages.base,
            missing=found,
            run=whole,
            totals=totals([run_row(session, desk.settings, run)], _steps(session, run, whole.steps)),
            funnel=[Stage.of(one, stage=one.stage) for one in funnel(session, run).stages],
            symbols=symbols,
            unresearched=_unresearched(sources, {one.symbol for one in symbols}),
            equity=_equity(session, run),
            **run_parts.read(session, run, made, "report"),
        )


def _steps(session: Session, run: Run, own: list[TimelineStep]) -> list[TimelineStep]:
    """Return the steps with the turns of a run: its own, and of a backtest those of its days."""
    if run.kind != RunKind.BACKTEST:
        return own
    days = session.exec(select(Run).where(Run.account == run.account, Run.id != run.id).order_by(col(Run.id))).all()
    return [*own, *(step for one in days for step in steps_of(session, one))]


def _unresearched(found: Sources, known: set[str]) -> list[OrderLine]:
    orders = orders_by_symbol(found)
    return [order_line(one, found.pages) for name, rows in orders.items() if name not in known for one in rows]


def _equity(session: Session, run: Run) -> EquityCurve | None:
    if run.kind == RunKind.BACKTEST:
        return None
    curve = equity_curve(session, run.account, _SHOWN, account_day(run.market_now))
    return curve if len(curve.days) > 1 else None


MOST_OF_DAY = 1000  # rows of each list
_PAGE = 500  # events read at once


def day_document(desk: Desk, day: dt.date) -> DayDocument:
    settings = desk.settings
    with desk.store.read() as session:
        pages, whole = pages_of(settings), _runs(session, settings, day)
        # What a backtest decided on that day of the past is none of the account's; what it cost is the desk's.
        runs = [row for row in whole if not is_backtest(row.run.account) or row.run.kind == RunKind.BACKTEST]
        orders = [
            order for order, _ in list_orders(session, None, None, None, MOST_OF_DAY, account=settings.account, day=day)
        ]
        curve = equity_curve(session, settings.account, _SHOWN, day)
        equity = next((one for one in curve.days if one.day == day), None)
        halts, lost = _halts(session, day)
        verdicts = [one for row in runs for one in _verdicts(session, row.run, pages)]
        summed = totals(whole, (step for row in whole for step in steps_of(session, row.run)))
        return DayDocument(
            title=f"day {day}",
            made_at=utcnow(),
            in_flight=any(not row.final for row in runs) or day >= utcnow().astimezone(NEW_YORK).date(),
            page=pages.home(),
            service=pages.base,
            missing=[
                *lost,
                *missing_money(summed.cost),
                *_missing_of_day(settings.exchange, day, runs, equity),
                *_unreported(verdicts),
            ],
            day=day,
            runs=runs,
            verdicts=verdicts,
            orders=[order_line(one, pages) for one in views_of(session, orders)],
            movements=_movements(session, settings.account, day),
            account=account_state(session, settings, settings.account),
            equity=equity,
            curve=curve,
            halts=halts,
            waiting=waiting(session),
            totals=summed,
        )


def _runs(session: Session, settings: Settings, day: dt.date) -> list[RunRow]:
    pages = (
        run_page(session, settings, wanted, MOST_OF_DAY) for wanted in (RunFilter(day=day), RunFilter(market_day=day))
    )
    found = {row.run.id: row for page in pages for row in page.runs}
    return sorted(found.values(), key=lambda row: (row.run.created_at, row.run.id), reverse=True)


def _verdicts(session: Session, run: Run, pages: PageLinks) -> Iterator[DayVerdict]:
    if run.params.get("source_run"):
        return  # they are another run's
    for found in candidate_table(session, run).rows:
        if (verdict := found.verdict) is not None:
            yield DayVerdict.of(verdict, rule=found.rule, page=pages.verdict(verdict.id))


def _movements(session: Session, account: str, day: dt.date) -> list[LedgerRow]:
    rows, skip = [], 0
    while found := ledger(session, account, MOST_OF_DAY, skip):
        rows += [row for row in found if row.at.astimezone(NEW_YORK).date() == day]
        if found[-1].at.astimezone(NEW_YORK).date() < day:
            break
        skip += MOST_OF_DAY
    return rows


def _halts(session: Session, day: dt.date) -> tuple[list[TradingChange], list[MissingItem]]:
    found: list[TradingChange] = []
    trimmed, last = event_log.head(session, DESK)
    at = trimmed
    try:
        while at < last and (events := event_log.read(session, DESK, at, _PAGE)):
            at = events[-1].sequence or last
            found += [
                TradingChange(at=one.occurred_at, **{k: one.payload.get(k) for k in ("account", "state", "why", "by")})
                for one in events
                if one.type == EventType.ORDER_TRADING and one.occurred_at.astimezone(NEW_YORK).date() == day
            ]
    except HistoryTrimmed as error:
        return found, [MissingItem(what="halts", reason=str(error.args[0]))]
    if trimmed and not found:
        reason = "older events of the desk were trimmed: a halt of that day may be in the audit log alone"
        return found, [MissingItem(what="halts", reason=reason)]
    return found, []


def _missing_of_day(
    exchange: str, day: dt.date, runs: Sequence[RunRow], equity: EquityDay | None
) -> Iterator[MissingItem]:
    if not exchange_hours(exchange).is_session(day):
        yield MissingItem(what="session", reason=f"{day} is no session of the exchange")
    if not runs:
        yield MissingItem(what="runs", reason="no run was opened on this day, and none had its market on it")
    if equity is None:
        yield MissingItem(what="equity", reason="the account has no mark of this day")
    for row in runs:
        run = row.run
        if not row.final:
            yield MissingItem(what="end", reason=f"{run.kind} {run.id} goes on")
        elif run.state != "done":
            notes = "; ".join(run.notes) or "no note was kept"
            yield MissingItem(what="run", reason=f"{run.kind} {run.id} ended as {run.state}: {notes}")


def _unreported(verdicts: Sequence[DayVerdict]) -> Iterator[MissingItem]:
    for one in verdicts:
        for line in one.missing:
            yield MissingItem(what="report", reason=f"{line} (run {one.run_id})", symbol=one.symbol)


MOST_OF_SYMBOL = 500  # rows of each list
_NAMED = 8


def symbol_document(desk: Desk, symbol: str) -> SymbolDocument:
    """Raises UsageError for what is not a symbol, NotFound for one that no run of the account has seen."""
    symbol = symbol.strip().upper()
    if not is_symbol(symbol):
        raise UsageError(f"{symbol!r} is no symbol", remedy=f"a symbol is {SYMBOL_RULE}")
    market = desk.account_market()
    context = replace(desk.tool_context(), market=market, clock=market.clock)
    listing = listing_of(context, symbol)
    with desk.store.read() as session:
        pages, found = pages_of(desk.settings), symbol_detail(session, context, listing, MOST_OF_SYMBOL)
        runs = run_page(session, desk.settings, RunFilter(symbol=symbol, backtests=False), MOST_OF_SYMBOL).runs
        runs = [row for row in runs if row.run.account == context.account]
        if not (runs or found.hits or found.verdicts or found.reports or found.orders or found.positions):
            known = [row.symbol for row in list_symbols(session, context.account, _NAMED)]
            remedy = f"there are {', '.join(known)}" if known else "`desk research SYMBOL` researches one"
            raise NotFound(f"no run of the account {context.account} has seen {symbol}", remedy=remedy)
        rows = session.exec(
            select(Order)
            .where(Order.symbol == symbol, Order.account == context.account)
            .order_by(col(Order.created_at).desc(), col(Order.id).desc())
            .limit(MOST_OF_SYMBOL)
        ).all()
        orders = [order_line(one, pages) for one in views_of(session, rows)]
        summed = totals(runs, (step for row in runs for step in steps_of(session, row.run)))
    chart = price_chart(context, market.name, symbol, list(_marks(found, orders)))
    return SymbolDocument(
        title=f"symbol {symbol}",
        made_at=utcnow(),
        in_flight=any(not row.final for row in runs),
        page=pages.symbol(symbol),
        service=pages.base,
        missing=list(_missing_of_symbol(found, runs, chart)) + list(missing_money(summed.cost)),
        symbol=found,
        runs=runs,
        orders=orders,
        prices=chart,
        totals=summed,
    )


def _marks(found: SymbolDetail, orders: Sequence[OrderLine]) -> Iterator[ChartMark]:
    for row in found.hits:
        hit = row.hit
        yield ChartMark(kind="hit", at=row.market_at, label=f"hit: {hit.title}", price=None, run_id=hit.run_id)
    for one in found.verdicts:
        verdict = one.verdict
        label = f"verdict: {verdict.rating} ({verdict.confidence})"
        yield ChartMark(kind="verdict", at=one.market_at, label=label, price=None, run_id=verdict.run_id)
    yield from order_marks(orders)


def _missing_of_symbol(found: SymbolDetail, runs: Sequence[RunRow], chart: PriceChart) -> Iterator[MissingItem]:
    symbol = found.symbol
    if found.name is None:
        yield MissingItem(what="listing", reason=f"the market {found.market} has no name for it", symbol=symbol)
    for gap in chart.missing:
        yield MissingItem(what=gap.what, reason=gap.reason, symbol=symbol)
    for report in found.reports:
        if report.status != "completed":
            reason = f"{report.status}: {report.reason or 'no reason was kept'} (run {report.run_id})"
            yield MissingItem(what="report", reason=reason, symbol=symbol, role=report.role)
        elif report.grounding is not None and report.grounding["figures"] > report.grounding["supported"]:
            lack = report.grounding["figures"] - report.grounding["supported"]
            reason = f"{lack} of {report.grounding['figures']} figures have no source (run {report.run_id})"
            yield MissingItem(what="sources", reason=reason, symbol=symbol, role=report.role)
    reported = {(report.run_id, report.role) for report in found.reports}
    for verdict in (one.verdict for one in found.verdicts):
        for line in verdict.missing:
            if (verdict.run_id, line.partition(":")[0].strip()) in reported:
                continue
            yield MissingItem(what="report", reason=f"{line} (run {verdict.run_id})", symbol=symbol)
    for row in runs:
        if not row.final:
            yield MissingItem(what="end", reason=f"{row.run.kind} {row.run.id} goes on", symbol=symbol)


def order_line(found: OrderParts, pages: PageLinks) -> OrderLine:
    return OrderLine(**dict(found), page=pages.order(found.order.id))


def views_of(session: Session, orders: Sequence[Order]) -> list[OrderParts]:
    return [order_parts(session, order) for order in orders]


def lineage_steps(found: Chain, pages: PageLinks) -> list[LineageStep]:
    return [LineageStep(**dict(node), page=_page(found, node, pages)) for node in found.nodes if node.kind != "signal"]


def _page(found: Chain, node: Node, pages: PageLinks) -> str | None:
    match node.kind:
        case "candidate":
            return pages.run(found.run_id)
        case "report":
            return pages.report(node.id)
        case "verdict":
            return pages.verdict(node.id)
        case "order" | "protection":
            return pages.order(node.id)
        case "preview" | "approval" | "fill":
            return pages.order(node.facts["order_id"])
        case _:
            return pages.turn(node.turn_id)


def order_marks(lines: Sequence[OrderLine]) -> Iterator[ChartMark]:
    for line in lines:
        one, preview = line.order, line.preview
        label = f"{one.action} {one.side or ''}: {one.state}".replace("  ", " ")
        # An option's premium is not a price of its underlying.
        price = preview.price if preview is not None and one.contract is None else None
        yield ChartMark(kind="order", at=one.market_at, label=label, price=price, run_id=one.run_id)
        for fill in line.fills:
            yield ChartMark(
                kind="fill", at=fill.filled_at, label=f"{fill.side} {fill.quantity:g}",
                price=fill.price if one.contract is None else None, run_id=one.run_id,
            )  # fmt: skip


SESSIONS = 245  # a year of the exchange, about


def price_chart(context: ToolContext | str, market: str, symbol: str, marks: Sequence[ChartMark]) -> PriceChart:
    if isinstance(context, str):
        return _none(symbol, market, marks, context)
    try:
        found = candles(context, symbol, SESSIONS, "day", ())
    except DeskError as error:
        return _none(symbol, market, marks, str(error.args[0]))
    return PriceChart.of(
        found,
        symbol=symbol,
        sessions=len(found.bars),
        first=found.bars[0].at if found.bars else None,
        last=found.bars[-1].at if found.bars else None,
        last_close=found.bars[-1].close if found.bars else None,
        marks=list(marks),
    )


def _none(symbol: str, market: str, marks: Sequence[ChartMark], why: str) -> PriceChart:
    return PriceChart(
        symbol=symbol, market=market, as_of=None, sessions=0, first=None, last=None, last_close=None, adjusted=None,
        marks=list(marks), missing=[Gap(what="prices", reason=why)],
    )  # fmt: skip


_SKIPPED = "skipped"


def totals(runs: Sequence[RunRow], steps: Iterable[TimelineStep]) -> Totals:
    return Totals(
        runs=len(runs),
        turns=sum(row.turns for row in runs),
        tokens=sum(row.tokens for row in runs),
        cost=_cost([row.cost for row in runs]),
        seconds=sum(((row.run.finished_at or utcnow()) - row.run.created_at).total_seconds() for row in runs),
        roles=_roles(steps),
    )


def _cost(costs: Sequence[Cost]) -> Cost:
    known = [one.usd for one in costs if one.usd is not None]
    return Cost(
        usd=round(sum(known), 6) if known else None,
        unpriced=sorted({name for one in costs for name in one.unpriced}),
        uncounted=sum(one.uncounted for one in costs),
        rules=any(one.rules for one in costs),
        local=any(one.local for one in costs),
    )


def _roles(steps: Iterable[TimelineStep]) -> list[RoleTotal]:
    turns: dict[str, list[TimelineTurn]] = defaultdict(list)
    for row in steps:
        for attempt in row.attempts:
            turns[row.step.role or row.step.kind] += [turn for turn in attempt.turns if turn.outcome != _SKIPPED]
    return [_role(role, found) for role, found in sorted(turns.items()) if found]


def _role(role: str, turns: Sequence[TimelineTurn]) -> RoleTotal:
    counted = [turn.tokens for turn in turns if turn.tokens is not None]
    return RoleTotal(
        role=role,
        turns=len(turns),
        outcomes=Counter(turn.outcome for turn in turns),
        tokens=sum(counted) if counted else None,
        seconds=round(sum((turn.finished_at - turn.started_at).total_seconds() for turn in turns), 3),
    )


_FINE = frozenset({"completed", "skipped"})
_DETAILED = frozenset({StepKind.REPORT, StepKind.GRAPH})  # a symbol's own list has them


def missing_of_run(detail: RunDetail) -> Iterator[MissingItem]:
    steps = detail.steps
    if detail.state not in RUN_FINAL:
        left = sum(row.step.state not in STEP_FINAL for row in steps)
        yield MissingItem(what="end", reason=f"the run goes on: {left} steps have not ended")
    yield from (MissingItem(what="run", reason=note) for note in detail.notes)
    for step in (row.step for row in steps):
        if step.state in (StepState.FAILED, StepState.STOPPED) and step.kind not in _DETAILED:
            name = " ".join(part for part in (step.kind, step.role) if part)
            reason = f"{step.state}: {step.error or 'no reason was kept'}"
            yield MissingItem(what=f"step {name}", reason=reason, symbol=step.subject or None, role=step.role or None)
    yield from _turns(steps)
    yield from missing_money(detail.cost)
    yield from _of_kind(detail)


def missing_money(cost: Cost) -> Iterator[MissingItem]:
    """Yield why the estimate of money leaves something out."""
    if cost.unpriced:
        yield MissingItem(what="money", reason=f"no price is known for {', '.join(cost.unpriced)}")
    if cost.uncounted:
        yield MissingItem(what="money", reason=f"{cost.uncounted} turns came without a count of tokens")


def _turns(steps: Sequence[TimelineStep]) -> Iterator[MissingItem]:
    counts = Counter(
        (row.step.role, turn.outcome)
        for row in steps
        for attempt in row.attempts
        for turn in attempt.turns
        if turn.outcome not in _FINE
    )
    for (role, outcome), count in sorted(counts.items()):
        yield MissingItem(what="turns", reason=f"{count} {outcome}", role=role or None)


def _of_kind(detail: RunDetail) -> Iterator[MissingItem]:
    for part, value in run_parts.given(detail, "run", "detail"):
        if part.shown.missing:
            yield from (MissingItem(**one) for one in part.call(part.shown.missing, value) or ())
    for analysis in detail.analyses:
        for check in analysis.analysis.checks:
            if check["state"] == "unknown":
                yield MissingItem(what=f"check {check['id']}", reason=check["text"], symbol=analysis.analysis.symbol)
