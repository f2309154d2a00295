"""What the record shows, made by the desk itself: an episode with its board, a backtest with its account, an analysis
with its chart, and outcomes of questions."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.analyze import open_analysis
from tests import zygote
from tests.parts import of_feature
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, wait_for

NAMES = ("KO", "IBM", "GE")
UNIVERSE = "AAPL,IBM,GE,F,XOM,JPM,WMT,KO"
# Their questions are over before the last day of the replay's data.
FIRST, LAST, KNOWN = dt.date(2010, 6, 28), dt.date(2010, 7, 28), "2010-08-20"


@dataclass(frozen=True, slots=True)
class Record:
    """Ids of runs. account: of the backtest, with equity on each of its days; scored: that of its verdicts."""

    episode: str
    backtest: str
    analysis: str
    account: str
    scored: str


def a_record(desk: Processes) -> Record:
    """Let a desk with research, ops and trade workers make one of each, beside each other."""
    open_backtest = of_feature("chordesk.tasks.measure.backtest:open_backtest")
    episode = of_feature("chordesk.tasks.board.episode.opening:open_episode")(desk.app, NAMES, rounds=1)
    assert episode is not None
    backtest = open_backtest(desk.app, FIRST, LAST, every=4, universe=UNIVERSE)
    analysis = open_analysis(desk.app, [NAMES[0]], AnalysisRequest(strategy="equity", orders=False))
    for run in (episode, backtest, analysis):
        wait_for(lambda run=run: _state(desk, run) in RUN_FINAL, f"the {run.kind} ends", 3 * PATIENCE)  # type: ignore[misc]
    resolved = zygote.run(("questions", "resolve", "--as-of", KNOWN), desk.environ, REPOSITORY, PATIENCE)
    assert resolved.returncode == 0, resolved.stderr
    return Record(episode.id, backtest.id, analysis.id, backtest.account, f"{backtest.account}-research")


def _state(desk: Processes, run: Run) -> str:
    with desk.app.desk.store.read() as session:
        return str(session.get_one(Run, run.id).state)
