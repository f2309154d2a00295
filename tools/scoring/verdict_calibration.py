"""The probability behind a verdict's rating and confidence, from its record, apart from what the model may have
read."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.tables.board import Calibration, Question, ThesisQuestion
from chordesk.models.tables.runs import CandidateHit, Report, Run, ScreenHit, Verdict, lens_title
from chordesk.models.thesis import kept_thesis
from chordesk.tools.market.clock import day_of
from chordesk.tools.questions.stored_questions import known_column
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, share_bounds
from chordesk.tools.scoring.statistics import CODE, ScoredForecast, mean_of
from chordesk.tools.scoring.track_records import resolved, verdict_judgements, voice_records
from chordesk.tools.scoring.voice_scores import compute_shares

LEAST_THESES = 30  # resolved ones from which on a role's own record weighs


def thesis_forecasts(
    session: Session, account: str, until: dt.datetime | None = None, since: dt.datetime | None = None
) -> list[ScoredForecast]:
    """Return the probabilities of an account's theses that have their outcome, by time; source is the role, label
    `crossed` where the invalidation was reached first, `held` where it was not, else empty.

    until, since: market time, as of `voice_forecasts`.
    """
    query = (
        sqlalchemy.select(Report, Question, ThesisQuestion, known_column())
        .join(ThesisQuestion, col(ThesisQuestion.report_id) == col(Report.id))
        .join(Question, col(Question.id) == col(ThesisQuestion.question_id))
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(col(Run.account) == account, *resolved(until, since))
        .order_by(col(Report.market_at), col(Report.id))
    )
    found = []
    for report, question, link, known in session.execute(query):
        thesis = kept_thesis(report.thesis)
        if thesis is None or thesis.probability is None or question.outcome is None or question.baseline is None:
            continue
        watched = link.watched and thesis.invalidation_price is not None
        label = ("crossed" if link.crossed_on else "held") if watched else ""
        worth = (thesis.probability, question.baseline, question.outcome)
        found.append(
            ScoredForecast(
                report.role, question.id, report.market_at, known, *worth, report.author, report.run_id,
                label=label, name=report.symbol,
            )
        )  # fmt: skip
    return found


def grouped(session: Session, forecasts: Iterable[ScoredForecast]) -> dict[str, list[ScoredForecast]]:
    """Return the theses by role, model, lens of their candidate, and horizon in sessions; each is in several groups."""
    given = list(forecasts)
    lenses, horizons = (
        lenses_of(session, {one.run for one in given}),
        _horizons(session, {one.question for one in given}),
    )
    found: dict[str, list[ScoredForecast]] = {}
    for one in given:
        names = [f"role {one.source}", f"model {one.author}", f"horizon {horizons[one.question]}"]
        for name in (*names, *(f"lens {lens}" for lens in lenses.get((one.run, one.name), ()))):
            found.setdefault(name, []).append(one)
    return found


def lenses_of(session: Session, runs: set[str]) -> dict[tuple[str, str], list[str]]:
    """Return the lenses that put a symbol forward, by research run and symbol."""
    query = (
        sqlalchemy.select(col(ScreenHit.run_id), col(ScreenHit.symbol), lens_title())
        .join(CandidateHit, col(CandidateHit.hit_id) == col(ScreenHit.id))
        .where(col(ScreenHit.run_id).in_(runs))
        .distinct()
    )
    found: dict[tuple[str, str], list[str]] = {}
    for run, symbol, lens in session.execute(query):
        found.setdefault((run, symbol), []).append(lens)
    return found


def _horizons(session: Session, questions: set[str]) -> dict[str, int]:
    query = sqlalchemy.select(col(Question.id), col(Question.rule)).where(col(Question.id).in_(questions))
    return {one: rule["sessions"] for one, rule in session.execute(query)}


def crossed_share(forecasts: Iterable[ScoredForecast]) -> Estimate | None:
    """Return the share of theses whose invalidation was reached first, of those that name a level."""
    return mean_of((one for one in forecasts if one.label), lambda one: float(one.label == "crossed"))


def weights(session: Session, account: str, until: dt.datetime | None = None) -> dict[str, float]:
    """Return what a role's probability weighs by its own record, of roles with LEAST_THESES resolved questions: 1 on
    the average of these, half of it alike and half by the lower bound of what each has earned. A role that is not there
    weighs 1."""
    forecasts = thesis_forecasts(session, account, until)
    records = voice_records(forecasts, sorted({one.source for one in forecasts}))
    known = [one for one in records if one.alpha is not None and one.alpha.n >= LEAST_THESES]
    return {role: share * len(known) for role, share in compute_shares(known).items()}


RULES = "rulebook"


class CutoffSide(StrEnum):
    """The side of a model's cutoff on which a forecast lies. Rules and code have read nothing: they are exempt."""

    AFTER = "after"
    BEFORE = "before"
    UNKNOWN = "unknown"
    EXEMPT = "exempt"


def cutoffs_of(setting: str) -> dict[str, dt.date]:
    """Return the last training day by model of DESK_MODEL_CUTOFFS, which the settings have checked."""
    parts = (part.strip().partition("=") for part in setting.split(";") if part.strip())
    return {model.strip(): dt.date.fromisoformat(day.strip()) for model, _, day in parts}


