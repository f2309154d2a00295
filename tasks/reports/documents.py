"""The documents of a run, of the desk's day and of a symbol, put together from what is read of the database."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlmodel import Session, col, select

from chordesk.models import event_log
from chordesk.models.errors import HistoryTrimmed, NotFound, UsageError
from chordesk.models.events import DESK, EventType
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.models.text import NEW_YORK
from chordesk.tasks.approvals import waiting
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reading.accounts import EquityCurve, EquityDay, LedgerRow, account_state, equity_curve, ledger
from chordesk.tasks.reading.boards import BoardView, board_view
from chordesk.tasks.reading.candidates import CandidateTable, candidate_table, funnel
from chordesk.tasks.reading.orders import list_orders
from chordesk.tasks.reading.run_details import TimelineStep, detail, steps_of
from chordesk.tasks.reading.run_list import RunFilter, RunRow, run_page, run_row
from chordesk.tasks.reading.symbols import SymbolDetail, list_symbols, listing_of, symbol_detail
from chordesk.tasks.reports.dossiers import Sources, dossiers, market_context, orders_by_symbol
from chordesk.tasks.reports.schema import (
    ChartMark,
    DayDocument,
    DayVerdict,
    Dossier,
    MissingItem,
    OrderLine,
    PageLinks,
    PriceChart,
    RunDocument,
    Stage,
    SymbolDocument,
    TradingChange,
    pages_of,
)
from chordesk.tasks.reports.sections import (
    missing_money,
    missing_of_run,
    order_line,
    order_marks,
    price_chart,
    totals,
    views_of,
)
from chordesk.tools.market.clock import exchange_day, exchange_hours
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

_SHOWN = 260  # marks of an account, the newest up to the run's day


def run_document(desk: Desk, run_id: str) -> RunDocument:
    context = market_context(desk, run_id)
    with desk.store.read() as session:
        run = session.get_one(Run, run_id)
        whole = detail(session, desk.settings, run)
        pages = pages_of(desk.settings)
        table = candidate_table(session, run) if run.kind != RunKind.GRAPH else CandidateTable(
            run_id=run.id, roles=[], rows=[]
        )  # fmt: skip
        sources = Sources(session, pages, context, run, whole, table)
        symbols = dossiers(sources)
        found = [*missing_of_run(whole), *_of_symbols(symbols)]
        return RunDocument(
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
            board=_board(session, run),
            equity=_equity(session, run),
        )


def _of_symbols(symbols: Sequence[Dossier]) -> list[MissingItem]:
    return [item for one in symbols for item in one.missing]


def _steps(session: Session, run: Run, own: list[TimelineStep]) -> list[TimelineStep]:
    """Return the steps with the turns of a run: its own, and of a backtest those of its days."""
    if run.kind != RunKind.BACKTEST:
        return own
    days = session.exec(select(Run).where(Run.account == run.account, Run.id != run.id).order_by(col(Run.id))).all()
    return [*own, *(step for one in days for step in steps_of(session, one))]


def _unresearched(found: Sources, known: set[str]) -> list[OrderLine]:
    orders = orders_by_symbol(found)
    return [order_line(one, found.pages) for name, rows in orders.items() if name not in known for one in rows]


def _board(session: Session, run: Run) -> BoardView | None:
    try:
        return board_view(session, run)
    except UsageError:
        return None


def _equity(session: Session, run: Run) -> EquityCurve | None:
    if run.kind == RunKind.BACKTEST:
        return None
    curve = equity_curve(session, run.account, _SHOWN, exchange_day(run.market_now))
    return curve if len(curve.days) > 1 else None


MOST_OF_DAY = 1000  # rows of each list
_PAGE = 500  # events read at once


def day_document(desk: Desk, day: dt.date) -> DayDocument:
    settings = desk.settings
    with desk.store.read() as session:
        pages, runs = pages_of(settings), _runs(session, settings, day)
        orders = [
            order for order, _ in list_orders(session, None, None, None, MOST_OF_DAY, account=settings.account, day=day)
        ]
        curve = equity_curve(session, settings.account, _SHOWN, day)
        equity = next((one for one in curve.days if one.day == day), None)
        halts, lost = _halts(session, day)
        verdicts = [one for row in runs for one in _verdicts(session, row.run, pages)]
        summed = totals(runs, (step for row in runs for step in steps_of(session, row.run)))
        return DayDocument(
            title=f"day {day}",
            made_at=utcnow(),
            in_flight=any(not row.final for row in runs) or day >= utcnow().astimezone(NEW_YORK).date(),
            page=pages.home(),
            service=pages.base,
            missing=[*lost, *missing_money(summed.cost), *_missing_of_day(day, runs, equity), *_unreported(verdicts)],
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


def _missing_of_day(day: dt.date, runs: Sequence[RunRow], equity: EquityDay | None) -> Iterator[MissingItem]:
    if not exchange_hours().is_session(day):
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
        runs = run_page(session, desk.settings, RunFilter(symbol=symbol), MOST_OF_SYMBOL).runs
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
        yield ChartMark(kind="hit", at=row.market_at, label=f"hit: {hit.lens}", price=None, run_id=hit.run_id)
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
