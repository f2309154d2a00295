"""ForecastBench: question sets with their resolutions, the forecasts that code can make, and their Brier scores.

A set's forecasts use only what was known at its freeze: outcomes of earlier sets that were resolved LAG before it, and
the values that its own questions state.
"""

from __future__ import annotations

import bisect
import datetime as dt
import json
import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel

from chordesk.models.benchmarks import Ask, Benchmark, Board, Given, Measured, Row
from chordesk.models.errors import UsageError
from chordesk.models.exchanges import HOME
from chordesk.tools.board.question_sets import (
    DATA,
    LAG,
    LEVELS,
    MARKETS,
    Asked,
    Floats,
    Folder,
    Record,
    Series,
    parsed,
    read,
)
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.scoring.inference import LEAST_DATES, Observation, estimate, reach_text
from chordesk.tools.scoring.statistics import brier

MOST_IMPUTED = 0.05  # the leaderboard does not rank a forecaster of whom more is missing
SOURCE = "leaderboard_tournament.csv of forecastbench-datasets, 2026-08-21"
BASELINE = "leaderboard_baseline.csv of forecastbench-datasets, 2026-08-21"  # models alone, without freeze values
# Their Brier scores are adjusted for how hard a question is, and scaled so that "always 0.5" has 0.25.
PUBLISHED = (
    Row("Superforecaster median", {"data": 0.132, "market": 0.060, "overall": 0.096}, SOURCE),
    Row("Torchcast AI rice-demon", {"data": 0.118, "market": 0.075, "overall": 0.097}, SOURCE),
    Row("Cassi-2026-05-10", {"data": 0.142, "market": 0.055, "overall": 0.098}, SOURCE),
    Row("o3-2025-04-16", {"data": 0.156, "market": 0.090, "overall": 0.123}, SOURCE),
    Row("o3-2025-04-16-scratchpad, no freeze values", {"data": 0.156, "market": 0.133, "overall": 0.144}, BASELINE),
    Row("o3-2025-04-16, no freeze values", {"data": 0.156, "market": 0.151, "overall": 0.153}, BASELINE),
    Row("Public median", {"data": 0.166, "market": 0.097, "overall": 0.131}, SOURCE),
    Row("Imputed Forecaster", {"data": 0.250, "market": 0.077, "overall": 0.164}, SOURCE),
    Row("Always 0.5", {"data": 0.250, "market": 0.250, "overall": 0.250}, SOURCE),
)


# Daily mean temperatures of France: their course over the year, and how they leave it. Round figures of a climate, not
# fitted to any set: mean and half range in degrees, the warmest day of the year, how much of a deviation is left after
# the days from freeze to due, and the spread of the difference of two days.
_MEAN, _HALF_RANGE, _WARMEST, _LEFT, _SPREAD = 13.0, 8.0, 200, 0.35, 5.0


def warmer(asked: Asked) -> float:
    """Return the probability that a French station is warmer on its day than on the set's."""
    assert asked.value is not None
    assert asked.until is not None
    then = _normal_temperature(asked.due) + _LEFT * (asked.value - _normal_temperature(asked.freeze))
    return 0.5 * (1 + math.erf((_normal_temperature(asked.until) - then) / _SPREAD / math.sqrt(2)))


def _normal_temperature(day: dt.date) -> float:
    return _MEAN + _HALF_RANGE * math.cos(2 * math.pi * (day.timetuple().tm_yday - _WARMEST) / 365.25)


