"""Questions: anything that resolves, with the rule by which it does."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class QuestionSource(StrEnum):
    """The origin of a question."""

    DESK = "desk"  # asked by the desk of its universe
    VERDICT = "verdict"  # of a candidate that was rated BUY or PASS
    PERSON = "person"
    MANIFOLD = "manifold"
    POLYMARKET = "polymarket"
    KALSHI = "kalshi"


VENUES = (QuestionSource.MANIFOLD, QuestionSource.POLYMARKET, QuestionSource.KALSHI)


class QuestionState(StrEnum):
    OPEN = "open"
    RESOLVED = "resolved"
    VOID = "void"  # it will never have an outcome; forecasts on it count for nothing


QUESTION_FINAL = frozenset({QuestionState.RESOLVED, QuestionState.VOID})


class _RulePart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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

    model_config = ConfigDict(frozen=True)

    label: str
    id: str
    text: str
    subjects: tuple[str, ...]
    baseline: float | None = Field(ge=0, le=1)
    baseline_source: str
    closes_at: dt.datetime
    chosen: str = ""
