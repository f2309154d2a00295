"""The document of a symbol: everything that the account's runs made of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlmodel import col, select

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.documents.building.missing import missing_money
from chordesk.tasks.documents.building.orders import order_line, order_marks, views_of
from chordesk.tasks.documents.building.pages import pages_of
from chordesk.tasks.documents.building.prices import price_chart
from chordesk.tasks.documents.building.totals import totals
from chordesk.tasks.documents.schema.documents import SymbolDocument
from chordesk.tasks.documents.schema.dossier import OrderLine
from chordesk.tasks.documents.schema.parts import ChartMark, MissingItem, PriceChart
from chordesk.tasks.views.history.listing import RunFilter, RunRow, run_page
from chordesk.tasks.views.history.symbol import SymbolDetail, list_symbols, listing_of, symbol_detail
from chordesk.tasks.views.history.timeline import timeline
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

MOST = 500  # rows of each list
_NAMED = 8


def symbol_document(desk: Desk, symbol: str) -> SymbolDocument:
    """Return the report of a symbol. Raises UsageError for a text that is no symbol, NotFound for one that no run of
    the account has seen."""
    symbol = symbol.strip().upper()
    if not is_symbol(symbol):
        raise UsageError(f"{symbol!r} is no symbol", remedy=f"a symbol is {SYMBOL_RULE}")
    market = desk.account_market()
    context = replace(desk.tool_context(), market=market, clock=market.clock)
    listing = listing_of(context, symbol)
    with desk.store.read() as session:
        pages, found = pages_of(desk.settings), symbol_detail(session, context, listing, MOST)
        runs = run_page(session, desk.settings, RunFilter(symbol=symbol), MOST).runs
        runs = [row for row in runs if row.account == context.account]
        if not (runs or found.hits or found.verdicts or found.reports or found.orders or found.positions):
            known = [row.symbol for row in list_symbols(session, context.account, _NAMED)]
            remedy = f"there are {', '.join(known)}" if known else "`desk research SYMBOL` researches one"
            raise NotFound(f"no run of the account {context.account} has seen {symbol}", remedy=remedy)
        rows = session.exec(
            select(Order)
            .where(Order.symbol == symbol, Order.account == context.account)
            .order_by(col(Order.created_at).desc(), col(Order.id).desc())
            .limit(MOST)
        ).all()
        orders = [order_line(one, pages) for one in views_of(session, rows)]
        summed = totals(runs, [timeline(session, session.get_one(Run, row.id)) for row in runs])
    chart = price_chart(context, market.name, symbol, list(_marks(found, orders)))
    return SymbolDocument(
        title=f"symbol {symbol}",
        made_at=utcnow(),
        in_flight=any(not row.final for row in runs),
        page=pages.symbol(symbol),
        service=pages.base,
        missing=list(_missing(found, runs, chart)) + list(missing_money(summed.cost)),
        symbol=found,
        runs=runs,
        orders=orders,
        prices=chart,
        totals=summed,
    )


def _marks(found: SymbolDetail, orders: Sequence[OrderLine]) -> Iterator[ChartMark]:
    for hit in found.hits:
        yield ChartMark(kind="hit", at=hit.market_at, label=f"hit: {hit.lens}", price=None, run_id=hit.run_id)
    for one in found.verdicts:
        label = f"verdict: {one.rating} ({one.confidence})"
        yield ChartMark(kind="verdict", at=one.market_at, label=label, price=None, run_id=one.run_id)
    yield from order_marks(orders)


def _missing(found: SymbolDetail, runs: Sequence[RunRow], chart: PriceChart) -> Iterator[MissingItem]:
    symbol = found.symbol
    if found.name is None:
        yield MissingItem(what="listing", reason=f"the market {found.market} has no name for it", symbol=symbol)
    for gap in chart.missing:
        yield MissingItem(what=gap.what, reason=gap.reason, symbol=symbol)
    for report in found.reports:
        if report.status != "completed":
            reason = f"{report.status}: {report.reason or 'no reason was kept'} (run {report.run_id})"
            yield MissingItem(what="report", reason=reason, symbol=symbol, role=report.role)
        elif report.figures is not None and report.supported is not None and report.figures > report.supported:
            lack = report.figures - report.supported
            reason = f"{lack} of {report.figures} figures have no source (run {report.run_id})"
            yield MissingItem(what="sources", reason=reason, symbol=symbol, role=report.role)
    reported = {(report.run_id, report.role) for report in found.reports}
    for verdict in found.verdicts:
        for line in verdict.missing:
            if (verdict.run_id, line.partition(":")[0].strip()) in reported:
                continue
            yield MissingItem(what="report", reason=f"{line} (run {verdict.run_id})", symbol=symbol)
    for row in runs:
        if not row.final:
            yield MissingItem(what="end", reason=f"{row.kind} {row.id} goes on", symbol=symbol)
