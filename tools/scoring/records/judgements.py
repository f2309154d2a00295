"""The record of lenses, validator roles and verdicts: what they made of symbols that a question was asked about."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.board.questions import QuestionSource
from chordesk.models.research import ReportStatus
from chordesk.models.tables.questions import Question, VerdictQuestion
from chordesk.models.tables.runs import Report, Run, ScreenHit, Turn, Verdict
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.scoring.records.voices import resolved
from chordesk.tools.scoring.walked import Judgement

_OF_RUN = (col(Run.id), col(Run.market), col(Run.market_now))


class _Asked(NamedTuple):
    """Resolved questions of the desk: by run and symbol where a verdict names one, else by market, symbol and day."""

    by_verdict: Mapping[tuple[str, str], Question]
    by_day: Mapping[tuple[str, str, dt.date], Question]

    def of(self, run: str, symbol: str, market: str, day: dt.date) -> Question | None:
        """Return the question on a symbol of a run; None if none was asked."""
        return self.by_verdict.get((run, symbol)) or self.by_day.get((market, symbol, day))


def lens_judgements(session: Session, account: str, until: dt.datetime | None = None) -> list[Judgement]:
    """Return an account's screen hits on symbols with a resolved question; source is the lens, label its confidence."""
    query = (
        sqlalchemy.select(
            col(ScreenHit.lens), col(ScreenHit.confidence), col(ScreenHit.symbol), col(Turn.model), *_OF_RUN
        )
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .join(Turn, col(Turn.id) == col(ScreenHit.turn_id))
        .where(col(Run.account) == account)
        .order_by(col(Run.market_now), col(ScreenHit.id))
    )
    return _judgements(session, until, session.execute(query))


def role_judgements(session: Session, account: str, until: dt.datetime | None = None) -> list[Judgement]:
    """Return an account's completed reports alike; source is the role, label its stance and confidence."""
    label = col(Report.verdict) + " " + col(Report.confidence)
    query = (
        sqlalchemy.select(col(Report.role), label, col(Report.symbol), col(Report.author), *_OF_RUN)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(
            col(Run.account) == account,
            col(Report.status) == ReportStatus.COMPLETED,
            col(Report.verdict).is_not(None),
            col(Report.confidence).is_not(None),
        )
        .order_by(col(Run.market_now), col(Report.id))
    )
    return _judgements(session, until, session.execute(query))


def verdict_judgements(session: Session, account: str, until: dt.datetime | None = None) -> list[Judgement]:
    """Return an account's verdicts alike; source is the rating, label rating and confidence, author the run's model."""
    label = col(Verdict.rating) + " " + col(Verdict.confidence)
    query = (
        sqlalchemy.select(col(Verdict.rating), label, col(Verdict.symbol), col(Run.model), *_OF_RUN)
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(col(Run.account) == account)
        .order_by(col(Run.market_now), col(Verdict.id))
    )
    return _judgements(session, until, session.execute(query))


def _judgements(session: Session, until: dt.datetime | None, rows: Iterable[Any]) -> list[Judgement]:
    asked = _asked(session, until)
    found = []
    for source, label, symbol, author, run, market, at in rows:
        question = asked.of(run, symbol, market, exchange_day(at))
        if question is not None and question.baseline is not None and question.outcome is not None:
            found.append(
                Judgement(
                    source,
                    label,
                    question.id,
                    at,
                    question.closes_at,
                    question.baseline,
                    question.outcome,
                    author,
                    run,
                )
            )
    return found


def _asked(session: Session, until: dt.datetime | None) -> _Asked:
    verdicts = (
        sqlalchemy.select(col(Verdict.run_id), col(Verdict.symbol), Question)
        .join(VerdictQuestion, col(VerdictQuestion.verdict_id) == col(Verdict.id))
        .join(Question, col(Question.id) == col(VerdictQuestion.question_id))
        .where(*resolved(until))
    )
    own = (QuestionSource.DESK, QuestionSource.VERDICT)
    rows = session.exec(select(Question).where(col(Question.source).in_(own), *resolved(until)).order_by(Question.id))
    by_day = {
        (question.market, question.rule["symbol"], dt.date.fromisoformat(question.rule["day"])): question
        for question in rows
        if question.rule.get("kind") == "beats_median"
    }
    by_verdict = {(run, symbol): question for run, symbol, question in session.execute(verdicts)}
    return _Asked(by_verdict, by_day)