def side_of(author: str, day: dt.date, cutoffs: Mapping[str, dt.date]) -> CutoffSide:
    """Return the side for a model's label, such as codex:gpt-5.5, and the market's day of a forecast. A model is named
    with its runtime or without. The cutoff day itself lies before."""
    if author == CODE or author.partition(" ")[0] == RULES:
        return CutoffSide.EXEMPT
    cutoff = cutoffs.get(author) or cutoffs.get(author.partition(":")[2])
    if cutoff is None:
        return CutoffSide.UNKNOWN
    return CutoffSide.AFTER if day > cutoff else CutoffSide.BEFORE


LEAST_RESOLVED = LEAST_DATES = 30


@dataclass(frozen=True, slots=True)
class OddsFound:
    """The probability that the symbol beats the median, its 95 % interval, and the market time from which all of the
    outcomes are known."""

    probability: float
    low: float
    high: float
    until: dt.datetime


@dataclass(frozen=True, slots=True)
class VerdictOdds:
    """What verdicts of a model, rating and confidence turned out to be worth: n resolved questions on so many dates,
    which are so many horizons without overlap."""

    author: str
    rating: str
    confidence: str
    n: int
    dates: int
    spans: float
    contaminated: int  # verdicts left out because they lie before the model's cutoff
    found: OddsFound | None = None  # None until there is enough


def verdict_odds(
    session: Session, account: str, cutoffs: Mapping[str, dt.date], least: int = LEAST_RESOLVED
) -> list[VerdictOdds]:
    if least < LEAST_RESOLVED:
        raise UsageError(f"{least} questions are not enough", remedy=f"give {LEAST_RESOLVED} or more")
    grouped: dict[tuple[str, str], list[ScoredForecast]] = defaultdict(list)
    for one in verdict_judgements(session, account):
        grouped[one.author, one.label].append(one)
    return [_odds(author, label, group, cutoffs, least) for (author, label), group in sorted(grouped.items())]


def store_odds(session: Session, account: str, found: Iterable[VerdictOdds]) -> list[Calibration]:
    """Add a row for each of the odds with a probability, unless the one in force is the same; return those added."""
    added = []
    for one in found:
        if (odds := one.found) is None:
            continue
        row = Calibration(
            rating=one.rating,
            confidence=one.confidence,
            probability=odds.probability,
            low=odds.low,
            high=odds.high,
            resolved=one.n,
            dates=one.dates,
            detail={"account": account, "author": one.author, "until": odds.until.isoformat()},
        )
        known = calibrations_in_force(session, account, one.author).get((one.rating, one.confidence))
        if known is None or _figures(known) != _figures(row):
            session.add(row)
            added.append(row)
    session.flush()
    return added


def calibrations_in_force(
    session: Session, account: str, author: str, at: dt.datetime | None = None
) -> dict[tuple[str, str], Calibration]:
    """Return a model's newest calibrations by rating and confidence. at: market time of the verdicts; a calibration
    that rests on later outcomes is passed over."""
    rows = session.exec(select(Calibration).order_by(col(Calibration.created_at), col(Calibration.id)))
    return {(row.rating, row.confidence): row for row in rows if _applies(row, account, author, at)}


def odds_of_run(session: Session, run_id: str) -> Callable[[Verdict], float | None]:
    run = session.get_one(Run, run_id)
    known = calibrations_in_force(session, run.account, run.model, run.market_now)

    def probability(verdict: Verdict) -> float | None:
        found = known.get((verdict.rating, verdict.confidence))
        return found.probability if found else None

    return probability


def _odds(
    author: str, label: str, group: list[ScoredForecast], cutoffs: Mapping[str, dt.date], least: int
) -> VerdictOdds:
    rating, _, confidence = label.partition(" ")
    clean = [one for one in group if side_of(author, day_of(one.at, one.name), cutoffs) != CutoffSide.BEFORE]
    first: dict[str, ScoredForecast] = {}
    for one in sorted(clean, key=lambda one: one.at):
        first.setdefault(one.question, one)
    per_day = Counter(day_of(one.at, one.name) for one in first.values())
    # Each date has one vote: a day with many verdicts is still one market.
    mean = estimate(
        Observation(
            one.outcome,
            day_of(one.at, one.name).toordinal(),
            day_of(one.known, one.name).toordinal(),
            one.name or one.question,
            1 / per_day[day_of(one.at, one.name)],
        )
        for one in first.values()
    )
    spans, bounds = mean.spans if mean else 0.0, share_bounds(mean)
    dates, contaminated = len(per_day), len(group) - len(clean)
    odds = None
    if len(first) >= least and dates >= LEAST_DATES and mean is not None and bounds is not None:
        odds = OddsFound(min(1.0, mean.mean), *bounds, max(one.known for one in first.values()))
    return VerdictOdds(author, rating, confidence, len(first), dates, spans, contaminated, odds)


def _applies(row: Calibration, account: str, author: str, at: dt.datetime | None) -> bool:
    detail = row.detail or {}
    if (detail.get("account"), detail.get("author")) != (account, author):
        return False
    return at is None or dt.datetime.fromisoformat(detail["until"]) <= at


def _figures(row: Calibration) -> tuple[float | int, ...]:
    return (row.probability, row.low, row.high, row.resolved, row.dates)
