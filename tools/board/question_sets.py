"""Question sets of ForecastBench with their resolutions, and rates of what became of earlier questions.

A folder has question sets (`DATE-llm.json`) and resolution sets (`DATE_resolution_set.json`), as the repository
forecastingresearch/forecastbench-datasets has them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, Field, ValidationError

from chordesk.models.errors import UsageError
from chordesk.models.outside import Oversized, held

DATA = ("acled", "dbnomics", "fred", "wikipedia", "yfinance")
MARKETS = ("infer", "manifold", "metaculus", "polymarket")
LAG = dt.timedelta(days=7)  # after its day, a series' value is published; a later set cannot have learned it before
RESOLUTIONS = "_resolution_set.json"  # ends the name of a file of outcomes


class BenchQuestion(BaseModel):
    """A question of a set, as its file has it."""

    id: str | list[str]
    source: str
    question: str
    background: str = ""
    resolution_criteria: str = ""
    market_info_resolution_criteria: str = ""
    freeze_datetime: dt.datetime
    freeze_datetime_value: str | float
    freeze_datetime_value_explanation: str = ""
    market_info_close_datetime: str = ""
    url: str = ""
    resolution_dates: list[dt.date] | str = ""


class _QuestionSet(BaseModel):
    forecast_due_date: dt.date
    question_set: str
    questions: list[BenchQuestion]


class _Resolution(BaseModel):
    id: str | list[str]
    source: str
    resolution_date: dt.date
    resolved_to: float | None = Field(ge=0, le=1)
    resolved: bool


class _ResolutionSet(BaseModel):
    forecast_due_date: dt.date
    resolutions: list[_Resolution]


class Series(NamedTuple):
    """What a question is about, the same in every set that asks it."""

    source: str
    id: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A question at one horizon. due: the set's day; until: the day that decides it, for a market's question only where
    it is resolved; outcome: None where there is none yet. value: what the question states of its freeze."""

    series: Series
    due: dt.date
    freeze: dt.date
    until: dt.date | None
    text: str
    value: float | None
    outcome: float | None = None

    @property
    def days(self) -> int:
        return (self.until - self.due).days if self.until else 0

    @property
    def kind(self) -> str:
        """The question's opening words without the name of its series: questions about different series share them."""
        return " ".join(self.text.split()[:5])


class Outcome(NamedTuple):
    """What came of a question, and the day that decided it."""

    day: dt.date
    value: float


class Known(NamedTuple):
    """An outcome of an earlier set."""

    series: Series
    due: dt.date
    until: dt.date
    outcome: float


@dataclass(slots=True)
class Folder:
    """What a folder has: the questions of each set by its day, and the outcomes of all sets. left_out: how many
    questions of its files are none that is known here, by what they are."""

    questions: dict[dt.date, list[Asked]] = field(default_factory=dict)
    outcomes: list[Known] = field(default_factory=list)
    files: dict[dt.date, str] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def resolved(self, day: dt.date) -> list[Asked]:
        return [asked for asked in self.questions[day] if asked.outcome is not None]


def read(root: Path) -> Folder:
    """Return what is in a folder and below it. Raises UsageError for one without a question set and its resolutions,
    and for a file of another shape, with its name."""
    folder = Folder()
    resolutions = dict(resolutions_in(path) for path in sorted(root.rglob(f"*{RESOLUTIONS}")))
    for due, by_series in resolutions.items():
        folder.outcomes += [Known(series, due, *row) for series, all_of in by_series.items() for row in all_of]
    for path in sorted(root.rglob("????-??-??-llm.json")):
        asked = parsed(path, _QuestionSet)
        due = asked.forecast_due_date
        folder.files[due] = path.name
        folder.questions[due] = [
            one for question in asked.questions for one in _asked(question, due, resolutions.get(due, {}))
        ]
        for one in asked.questions:
            if isinstance(one.id, list):
                folder.left_out["combinations of questions"] += 1
            elif one.source not in (*DATA, *MARKETS):
                folder.left_out[f"of the source {one.source[:40]}"] += 1
    scored = [day for day in folder.questions if folder.resolved(day)]
    if not scored:
        reason = f"{root} has {len(folder.questions)} question sets and {len(resolutions)} resolution sets, and no pair"
        remedy = "name a copy of forecastbench-datasets: DATE-llm.json beside DATE_resolution_set.json of the same day"
        raise UsageError(reason, remedy=remedy)
    return folder


Parsed = TypeVar("Parsed", bound=BaseModel)


