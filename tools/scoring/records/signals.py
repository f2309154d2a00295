"""The record of tools: what their live signals implied for resolved questions on their subjects."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from typing import NamedTuple

import sqlalchemy
from sqlmodel import Session, col

from chordesk.models.board.signals import SignalState
from chordesk.models.tables.board import EpisodeQuestion, Signal
from chordesk.models.tables.questions import Question
from chordesk.models.tables.runs import Run
from chordesk.tools.questions.reading import known_column
from chordesk.tools.scoring.records.voices import resolved
from chordesk.tools.scoring.summary import CODE, ScoredForecast


class _OnBoard(NamedTuple):
    """A resolved question on a run's board."""

    id: str
    names: frozenset[str]  # its label and its subjects
    at: dt.datetime
    known: dt.datetime
    baseline: float
    outcome: float


def tool_forecasts(session: Session, account: str, until: dt.datetime | None = None) -> list[ScoredForecast]:
    """Return what an account's signals implied for the questions of their boards, by time; source is the tool.

    A signal on no subject implies nothing for any one question. until: as in `voice_forecasts`.
    """
    boards = _boards(session, account, until)
    query = (
        sqlalchemy.select(col(Signal.run_id), col(Signal.tool), col(Signal.subjects), col(Signal.implied))
        .join(Run, col(Run.id) == col(Signal.run_id))
        .where(col(Run.account) == account, col(Signal.state) == SignalState.LIVE, col(Signal.implied).is_not(None))
        .order_by(col(Run.market_now), col(Run.id), col(Signal.label))
    )
    return [
        ScoredForecast(tool, one.id, one.at, one.known, implied, one.baseline, one.outcome, CODE, run)
        for run, tool, subjects, implied in session.execute(query)
        for one in boards.get(run, ())
        if not one.names.isdisjoint(subjects)
    ]


def _boards(session: Session, account: str, until: dt.datetime | None) -> dict[str, list[_OnBoard]]:
    """Return the resolved questions of each board that have a baseline, in the order of their labels."""
    baseline = sqlalchemy.func.coalesce(col(EpisodeQuestion.baseline), col(Question.baseline))
    query = (
        sqlalchemy.select(
            col(Run.id),
            col(Question.id),
            col(EpisodeQuestion.label),
            col(Question.subjects),
            col(Run.market_now),
            known_column(),
            baseline,
            col(Question.outcome),
        )
        .join(EpisodeQuestion, col(EpisodeQuestion.run_id) == col(Run.id))
        .join(Question, col(Question.id) == col(EpisodeQuestion.question_id))
        .where(col(Run.account) == account, baseline.is_not(None), *resolved(until))
        .order_by(col(Run.id), col(EpisodeQuestion.label))
    )
    found: dict[str, list[_OnBoard]] = defaultdict(list)
    for run, question, label, subjects, at, known, base, outcome in session.execute(query):
        found[run].append(_OnBoard(question, frozenset({label, *subjects}), at, known, base, outcome))
    return found
