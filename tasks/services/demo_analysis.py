"""The demo's second part: candidates of its screen analysed for a put to write, their charts as pictures in its
folder."""

from __future__ import annotations

import datetime as dt
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.states import RunKind
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, CandidateHit, Run, ScreenHit
from chordesk.tasks.services.demo import newest
from chordesk.tasks.views.analyses import AnalysisRow, analyses
from chordesk.tasks.views.grounded import GroundedReport, grounded_reports
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.prices import chain_of
from chordesk.tools.market.protocol import MarketData

ANALYSED = 3
LEAST_SUPPORTED = 0.99  # share of the figures that must have a source
CHARTS = "charts"  # folder of the pictures under their symbols' names, in the demo's own
_LENS = "options"
_DAYS = (14, 45)  # to expiry, of the chain that a candidate must have


def candidates_to_analyse(database: str, market: MarketData) -> list[str]:
    """Return the symbols of the newest screen's first candidates that have an option chain: those that the options lens
    named before the others, each by rank. Without a chain on the market the first ones by rank."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.SCREEN)).first()
        if run is None:
            return []
        ranked = session.exec(select(Candidate).where(Candidate.run_id == run.id).order_by(col(Candidate.rank))).all()
        named = _named(session, run)
    ordered = sorted(ranked, key=lambda one: (one.id not in named, one.rank))
    chained = [one.symbol for one in ordered if has_chain(market, one.symbol)]
    return (chained or [one.symbol for one in ranked])[:ANALYSED]


def _named(session: Session, run: Run) -> set[str]:
    """Return the ids of the candidates that the options lens put forward."""
    joined = select(CandidateHit.candidate_id).join(ScreenHit, col(ScreenHit.id) == col(CandidateHit.hit_id))
    return set(session.exec(joined.where(ScreenHit.run_id == run.id, ScreenHit.lens == _LENS)).all())


def has_chain(market: MarketData, symbol: str) -> bool:
    """Return whether the market lists contracts on a symbol that expire when the demo looks for them."""
    today = exchange_day(market.clock.now())
    try:
        return bool(chain_of(market, symbol, *(today + dt.timedelta(days=days) for days in _DAYS)).rows)
    except DeskError:
        return False


@dataclass(frozen=True, slots=True)
class AnalysisProofs:
    """What the newest analysis left. pictures: files of charts, by symbol; none where no chart was asked for."""

    run_id: str
    rows: tuple[AnalysisRow, ...]
    orders: Mapping[str, int]
    pictures: Mapping[str, Path]
    grounded: tuple[GroundedReport, ...]

    @property
    def figures(self) -> tuple[int, int]:
        """The figures in the analysts' texts that have a source, and all."""
        found = [one.grounding for one in self.grounded]
        return sum(one.supported for one in found), sum(one.figures for one in found)

    def selected(self) -> list[AnalysisRow]:
        return [row for row in self.rows if row.recommendation == "select"]

    def example(self) -> GroundedReport | None:
        """Return the option report of the first selected contract; None without one."""
        symbols = [row.symbol for row in self.selected()][:1]
        return next((one for one in self.grounded if one.role == "options" and one.symbol in symbols), None)

    def lacking(self, *, charts: bool) -> list[str]:
        """Return what an analysis must have and this one lacks. charts: the analysis asked for some."""
        supported, figures = self.figures
        wanted = {
            "an analysis": bool(self.rows),
            "a chart as a picture": bool(self.pictures) or not charts,
            "a source of 99 % of the analysts' figures": figures > 0 and supported >= LEAST_SUPPORTED * figures,
        }
        return [name for name, there in wanted.items() if not there]


def analysis_proofs(database: str, home: Path) -> AnalysisProofs | None:
    """Return the newest analysis of this database, with its charts copied to names that a person knows; None when it
    has none."""
    with closing(Store(database)) as store, store.read() as session:
        run = session.exec(newest(RunKind.ANALYZE)).first()
        if run is None:
            return None
        rows = tuple(analyses(session, run))
        orders = session.exec(select(Order.state).where(Order.run_id == run.id)).all()
        grounded = tuple(grounded_reports(session, run))
    return AnalysisProofs(run.id, rows, Counter(orders), _pictures(rows, home), grounded)


def _pictures(rows: tuple[AnalysisRow, ...], home: Path) -> dict[str, Path]:
    found = {row.symbol: home / row.picture for row in rows if row.picture is not None}
    folder = home / CHARTS
    if found:
        folder.mkdir(exist_ok=True)
    copies = {symbol: folder / f"{symbol}{source.suffix}" for symbol, source in found.items() if source.is_file()}
    for symbol, target in copies.items():
        shutil.copyfile(found[symbol], target)
    return copies