class Forecasters:
    """The forecasts of a set that code makes, each a probability by question."""

    def __init__(self, folder: Folder, day: dt.date) -> None:
        self.asked = folder.questions[day]
        self._folder, self._day = folder, day

    def always(self) -> Floats:
        return np.full(len(self.asked), 0.5)

    def base_rate(self) -> Floats:
        """How often questions of the source, at this horizon, came true."""
        return self._rates("source", "days")

    def own_record(self) -> Floats:
        """... drawn to what the kind of question and the series itself did."""
        return self._rates(*LEVELS)

    def freeze_price(self) -> Floats:
        """A market's price at the freeze; 0.5 for what has no price."""
        prices = [one.value if one.series.source in MARKETS and one.value is not None else 0.5 for one in self.asked]
        return np.array([min(max(price, 0.0), 1.0) for price in prices])

    def code(self) -> Floats:
        """The best that code knows: a market's price, a climate for temperatures, else the series' own record."""
        found: Floats = np.where(self._markets, self.freeze_price(), self.own_record())
        for place, one in enumerate(self.asked):
            if one.series.source == "dbnomics" and "temperature" in one.text and one.value is not None:
                found[place] = warmer(one)
        return found

    @cached_property
    def _markets(self) -> npt.NDArray[np.bool_]:
        return np.array([one.series.source in MARKETS for one in self.asked])

    def _rates(self, *levels: str) -> Floats:
        found = self.freeze_price()
        # What a series is asked in, as of this set: of later sets nothing is read.
        sets = (questions for day, questions in self._folder.questions.items() if day <= self._day)
        kinds = {one.series: one.kind for questions in sets for one in questions}
        for source in DATA:
            places = [place for place, one in enumerate(self.asked) if one.series.source == source]
            asked = [self.asked[place] for place in places]
            known = [
                one
                for one in self._folder.outcomes
                if one.series.source == source and one.due < self._day and one.until + LAG <= self._freeze
            ]
            if asked:
                found[places] = Record(known, asked, kinds).rates(*levels)
        return found

    @cached_property
    def _freeze(self) -> dt.date:
        return min(one.freeze for one in self.asked)


FORECASTERS: Mapping[str, Callable[[Forecasters], Floats]] = {
    "always 0.5": Forecasters.always,
    "base rate": Forecasters.base_rate,
    "own record": Forecasters.own_record,
    "freeze price": Forecasters.freeze_price,
    "code": Forecasters.code,
}


class Score(NamedTuple):
    """A mean Brier score of so many questions of a group. low, high: 95 % bounds by question set, whose scores are
    blocks in time; None with the reason in `lack`."""

    forecaster: str
    group: str
    brier: float
    n: int
    sets: int
    imputed: int
    low: float | None
    high: float | None
    lack: str


class Forecast(NamedTuple):
    """A probability for a question; imputed: the forecaster left it out, and 0.5 stands for it."""

    asked: Asked
    probability: float
    imputed: bool = False


def scores(name: str, forecasts: Sequence[Forecast]) -> list[Score]:
    """Return the scores of the data and of the market questions, of each source, and of each horizon of the data."""
    groups: dict[str, list[Forecast]] = defaultdict(list)
    for one in forecasts:
        if one.asked.outcome is None:
            continue
        source = one.asked.series.source
        groups["data" if source in DATA else "market"].append(one)
        groups[source].append(one)
        if source in DATA:
            groups[f"{one.asked.days} days"].append(one)
    return [_score(name, group, groups[group]) for group in sorted(groups, key=_place)]


def _place(group: str) -> tuple[int, int, str]:
    days = group.removesuffix(" days")
    return ("data", "market").index(group) if group in ("data", "market") else 2 + days.isdigit(), len(group), group


def _score(name: str, group: str, forecasts: Sequence[Forecast]) -> Score:
    found = estimate(
        Observation(
            brier(one.probability, one.asked.outcome or 0.0),
            one.asked.due.toordinal(),
            one.asked.due.toordinal() + 1,
            one.asked.series.id,
        )
        for one in forecasts
    )
    assert found is not None
    imputed = sum(one.imputed for one in forecasts)
    return Score(name, group, found.mean, found.n, found.dates, imputed, found.low, found.high, found.lack)


def overall(found: Sequence[Score]) -> float | None:
    """The leaderboard's overall score: the mean of those of data and markets."""
    both = {one.group: one.brier for one in found if one.group in ("data", "market")}
    return sum(both.values()) / 2 if len(both) == 2 else None


