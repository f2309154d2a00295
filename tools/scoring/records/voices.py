"""The record of voices: their forecasts of resolved questions."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable

import sqlalchemy
from sqlmodel import Session, col

from chordesk.models.board.questions import QuestionState
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.questions import Question
from chordesk.tools.questions.reading import known_column
from chordesk.tools.scoring.compute import VoiceRecord
from chordesk.tools.scoring.points import alpha
from chordesk.tools.scoring.revision import BLIND, crowd, last_positions
from chordesk.tools.scoring.summary import ScoredForecast, mean_of


def voice_forecasts(session: Session, account: str, until: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return an account's forecasts of resolved questions, by time; source is the voice.

    until: market time; a question whose outcome was known later is left out, so that a replay of an earlier day never
    draws on it.
    """
    query = (
        sqlalchemy.select(
            col(Forecast.voice),
            col(Forecast.question_id),
            col(Forecast.market_at),
            known_column(),
            col(Forecast.probability),
            col(Forecast.baseline),
            col(Question.outcome),
            col(Forecast.author),
            col(Forecast.run_id),
            col(Forecast.round),
        )
        .join(Question, col(Question.id) == col(Forecast.question_id))
        .where(col(Forecast.account) == account, *resolved(until))
        .order_by(col(Forecast.market_at), col(Forecast.round), col(Forecast.id))
    )
    return [ScoredForecast(*row) for row in session.execute(query)]


def resolved(until: dt.datetime | None) -> tuple[sqlalchemy.ColumnElement[bool], ...]:
    """Return the conditions of a question that has its outcome, known by `until`, market time."""
    conditions = (col(Question.state) == QuestionState.RESOLVED, col(Question.outcome).is_not(None))
    return conditions if until is None else (*conditions, known_column() <= until)


def voice_records(forecasts: Iterable[ScoredForecast], voices: Iterable[str]) -> list[VoiceRecord]:
    """Return the record of each of these voices, in their order: alpha of its last positions."""
    own: dict[str, list[ScoredForecast]] = defaultdict(list)
    for one in last_positions(forecasts):
        own[one.source].append(one)
    return [
        VoiceRecord(voice, mean_of(own[voice], lambda one: alpha(one.probability, one.baseline, one.outcome)))
        for voice in voices
    ]


def better_round(session: Session, account: str, until: dt.datetime | None = None) -> int:
    """Return the round, 1 or 2, of which the mean forecast has the better record; 1 before there is one."""
    found = crowd(voice_forecasts(session, account, until))
    return found.better_round if found else BLIND
