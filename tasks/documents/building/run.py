"""The document of a run, of whatever kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.states import RUN_FINAL, RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.documents.building.dossiers import Sources, dossiers, market_context, orders_by_symbol
from chordesk.tasks.documents.building.missing import missing_of_run
from chordesk.tasks.documents.building.orders import order_line
from chordesk.tasks.documents.building.pages import pages_of
from chordesk.tasks.documents.building.totals import totals
from chordesk.tasks.documents.schema.documents import RunDocument, Stage
from chordesk.tasks.documents.schema.dossier import Dossier, OrderLine
from chordesk.tasks.documents.schema.parts import MissingItem
from chordesk.tasks.views.board.board_view import BoardView, board_view
from chordesk.tasks.views.history.funnel import funnel
from chordesk.tasks.views.history.listing import run_row
from chordesk.tasks.views.history.table import CandidateTable, candidate_table
from chordesk.tasks.views.history.timeline import Timeline, timeline
from chordesk.tasks.views.run_detail import detail
from chordesk.tasks.views.trading.equity import EquityCurve, equity_curve
from chordesk.tools.market.clock import exchange_day

_DAYS = 5000  # marks of an account that are looked through
_SHOWN = 260  # of them, the newest up to the run's day


def run_document(desk: Desk, run_id: str) -> RunDocument:
    """Return the report of a run as far as it has come. Raises NotFound."""
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
        steps = timeline(session, run)
        found = [*missing_of_run(whole, steps), *_of_symbols(symbols)]
        return RunDocument(
            title=f"{run.kind} {run.id[:16]}",
            made_at=utcnow(),
            in_flight=run.state not in RUN_FINAL,
            page=pages.run(run.id),
            service=pages.base,
            missing=found,
            run=whole,
            totals=totals([run_row(session, desk.settings, run)], _timelines(session, run, steps)),
            funnel=[Stage.of(one, stage=one.stage) for one in funnel(session, run).stages],
            symbols=symbols,
            unresearched=_unresearched(sources, {one.symbol for one in symbols}),
            board=_board(session, run),
            equity=_equity(session, run),
        )


def _of_symbols(symbols: Sequence[Dossier]) -> list[MissingItem]:
    return [item for one in symbols for item in one.missing]


def _timelines(session: Session, run: Run, own: Timeline) -> list[Timeline]:
    """Return the timelines with the turns of a run: its own, and of a backtest those of its days."""
    if run.kind != RunKind.BACKTEST:
        return [own]
    days = session.exec(select(Run).where(Run.account == run.account, Run.id != run.id).order_by(col(Run.id))).all()
    return [own, *(timeline(session, one) for one in days)]


def _unresearched(found: Sources, known: set[str]) -> list[OrderLine]:
    orders = orders_by_symbol(found)
    return [order_line(one, found.pages) for name, rows in orders.items() if name not in known for one in rows]


def _board(session: Session, run: Run) -> BoardView | None:
    try:
        return board_view(session, run)
    except UsageError:
        return None


def _equity(session: Session, run: Run) -> EquityCurve | None:
    """Return the equity of the run's account up to its day; None where a line needs another mark."""
    if run.kind == RunKind.BACKTEST:
        return None
    day: dt.date = exchange_day(run.market_now)
    curve = equity_curve(session, run.account, _DAYS)
    days = [one for one in curve.days if one.day <= day][-_SHOWN:]
    falls = [one.drawdown for one in days if one.drawdown is not None]
    if len(days) < 2:
        return None
    return EquityCurve(account=curve.account, days=days, deepest=max(falls, default=None))
