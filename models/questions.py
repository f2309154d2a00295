"""Questions that resolve, signals on them, and forecasts with the signals that they cite."""

from __future__ import annotations

import datetime as dt
import math
from enum import StrEnum
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field


class QuestionSource(StrEnum):
    """The origin of a question."""

    DESK = "desk"  # asked by the desk of its universe
    VERDICT = "verdict"  # of a candidate that was rated BUY or PASS
    PERSON = "person"
    METACULUS = "metaculus"
    FORECASTBENCH = "forecastbench"
    MANIFOLD = "manifold"
    POLYMARKET = "polymarket"
    KALSHI = "kalshi"


# Whose outcomes a person enters.
PEOPLES = (QuestionSource.PERSON, QuestionSource.METACULUS, QuestionSource.FORECASTBENCH)


class QuestionState(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"
    VOID = "void"  # it will never have an outcome; forecasts on it count for nothing


QUESTION_FINAL = frozenset({QuestionState.RESOLVED, QuestionState.VOID})


class _RulePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class BeatsMedian(_RulePart):
    """Yes when the symbol's return over the next `sessions` sessions after `day`, close to close, is above the median
    return of the members of `universe` that have both closes; half when it equals the median."""

    kind: Literal["beats_median"] = "beats_median"
    symbol: str
    universe: str
    day: dt.date
    sessions: int = Field(ge=1, le=250)


class ByVenue(_RulePart):
    """The outcome that the venue gives its own market."""

    kind: Literal["venue"] = "venue"
    venue: Literal["manifold", "polymarket", "kalshi"]
    id: str


class ByPerson(_RulePart):
    """The outcome that a person enters with its evidence."""

    kind: Literal["person"] = "person"


ResolutionRule = Annotated[BeatsMedian | ByVenue | ByPerson, Field(discriminator="kind")]


class BoardQuestion(BaseModel):
    """A question as a board shows it.

    label: its name on the board, such as Q1. baseline: the probability that the market gives it, or 0.5 where nothing
    does; null where the venue has no price, and such a question is not forecast. fresh: why it was chosen.
    """

    model_config = ConfigDict(frozen=True, defer_build=True)

    label: str
    id: str
    text: str
    subjects: tuple[str, ...]
    baseline: float | None = Field(ge=0, le=1)
    baseline_source: str
    closes_at: dt.datetime
    chosen: str = ""
    event: str | None = None  # of the venue, of whose questions at most one comes true
    criteria: str = ""  # what decides it, in its venue's words
    background: str = ""


CLIP = (0.01, 0.99)  # of a probability that a signal implies


class SignalState(StrEnum):
    LIVE = "live"
    OFFLINE = "offline"  # its tool failed: a tombstone with the reason
    DORMANT = "dormant"  # its tool worked and has nothing to say now


_UP, _DOWN = ("bullish", "long"), ("bearish", "short")


def log_odds(probability: float) -> float:
    clipped = min(max(probability, CLIP[0]), CLIP[1])
    return math.log(clipped / (1 - clipped))


class Leaning(Protocol):
    """A finding, or its row, as far as it leans to an answer."""

    @property
    def direction(self) -> str: ...
    @property
    def confidence(self) -> float | None: ...
    @property
    def probability(self) -> float | None: ...
    @property
    def precision(self) -> float: ...


def shift(finding: Leaning) -> float | None:
    """Return by how much a finding moves the log odds of any question that it concerns: ln((1 + c) / (1 - c)) for its
    confidence c, in its direction, times its precision. From even odds that is about half of c; a question at .90 moves
    by as much evidence. None where it has no direction or no confidence, or states a probability itself."""
    if finding.probability is not None or finding.confidence is None or finding.direction not in _UP + _DOWN:
        return None
    moved = finding.precision * log_odds(0.5 + finding.confidence / 2)
    return moved if finding.direction in _UP else -moved


def implied(finding: Leaning, baseline: float) -> float | None:
    """A finding's own probability, or the baseline's log odds and its shift; None where it has neither."""
    if finding.probability is not None:
        return min(max(finding.probability, CLIP[0]), CLIP[1])
    moved = shift(finding)
    if moved is None:
        return None
    return min(max(1 / (1 + math.exp(-log_odds(baseline) - moved)), CLIP[0]), CLIP[1])


CitationStance = Literal["build", "disagree", "quote"]
ROUNDS = (1, 2)


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class CitedSignal(_Part):
    """One citation. signal: label of a signal on the board; claim: what the voice makes of it, in its own language."""

    signal: str
    stance: CitationStance
    claim: str


class VoiceForecast(_Part):
    """One forecast. question: its label; probability of YES, 0 to 1; stake: 0 to 1, the share of the voice's budget for
    this episode that it puts behind the forecast; change: what would prove it wrong; chain: labels of signals that it
    connects."""

    question: str
    probability: float = Field(ge=0, le=1)
    stake: float = Field(ge=0, le=1)
    because: str
    change: str | None = None
    citations: list[CitedSignal]
    chain: list[str]


class VoicePosition(BaseModel):
    """A voice's forecast of one round on one question, as the board keeps it. forecast_id: of its row; stated: the
    probability as the voice gave it, None where it is the same."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    voice: str
    round: int
    forecast: VoiceForecast
    forecast_id: str = ""
    stated: float | None = None