def by_code(folder: Folder, days: Sequence[dt.date]) -> dict[str, list[Forecast]]:
    """Return the forecasts of each of FORECASTERS for the sets of these days."""
    found: dict[str, list[Forecast]] = {name: [] for name in FORECASTERS}
    for day in days:
        forecasters = Forecasters(folder, day)
        for name, forecast in FORECASTERS.items():
            pairs = zip(forecasters.asked, forecast(forecasters), strict=True)
            found[name] += [Forecast(asked, float(chance)) for asked, chance in pairs]
    return found


BOARD = 5  # questions of a board: a tool has at most so many findings


def sample(folder: Folder, days: Sequence[dt.date], count: int, seed: int) -> list[tuple[dt.date, list[Asked]]]:
    """Return boards of questions that have an outcome, by day. The boards are spread evenly over the sets; each takes
    its questions from data and markets by turns, and from the sources of each by turns. Raises UsageError where there
    are fewer."""
    draw = random.Random(seed)
    boards = math.ceil(count / BOARD)
    chosen = [days[place * len(days) // boards] for place in range(boards)]
    found: list[tuple[dt.date, list[Asked]]] = []
    for place, day in enumerate(chosen):
        if day in chosen[:place]:
            continue
        wanted = min(BOARD * chosen.count(day), count - sum(len(each) for _, each in found))
        picked = _picked(folder.resolved(day), wanted, draw)
        found += [(day, picked[start : start + BOARD]) for start in range(0, len(picked), BOARD)]
    if (there := sum(len(each) for _, each in found)) < count:
        reason = f"--questions {count}: {len(days)} sets have {there} questions for it with an outcome"
        raise UsageError(reason, remedy="ask fewer, or take more sets")
    return found


def _picked(questions: Sequence[Asked], wanted: int, draw: random.Random) -> list[Asked]:
    by_source: dict[str, list[Asked]] = defaultdict(list)
    for one in draw.sample(questions, len(questions)):
        by_source[one.series.source].append(one)
    sides = [[source for source in side if source in by_source] for side in (DATA, MARKETS)]
    for side in sides:
        draw.shuffle(side)
    found: list[Asked] = []
    while len(found) < wanted and any(sides):
        for side in filter(None, sides):
            source = side.pop(0)
            found.append(by_source[source].pop())
            side += [source] if by_source[source] else []
    return found[:wanted]


def key_of(asked: Asked) -> str:
    """Return the question's external id, as an import of its set has it."""
    horizon = f" {asked.until}" if asked.series.source in DATA else ""
    return f"{asked.due} {asked.series.source} {asked.series.id}{horizon}"


def clock_of(asked: Sequence[Asked]) -> dt.date:
    """Return the first session on or after the freeze of questions of one set: its day is that of the run's clock."""
    freeze, hours = max(one.freeze for one in asked), exchange_hours(HOME)
    return hours.sessions[bisect.bisect_left(hours.sessions, freeze)]


def by_voices(
    folder: Folder, root: Path, days: Sequence[dt.date], given: Given, code: Sequence[Forecast]
) -> tuple[dict[str, list[Forecast]], list[str]]:
    """Let the desk's voices forecast a sample. Return the forecasts of all together, of each voice, and of code on the
    same questions, as the first is ranked, and lines on them. What a voice leaves out counts as 0.5."""
    assert given.ask is not None
    boards = sample(folder, days, given.questions, given.seed)
    asked = [one for _, board in boards for one in board]
    answered = given.ask(Ask(root, [Board(clock_of(board), list(map(key_of, board))) for _, board in boards]))
    found = {}
    for voice, probabilities in answered.voices.items():
        who = f"{voice or 'the voices'}, {answered.model}"
        found[who] = [
            Forecast(one, probabilities.get(key_of(one), 0.5), key_of(one) not in probabilities) for one in asked
        ]
    keys = set(map(key_of, asked))
    found["code, the same questions"] = [one for one in code if key_of(one.asked) in keys]
    together = answered.voices.get("", {})
    left_out = sum(key_of(one) not in together for one in asked)
    lines = [
        f"{len(asked)} questions on {len(boards)} boards of {len({day for day, _ in boards})} sets, seed {given.seed}: "
        f"{answered.turns} turns, {answered.tokens:,} tokens; {left_out} not forecast, which count as 0.5"
    ]
    if answered.blind is not None:
        lines.append(f"round 2 less round 1: {_gain(asked, answered.blind, together)}")
    who = f"{answered.model}, all questions of these sets"
    whole = [one for day in sorted({day for day, _ in boards}) for one in folder.questions[day]]
    found[who] = [Forecast(one, together.get(key_of(one), 0.5), key_of(one) not in together) for one in whole]
    return found, lines


def _gain(asked: Sequence[Asked], first: Mapping[str, float], second: Mapping[str, float]) -> str:
    """Return the mean difference of the Brier scores of questions that both rounds forecast, with its interval."""
    both = [(one, key) for one in asked if (key := key_of(one)) in first and key in second]
    found = estimate(
        Observation(
            brier(second[key], one.outcome or 0.0) - brier(first[key], one.outcome or 0.0),
            one.due.toordinal(),
            one.due.toordinal() + 1,
            one.series.id,
        )
        for one, key in both
    )
    if found is None:
        return "no question was forecast in both"
    told = f", p {found.chance:.3f}, n {found.n}" if found.error is not None else ""
    return f"{found.mean:+.4f} in Brier score, {reach_text(found)}{told} of {found.dates} sets"


class _Submitted(BaseModel):
    id: str | list[str]
    source: str
    forecast: float
    resolution_date: dt.date | None = None


class _Submission(BaseModel):
    organization: str
    model: str
    forecast_due_date: dt.date
    forecasts: list[_Submitted]


def submitted(path: Path, folder: Folder) -> tuple[str, dt.date, list[Forecast], int]:
    """Return who forecast which set, the forecasts of a file in the leaderboard's format, 0.5 for each that is missing,
    and how many of its forecasts are of no question of the set. Raises UsageError for a set that the folder lacks, for
    what is no probability, and for two forecasts of a question."""
    found = parsed(path, _Submission)
    if found.forecast_due_date not in folder.questions:
        days = ", ".join(map(str, folder.questions))
        raise UsageError(f"{path} forecasts the set of {found.forecast_due_date}", remedy=f"the folder has {days}")
    given: dict[tuple[Series, dt.date | None], float] = {}
    for one in found.forecasts:
        if not 0 <= one.forecast <= 1:
            raise UsageError(f"{path}: {one.forecast:g} for {one.id} is no probability", remedy="give 0 to 1")
        if isinstance(one.id, str):
            key = Series(one.source, one.id), None if one.source in MARKETS else one.resolution_date
            if given.setdefault(key, one.forecast) != one.forecast:
                reason = f"{path} has two forecasts of {one.source} {one.id}" + (f" for {key[1]}" if key[1] else "")
                raise UsageError(reason, remedy="leave one out")
    forecasts = []
    for asked in folder.questions[found.forecast_due_date]:
        key = asked.series, None if asked.series.source in MARKETS else asked.until
        forecasts.append(Forecast(asked, given.get(key, 0.5), key not in given))
    strange = len(given) - sum(not one.imputed for one in forecasts)
    return f"{found.organization} {found.model}", found.forecast_due_date, forecasts, strange


def export(name: str, forecasts: Sequence[Forecast], folder: Folder, into: Path) -> list[Path]:
    """Write forecasts as the leaderboard takes them, a file a set; return the files."""
    by_set: dict[dt.date, list[Forecast]] = defaultdict(list)
    for one in forecasts:
        by_set[one.asked.due].append(one)
    written = []
    try:
        into.mkdir(parents=True, exist_ok=True)
        for day, all_of in by_set.items():
            path = into / f"{day}.chordesk.{name.replace(' ', '-')}.json"
            path.write_text(json.dumps(_exported(name, all_of, folder.files[day], day), indent=1), encoding="utf-8")
            written.append(path)
    except OSError as error:
        reason = f"--export {into} cannot be written to: {error.strerror}"
        raise UsageError(reason, remedy="name a folder") from None
    return written


def _exported(name: str, forecasts: Sequence[Forecast], file: str, day: dt.date) -> dict[str, Any]:
    return {
        "organization": "chordesk",
        "model": name,
        "model_organization": "chordesk",
        "question_set": file,
        "forecast_due_date": day.isoformat(),
        "forecasts": [
            {
                "id": one.asked.series.id,
                "source": one.asked.series.source,
                "forecast": round(one.probability, 4),
                "resolution_date": one.asked.until.isoformat()
                if one.asked.until is not None and one.asked.series.source in DATA
                else None,
                "reasoning": None,
            }
            for one in forecasts
        ],
    }


def measure(root: Path, given: Given) -> Measured:
    folder = read(root)
    lines = [f"not read: {count:,} {what}" for what, count in sorted(folder.left_out.items())]
    others: dict[str, list[Forecast]] = {}
    wanted = list(dict.fromkeys(given.sets))
    if given.forecasts is not None:
        who, day, others[who], strange = submitted(given.forecasts, folder)
        if wanted and day not in wanted:
            raise UsageError(f"{given.forecasts} forecasts the set of {day}", remedy=f"--set {day}, or without --set")
        wanted = wanted or [day]
        if strange:
            lines.append(f"{who}: {strange:,} forecasts are of no question of the set of {day}")
    days = _scored(folder, wanted, given)
    if given.export is not None:
        code = by_code(folder, wanted or list(folder.questions))["code"]
        lines.append(f"{len(export('code', code, folder, given.export))} files for the leaderboard in {given.export}")
    if not days:
        return Measured([], lines=lines)
    found = by_code(folder, days) | others
    lines.append(
        f"{len(days)} question sets; "
        f"{sum(one.asked.outcome is None for one in found['code']):,} questions have no outcome yet and are not scored"
    )
    if len(days) < LEAST_DATES:
        lines.append(f"no error is shown: fewer than {LEAST_DATES} question sets, which are its blocks")
    if given.ask is not None:
        own, more = by_voices(folder, root, days, given, found["code"])
        found |= own
        lines += more
    for who, forecasts in found.items():
        share = sum(one.imputed for one in forecasts) / len(forecasts)
        if share > MOST_IMPUTED:
            lines.append(f"{who}: {share:.1%} of the forecasts are missing; the leaderboard ranks at most 5 %")
    by_who = {who: scores(who, forecasts) for who, forecasts in found.items()}
    rows = [Row(who, _figures(all_of)) for who, all_of in by_who.items()]
    return Measured(rows, [one._asdict() for all_of in by_who.values() for one in all_of], lines)


def _scored(folder: Folder, wanted: Sequence[dt.date], given: Given) -> list[dt.date]:
    """Return the days of the sets to score: those wanted, or all. Raises UsageError for a day without a set, and for a
    set without outcomes unless its forecasts are exported."""
    scored = [day for day in folder.questions if folder.resolved(day)]
    known = folder.questions if given.export is not None and given.forecasts is None else scored
    if unknown := sorted(set(wanted) - set(known)):
        days = ", ".join(map(str, known))
        raise UsageError(f"no set of {unknown[0]} has resolutions", remedy=f"those that have: {days}")
    return [day for day in wanted or scored if day in scored]


def _figures(found: Sequence[Score]) -> dict[str, float | None]:
    by_group = {one.group: one for one in found}
    figures: dict[str, float | None] = {"overall": overall(found)}
    for group in ("data", "market"):
        if (score := by_group.get(group)) is not None:
            reach = score.high - score.brier if score.high is not None else None
            figures |= {group: score.brier, f"{group} ±": reach, f"{group} n": float(score.n)}
    return figures


BENCHMARK = Benchmark(
    "Forecasts of questions with a later outcome (forecastingresearch/forecastbench).",
    {"data": ".4f", "data ±": ".4f", "data n": ",.0f", "market": ".4f", "market ±": ".4f", "market n": ",.0f",
     "overall": ".4f"},
    PUBLISHED,
    measure,
    frozenset({"sets", "forecasts", "export", "play", "questions"}),
    "Brier scores, 0 is best. Published ones are of other sets, adjusted for how hard each question is.",
)  # fmt: skip
