"""Theses of reports as scored forecasts, and what a role's word weighs by them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import sqlalchemy
from sqlmodel import Session, col

from chordesk.models.tables.board import Question, ThesisQuestion
from chordesk.models.tables.runs import CandidateHit, Report, Run, ScreenHit
from chordesk.models.thesis import kept_thesis
from chordesk.tools.questions.reading import known_column
from chordesk.tools.scoring.inference import Estimate
from chordesk.tools.scoring.statistics import ScoredForecast, mean_of
from chordesk.tools.scoring.track_records import resolved, voice_records
from chordesk.tools.scoring.voices import compute_shares

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
        sqlalchemy.select(col(ScreenHit.run_id), col(ScreenHit.symbol), col(ScreenHit.lens))
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
