"""TradingAgents on a desk of this process: its graph is that of the toy project, or of a checkout."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlmodel import select

from chordesk.models.tables.runs import Report, Run, Step
from chordesk.tasks.graphs.tradingagents.ticker_opening import open_tradingagents
from chordesk.tasks.graphs.workflow import play_chapter
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from tests.agents.graphs.tradingagents.conftest import TOY, forget
from tests.fakes.responses import FakeResponses
from tests.stack import processes
from tests.tasks.graphs.kit import Graphs
from tests.toy.analyst import analyst

DAY = "2010-03-10"
# The toy's order; TradingAgents' own nodes have these names too.
TURNS = [
    "Market Analyst", "Market Analyst", "Sentiment Analyst", "News Analyst", "News Analyst",
    "Fundamentals Analyst", "Fundamentals Analyst", "Bull Researcher", "Bear Researcher", "Research Manager",
    "Trader", "Aggressive Analyst", "Conservative Analyst", "Neutral Analyst", "Portfolio Manager",
]  # fmt: skip

MANY = ("AAPL", "IBM", "KO", "GE", "F", "XOM", "JPM", "WMT", "MMM", "PG", "T", "VZ", "DIS", "HD", "CVX", "BA", "CAT",
        "MCD", "MRK", "AXP")  # fmt: skip


class Tickers(Graphs):
    """The desk, with its runs of TradingAgents."""

    def begin(self, *tickers: str, **asked: Any) -> str:
        return open_tradingagents(self.app, tickers, **asked).id

    def play_one(self, step: Step) -> None:
        """Do a step that is ready."""
        work(self.app, step.id, play_chapter)

    def runs(self) -> list[str]:
        with self.store.read() as session:
            return list(session.exec(select(Run.id)).all())

    def reports(self, run_id: str) -> list[Report]:
        with self.store.read() as session:
            return list(session.exec(select(Report).where(Report.run_id == run_id).order_by(Report.symbol)).all())


@contextmanager
def installed(folder: Path) -> Iterator[None]:
    """Let Python find the packages of a folder first, and forget them afterwards."""
    forget()
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        forget()


@contextmanager
def tickers(folder: Path = TOY, **environ: str) -> Iterator[Tickers]:
    with (
        installed(folder),
        FakeResponses(analyst()) as model,
        processes(
            **{
                "DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": model.url, "DESK_REPLAY_DATE": DAY,
                "PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parents[4]}", **environ,
            }
        ) as desk,
    ):  # fmt: skip
        app = create_app(desk.settings, "test")
        try:
            yield Tickers(app, model)
        finally:
            app.desk.close()
            app.close()
