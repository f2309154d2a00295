"""Questions as they are read: one by its id, lists, and outcomes that are known by a time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, String, case, cast
from sqlmodel import Session, col, select

from chordesk.models.board.questions import QuestionSource, QuestionState
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.questions import Question
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.protocol import MarketClock

_LEAST = 4  # characters of an id that are enough, if only one begins so
_REMEDY = "`desk questions list` shows them"


def find_question(session: Session, question_id: str) -> Question:
    """Return the question with this id, or with the only id that begins so. Raises UsageError, NotFound when there is
    none."""
    if len(question_id) < _LEAST:
        raise UsageError(f"{question_id!r} is too short for a question's id", remedy=_REMEDY)
    begins = col(Question.id).startswith(question_id, autoescape=True)
    found = session.exec(select(Question).where(begins).limit(2)).all()
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"more than one question begins with {question_id!r}", remedy=_REMEDY)
    raise NotFound(f"there is no question {question_id!r}", remedy=_REMEDY)


def list_questions(
    session: Session,
    *,
    state: QuestionState | None = None,
    source: QuestionSource | None = None,
    subject: str | None = None,
    limit: int = 20,
    offset: int = 0,
) -> Sequence[Question]:
    """Return questions, those that close soonest first while they are open, then the newest outcome; None as a filter
    matches everything."""
    filters: list[Any] = []
    if state is not None:
        filters.append(col(Question.state) == state)
    if source is not None:
        filters.append(col(Question.source) == source)
    if subject is not None:
        # Subjects are a JSON list, of which the two databases have only the text in common.
        filters.append(cast(col(Question.subjects), String).contains(f'"{subject}"', autoescape=True))
    is_open = col(Question.state) == QuestionState.OPEN
    query = select(Question).where(*filters)
    query = query.order_by(is_open.desc(), col(Question.resolved_at).desc(), col(Question.closes_at), col(Question.id))
    return session.exec(query.offset(offset).limit(limit)).all()


def known_until(clock: MarketClock) -> dt.datetime:
    """Return the close of the last session of which a market knows the bar. In a replay, at 15:55, it is that day's: a
    relative question that closes then has its outcome."""
    return exchange_hours().close_of(clock.session())


def known_at(question: Question) -> dt.datetime:
    """Return market time from which the outcome of a question that has ended is known: its closing, or before that the
    moment at which its venue or a person resolved it. In a replay, where that moment is of a later year, its closing.
    """
    return min(question.closes_at, question.resolved_at or question.closes_at)


def known_column() -> ColumnElement[dt.datetime]:
    """Return `known_at` as a column."""
    resolved, closes = col(Question.resolved_at), col(Question.closes_at)
    return case((resolved < closes, resolved), else_=closes)
