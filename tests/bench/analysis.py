"""(m) the analysis of many symbols against what its model calls in sequence must take."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from dataclasses import dataclass

from sqlmodel import Session, select

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.errors import MarketError
from chordesk.models.states import StepKind
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import ChainSource, MarketData
from tests.bench.cpu import CpuTime
from tests.bench.names import priced
from tests.bench.screen import calls_by_step, has_ended
from tests.stack import Processes, processes, wait_for

SELECTED = "HAL"  # by the rulebook on the replay's day, so that a symbol goes through all its turns
OPTIONS = {
    "DESK_REPLAY_OPTIONS": "modelled",
    "AUTONOMOUS_STOCK_ONLY": "false",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "both",
}


@dataclass(frozen=True, slots=True)
class AnalysisTimes:
    """Seconds, but for longest_chain: model calls one after the other, which critical_path is the time of. cpu: seconds
    of the worker and its app-servers."""

    wall: float
    longest_chain: int
    critical_path: float
    symbols: int
    turns: int
    calls: int
    cpu: float

    @property
    def ratio(self) -> float:
        return self.wall / self.critical_path


def analysis_times(latency: float, symbols: int) -> AnalysisTimes:
    with processes(forked=False, DESK_RULEBOOK_LATENCY_SECONDS=str(latency), **OPTIONS) as desk:
        desk.rulebook(latency)
        desk.workers("research", "ops", "trade")
        store = desk_of(desk.app).store
        names = _names(desk_of(desk.app).market, symbols)
        # One small run first: a desk that runs unattended has its app-servers up when an analysis starts.
        _analysed(desk, [SELECTED])
        before = CpuTime.spent(desk)
        run = _analysed(desk, names)
        spent = CpuTime.spent(desk)
        with store.read() as session:
            return _times(
                session, run.id, latency, spent.worker + spent.app_servers - before.worker - before.app_servers
            )


def _names(market: MarketData, count: int) -> list[str]:
    """Return names with a price and a modelled chain, one that goes through all its turns among them."""
    assert isinstance(market, ChainSource)
    found = [SELECTED]
    today = exchange_day(market.clock.now())
    for name in priced(market):
        if len(found) == count:
            break
        try:
            market.chain(name, today, today + dt.timedelta(days=45))
        except MarketError:
            continue
        found += [name] if name != SELECTED else []
    return found


def _analysed(desk: Processes, names: list[str]) -> Run:
    run = open_analysis(desk.app, names, AnalysisRequest(research=False))
    wait_for(lambda: has_ended(desk_of(desk.app).store, run.id), "the analysis ends", 180)
    return run


def _times(session: Session, run_id: str, latency: float, cpu: float) -> AnalysisTimes:
    run = session.get_one(Run, run_id)
    assert run.finished_at is not None
    assert run.state == "done", run.notes
    calls = calls_by_step(session, run_id)
    chains: dict[str, int] = defaultdict(int)
    turned = (StepKind.REPORT, StepKind.DESCRIBE)
    for step in session.exec(select(Step).where(Step.run_id == run_id)).all():
        chains[step.subject] += calls.get(step.id, 0) if step.kind in turned else 0
    longest = max(chains.values())
    return AnalysisTimes(
        wall=(run.finished_at - run.created_at).total_seconds(),
        longest_chain=longest,
        critical_path=longest * latency,
        symbols=len(run.params["symbols"]),
        turns=progress(session, run_id).turns,
        calls=sum(calls.values()),
        cpu=cpu,
    )
