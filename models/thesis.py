"""A thesis: what one who judges a share says that can be proven wrong; and the conclusion of a candidate's theses."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from chordesk.models.answers import CHOICES, Frozen, Wire

MOST_POINTS = 3  # for a thesis, and as many against it
MOST_SESSIONS = 120  # of a horizon

Direction = Literal["up", "down", "none"]
Horizon = Annotated[int, Field(ge=1, le=MOST_SESSIONS)]
Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Move = Annotated[float, Field(gt=-1, le=10, allow_inf_nan=False)]
Source = Annotated[str, Field(min_length=1, max_length=40)]
Cite = Annotated[str, Field(min_length=1, max_length=40, json_schema_extra={CHOICES: "cites"})]
Text = Annotated[str, Field(min_length=1, max_length=600)]
Day = Annotated[str, Field(min_length=10, max_length=10)]


def day_of(text: str) -> dt.date:
    """Return the day of an ISO date. Raises ValueError."""
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no day: write YYYY-MM-DD") from None


class Invalidation(Wire):
    """Where a thesis is wrong: at a level, or with an event."""

    level: Source | None = Field(None, description="id of a level, or a price field such as sma50; null for an event")
    event: Text | None = Field(None, description="null for a level")
    day: Day | None = Field(None, description="of the event, YYYY-MM-DD")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.level is None) == (self.event is None) or (self.event is None) != (self.day is None):
            raise ValueError("an invalidation is a level alone, or an event with its day")
        if self.day is not None:
            day_of(self.day)
        return self


class Catalyst(Wire):
    event: Text
    day: Day = Field(description="YYYY-MM-DD, to come")
    source: Cite

    @model_validator(mode="after")
    def _has_day(self) -> Self:
        day_of(self.day)
        return self


class Point(Wire):
    text: Text
    source: Cite


class Thesis(Wire):
    """What can be proven wrong. source: the `cite` of a tool answer of the turn. None where the evidence does not
    decide."""

    direction: Direction | None = Field(None, description="against the benchmark")
    horizon: Horizon | None = Field(None, description=f"sessions, 1 to {MOST_SESSIONS}")
    probability: Probability | None = Field(None, description="that it beats the benchmark")
    move: Move | None = Field(None, description="expected return, 0.05 is 5 %")
    move_low: Move | None = Field(None, description="10 % quantile")
    move_high: Move | None = Field(None, description="90 % quantile")
    entry: Text | None = Field(None, description="condition to enter")
    invalidation: Invalidation | None = None
    catalysts: list[Catalyst] = []
    points_for: list[Point] = Field([], max_length=MOST_POINTS)
    points_against: list[Point] = Field([], max_length=MOST_POINTS)
    change: Text | None = Field(None, description="what would change your mind")

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        require_agreement(self.direction, self.probability, self.move, self.move_low, self.move_high)
        return self


def require_agreement(
    direction: str | None,
    probability: float | None,
    move: float | None,
    move_low: float | None,
    move_high: float | None,
) -> None:
    wrong = []
    if probability is not None and (
        (direction == "up" and probability < 0.5) or (direction == "down" and probability > 0.5)
    ):
        side = "at least" if direction == "up" else "at most"
        wrong.append(f"probability {probability:g} beside its direction {direction}: it is to be {side} 0.5")
    low = move_low if move_low is not None else move
    high = move_high if move_high is not None else move
    if low is not None and high is not None and low > high:
        wrong.append(f"the range of the move is {low:g} to {high:g}: the lower end comes first")
    elif move is not None and low is not None and high is not None and not low <= move <= high:
        wrong.append(f"move {move:g} is outside its range of {low:g} to {high:g}")
    if wrong:
        raise ValueError("; ".join(wrong))


class KeptThesis(Thesis):
    """A thesis as it is kept, with the figures behind its ids.

    invalidation_price: of its level, in the listing's currency. close: when it was stated. benchmark: the universe
    whose median the probability compares with. missing: names of the fields that the evidence did not decide.
    """

    invalidation_price: float | None = None
    close: float | None = None
    benchmark: str | None = None
    missing: list[str] = []


class PooledRow(Frozen):
    """One thesis in a conclusion. forecasts: False of a role that states a risk; probability: None of a report that
    states none; weight: its share of the pool; earned: what its role's own record makes of 1, None before it has
    one."""

    role: str
    forecasts: bool = True
    probability: float | None = None
    weight: float = 0.0
    earned: float | None = None


class Pooled(Frozen):
    """The conclusion of a candidate's theses.

    probability: that the share beats its benchmark over `horizon` sessions, from `base`, its base rate (None without
    one), and what roles state; low, high: its 95 % interval; above: how likely it is above one half. spread: the
    highest probability of a role less the lowest. move: the expected return, drawn to the base rate's alike; move_low,
    move_high: the widest of the stated ones; cost: of buying and selling again, a share of the price.
    invalidation_price: the nearest to the close on the losing side; invalidation_source: its role and level. theses:
    those with a probability. rows: the arithmetic.
    """

    probability: float | None = None
    low: float | None = None
    high: float | None = None
    above: float | None = None
    base: float | None = None
    cost: float = 0.0
    spread: float | None = None
    horizon: int | None = None
    move: float | None = None
    move_low: float | None = None
    move_high: float | None = None
    invalidation_price: float | None = None
    invalidation_source: str | None = None
    theses: int = 0
    rows: list[PooledRow] = []


def kept_thesis(stored: dict[str, Any] | None) -> KeptThesis | None:
    return None if stored is None else KeptThesis.model_validate(stored)
