"""The probability behind a verdict's rating and confidence, from its record, apart from what the model may have
read."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.tables.board import Calibration
from chordesk.models.tables.runs import Run, Verdict
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.scoring.inference import Observation, estimate, share_bounds
from chordesk.tools.scoring.statistics import CODE, ScoredForecast
from chordesk.tools.scoring.track_records import verdict_judgements

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
    clean = [one for one in group if side_of(author, exchange_day(one.at), cutoffs) != CutoffSide.BEFORE]
    first: dict[str, ScoredForecast] = {}
    for one in sorted(clean, key=lambda one: one.at):
        first.setdefault(one.question, one)
    per_day = Counter(exchange_day(one.at) for one in first.values())
    # Each date has one vote: a day with many verdicts is still one market.
    mean = estimate(
        Observation(
            one.outcome,
            exchange_day(one.at).toordinal(),
            exchange_day(one.known).toordinal(),
            one.name or one.question,
            1 / per_day[exchange_day(one.at)],
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