def parsed(path: Path, shape: type[Parsed]) -> Parsed:
    try:
        with path.open("rb") as file:
            return shape.model_validate_json(held(str(path), file))
    except Oversized as error:
        raise UsageError(str(error), remedy="name a question set or a resolution set") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that is there") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        reason = f"{path} is no file of ForecastBench as it is known here: {where}: {first['msg']}"
        raise UsageError(reason, remedy="take it from a release of 2025-10 or later, or move it away") from None


def resolutions_in(path: Path) -> tuple[dt.date, dict[Series, list[Outcome]]]:
    """Return the day of a resolution set, and by series the outcomes that are known. Raises UsageError for another
    file."""
    read = parsed(path, _ResolutionSet)
    found: dict[Series, list[Outcome]] = defaultdict(list)
    for row in read.resolutions:
        if isinstance(row.id, str) and row.source in (*DATA, *MARKETS) and row.resolved and row.resolved_to is not None:
            found[Series(row.source, row.id)].append(Outcome(row.resolution_date, row.resolved_to))
    return read.forecast_due_date, found


def _asked(question: BenchQuestion, due: dt.date, resolutions: Mapping[Series, Sequence[Outcome]]) -> Iterable[Asked]:
    if isinstance(question.id, list) or question.source not in (*DATA, *MARKETS):
        return
    series = Series(question.source, question.id)
    rows = resolutions.get(series, ())
    value = number(question.freeze_datetime_value)
    fixed = (series, due, question.freeze_datetime.date())
    if question.source in MARKETS:
        last = rows[-1] if rows else None
        until, outcome = last or (None, None)
        yield Asked(*fixed, until, question.question, value, outcome)
        return
    outcomes = dict(rows)
    days = question.resolution_dates if isinstance(question.resolution_dates, list) else []
    for until in sorted({*days, *outcomes}):
        yield Asked(*fixed, until, question.question, value, outcomes.get(until))


def number(value: str | float) -> float | None:
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


# How strongly a group's own record counts against that of the group around it: the outcomes that the latter is worth.
_STRENGTHS = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 1e9)
LEVELS = ("source", "days", "kind", "series")  # from the largest group to the smallest
Floats = npt.NDArray[np.float64]


class Record:
    """Rates of outcomes by walk-forward, each group's drawn to that of the larger group around it. How strongly is
    chosen by which of _STRENGTHS forecast the known sets best, each from the others (leave one set out)."""

    def __init__(self, known: Sequence[Known], asked: Sequence[Asked], kinds: Mapping[Series, str]) -> None:
        self._known, self._asked, self._kinds = known, asked, kinds
        self._outcomes = np.array([one.outcome for one in known])
        self._sets = _codes([one.due for one in known])

    def rates(self, *levels: str) -> Floats:
        """levels: of LEVELS, in their order."""
        inner, outer = np.full(len(self._known), 0.5), np.full(len(self._asked), 0.5)
        if not self._known:
            return outer
        for level in levels:
            inner, outer = self._drawn(level, inner, outer)
        return outer

    def _drawn(self, level: str, inner: Floats, outer: Floats) -> tuple[Floats, Floats]:
        keys = [*(self._key(level, one) for one in self._known), *(self._key(level, one) for one in self._asked)]
        codes = _codes(keys)
        mine, theirs = codes[: len(self._known)], codes[len(self._known) :]
        sums, counts = _totals(mine, self._outcomes, codes.max() + 1)
        blocks = mine * (self._sets.max() + 1) + self._sets
        set_sums, set_counts = _totals(blocks, self._outcomes, blocks.max() + 1)
        others, of_others = (sums[mine] - set_sums[blocks]), (counts[mine] - set_counts[blocks])

        def left_out(strength: float) -> Floats:
            return np.asarray((others + strength * inner) / (of_others + strength))

        strength = min(_STRENGTHS, key=lambda one: float(((left_out(one) - self._outcomes) ** 2).sum()))
        outside: Floats = (sums[theirs] + strength * outer) / (counts[theirs] + strength)
        return left_out(strength), outside

    def _key(self, level: str, one: Known | Asked) -> Hashable:
        if level == "days":
            return (one.until - one.due).days if one.until else 0
        return one.series if level == "series" else self._kinds.get(one.series, "") if level == "kind" else ""


def _codes(keys: Sequence[Hashable]) -> npt.NDArray[np.int64]:
    places: dict[Hashable, int] = {}
    return np.array([places.setdefault(key, len(places)) for key in keys], np.int64)


def _totals(codes: npt.NDArray[np.int64], values: Floats, size: int) -> tuple[Floats, Floats]:
    counts = np.bincount(codes, minlength=size).astype(np.float64)
    return np.bincount(codes, values, size).astype(np.float64), counts
