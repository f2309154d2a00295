"""Requests to start a run, as programs make them, and what opens each one's run."""

from __future__ import annotations

from typing import Annotated, Literal

from celery import Celery
from pydantic import Field, StrictBool, StringConstraints

from chordesk.models.analysis import AnalysisRequest, Depth
from chordesk.models.answers import Frozen
from chordesk.models.database.lookup import by_prefix
from chordesk.models.settings.schema import Lens
from chordesk.models.tables.runs import Run
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tasks.workflows.episode.opening import open_episode
from chordesk.tasks.workflows.research import open_portfolio, open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tasks.workflows.trade import open_trade

ID = r"^[0-9A-Za-z_.-]+$"
Person = Annotated[
    str,
    StringConstraints(min_length=1, max_length=80, pattern=r"^\w[\w .,'@+-]*$"),
    Field(description="the person's name, for the record: the token does not identify a person"),
]
# No name of a file: a universe of the command line may be one.
Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,9}(\.[A-Za-z]{1,2})?$")]


class ScreenRequest(Frozen):
    """A screen, then research on its candidates and a decision. symbols: the universe, by default the one of the
    settings; so are lenses and most, the number of candidates kept."""

    kind: Literal["screen"]
    by: Person
    symbols: list[Symbol] | None = Field(default=None, min_length=1, max_length=5000)
    lenses: list[Lens] | None = Field(default=None, min_length=1, max_length=4)
    most: int | None = Field(default=None, ge=1, le=500)


class ResearchRequest(Frozen):
    """Research on some symbols, or, without any, on what the account holds; force: also roles that are not due."""

    kind: Literal["research"]
    by: Person
    symbols: list[Symbol] | None = Field(default=None, min_length=1, max_length=500)
    force: StrictBool = False


class TradeRequest(Frozen):
    """The trader's decision on the verdicts of an earlier run."""

    kind: Literal["trade"]
    by: Person
    run: Annotated[str, StringConstraints(max_length=64, pattern=ID)]


class AnalyzeRequest(AnalysisRequest):
    """An analysis of symbols. Fields that are left out have the defaults of `desk analyze`; depth that of the settings.
    min_weekly_roc: fraction, 0.005 is 0.5 % a week; days: calendar days to expiry; contracts: of one order."""

    kind: Literal["analyze"]
    by: Person
    symbols: list[Symbol] = Field(min_length=1, max_length=500)
    depth: Depth | None = None

    def request(self) -> AnalysisRequest:
        return AnalysisRequest(**self.model_dump(include=set(AnalysisRequest.model_fields)))


class EpisodeRequest(Frozen):
    """An episode. symbols: that it asks about; questions: ids of open questions; without any the desk chooses. rounds:
    2 if left out."""

    kind: Literal["episode"]
    by: Person
    symbols: list[Symbol] = Field(default_factory=list, max_length=100)
    questions: list[Annotated[str, StringConstraints(max_length=64, pattern=ID)]] = Field(
        default_factory=list, max_length=40
    )
    rounds: int | None = Field(default=None, ge=1, le=2)


RunRequest = Annotated[
    ScreenRequest | ResearchRequest | AnalyzeRequest | EpisodeRequest | TradeRequest, Field(discriminator="kind")
]


def open_requested(app: Celery, asked: RunRequest) -> Run:
    """Open the run of a request, with the settings of the app's desk, and return it as it begins."""
    match asked:
        case ScreenRequest():
            universe = ",".join(asked.symbols) if asked.symbols else None
            made = open_screen(app, universe, asked.lenses, asked.most)
            assert made is not None, "only a scheduled slot can be taken already"
            return made
        case ResearchRequest():
            return open_research(app, asked.symbols) if asked.symbols else open_portfolio(app, force=asked.force)
        case AnalyzeRequest():
            return open_analysis(app, asked.symbols, asked.request(), asked.depth)
        case EpisodeRequest():
            begun = open_episode(app, asked.symbols, asked.questions, asked.rounds)
            assert begun is not None, "only a scheduled slot can be taken already"
            return begun
        case TradeRequest():
            with desk_of(app).store.read() as session:
                source = by_prefix(session, Run, asked.run).id
            return open_trade(app, source)
