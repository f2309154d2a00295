"""The document of the desk's day: runs, verdicts, orders, fills, the account, halts, and what waits for a person."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence

from sqlmodel import Session

from chordesk.models import event_log
from chordesk.models.errors import HistoryTrimmed
from chordesk.models.events import DESK, EventType
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.approvals import waiting
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.documents.building.missing import missing_money
from chordesk.tasks.documents.building.orders import order_line, views_of
from chordesk.tasks.documents.building.pages import PageLinks, pages_of
from chordesk.tasks.documents.building.totals import totals
from chordesk.tasks.documents.schema.documents import DayDocument, DayVerdict, TradingChange
from chordesk.tasks.documents.schema.parts import MissingItem
from chordesk.tasks.views.history.listing import RunFilter, RunRow, run_page
from chordesk.tasks.views.history.table import candidate_table
from chordesk.tasks.views.history.timeline import timeline
from chordesk.tasks.views.order_view import list_orders
from chordesk.tasks.views.trading.account import account_state
from chordesk.tasks.views.trading.equity import EquityCurve, EquityDay, equity_curve
from chordesk.tasks.views.trading.ledger_view import LedgerRow, ledger
from chordesk.tools.market.clock import NEW_YORK, exchange_hours

MOST = 1000  # rows of each list
_PAGE = 500  # events read at once
_DAYS = 5000
_SHOWN = 260


def day_document(desk: Desk, day: dt.date) -> DayDocument:
    """Return the report of a day in New York, of the settings' account."""
    settings = desk.settings
    with desk.store.read() as session:
        pages, runs = pages_of(settings), _runs(session, settings, day)
        orders = [order for order, _ in list_orders(session, None, None, None, MOST, account=settings.account, day=day)]
        curve = _until(equity_curve(session, settings.account, _DAYS), day)
        equity = next((one for one in curve.days if one.day == day), None)
        halts, lost = _halts(session, day)
        verdicts = [one for row in runs for one in _verdicts(session, row, pages)]
        summed = totals(runs, [timeline(session, session.get_one(Run, row.id)) for row in runs])
        return DayDocument(
            title=f"day {day}",
            made_at=utcnow(),
            in_flight=any(not row.final for row in runs) or day >= utcnow().astimezone(NEW_YORK).date(),
            page=pages.home(),
            service=pages.base,
            missing=[*lost, *missing_money(summed.cost), *_missing(day, runs, equity), *_unreported(verdicts)],
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
    """Return the runs that were opened on a day or for which the market was on it, the newest first."""
    pages = (run_page(session, settings, wanted, MOST) for wanted in (RunFilter(day=day), RunFilter(market_day=day)))
    found = {row.id: row for page in pages for row in page.runs}
    return sorted(found.values(), key=lambda row: (row.created_at, row.id), reverse=True)


def _verdicts(session: Session, row: RunRow, pages: PageLinks) -> Iterator[DayVerdict]:
    if row.params and row.params.get("source_run"):
        return  # they are another run's
    for found in candidate_table(session, session.get_one(Run, row.id)).rows:
        if (verdict := found.verdict) is not None:
            yield DayVerdict.of(verdict, run_id=row.id, symbol=found.symbol, page=pages.verdict(verdict.id))


def _until(curve: EquityCurve, day: dt.date) -> EquityCurve:
    days = [one for one in curve.days if one.day <= day][-_SHOWN:]
    falls = [one.drawdown for one in days if one.drawdown is not None]
    return EquityCurve(account=curve.account, days=days, deepest=max(falls, default=None))


def _movements(session: Session, account: str, day: dt.date) -> list[LedgerRow]:
    rows, skip = [], 0
    while found := ledger(session, account, MOST, skip):
        rows += [row for row in found if row.at.astimezone(NEW_YORK).date() == day]
        if found[-1].at.astimezone(NEW_YORK).date() < day:
            break
        skip += MOST
    return rows


def _halts(session: Session, day: dt.date) -> tuple[list[TradingChange], list[MissingItem]]:
    """Return the changes of the trading state on a day, from the desk's events, and what is known to be lacking."""
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


def _missing(day: dt.date, runs: Sequence[RunRow], equity: EquityDay | None) -> Iterator[MissingItem]:
    if not exchange_hours().is_session(day):
        yield MissingItem(what="session", reason=f"{day} is no session of the exchange")
    if not runs:
        yield MissingItem(what="runs", reason="no run was opened on this day, and none had its market on it")
    if equity is None:
        yield MissingItem(what="equity", reason="the account has no mark of this day")
    for row in runs:
        if not row.final:
            yield MissingItem(what="end", reason=f"{row.kind} {row.id} goes on")
        elif row.state != "done":
            notes = "; ".join(row.notes) or "no note was kept"
            yield MissingItem(what="run", reason=f"{row.kind} {row.id} ended as {row.state}: {notes}")


def _unreported(verdicts: Sequence[DayVerdict]) -> Iterator[MissingItem]:
    for one in verdicts:
        for line in one.missing:
            yield MissingItem(what="report", reason=f"{line} (run {one.run_id})", symbol=one.symbol)
