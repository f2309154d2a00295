"""The end of a question: its outcome, written once, and what rests on it, booked once."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from sqlalchemy import ColumnElement, and_, exists, or_, update
from sqlmodel import Session, col, select

from chordesk.models.board.karma import KarmaSum
from chordesk.models.board.questions import QUESTION_FINAL, QuestionState
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.board import Episode, EpisodeQuestion, Forecast, KarmaEntry
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.questions import EventPosition, Question
from chordesk.models.tables.runs import Run
from chordesk.tools.questions.medians import Resolved

# Books for one account what rests on a question that has its outcome: (session, question, account). Called in the
# transaction that wrote the outcome, or later for an account that had no turn then; whatever it booked before, it
# must find by its key and leave.
OnResolved = Callable[[Session, Question, str], object]


def settle(
    session: Session, question_id: str, found: Resolved, by: str, at: dt.datetime | None = None
) -> Question | None:
    """Write a question's outcome and return the question; None when it was not open any more, and nothing is
    written. at: real time."""
    ended = QuestionState.VOID if found.outcome is None else QuestionState.RESOLVED
    values = {
        "state": ended,
        "outcome": found.outcome,
        "evidence": found.evidence,
        "resolved_at": at or utcnow(),
        "resolved_by": by,
        "note": None,
    }
    # One statement decides: of two that resolve at once, the second finds it open no more.
    still_open = (col(Question.id) == question_id, col(Question.state) == QuestionState.OPEN)
    done = session.connection().execute(update(Question).where(*still_open).values(values))
    if done.rowcount != 1:
        return None
    return session.exec(
        select(Question).where(Question.id == question_id).execution_options(populate_existing=True)
    ).one()


def keep_open(session: Session, question_id: str, note: str) -> None:
    """Write why a question is still open, unless that is its note already or it has ended."""
    differs = or_(col(Question.note).is_(None), col(Question.note) != note)
    still_open = (col(Question.id) == question_id, col(Question.state) == QuestionState.OPEN)
    session.connection().execute(update(Question).where(*still_open, differs).values(note=note))


def book(session: Session, question: Question, account: str, on_resolved: Sequence[OnResolved]) -> None:
    """Book for an account what rests on a question that has ended."""
    for books in on_resolved:
        books(session, question, account)


def unbooked(session: Session, account: str, market: str, until: dt.datetime) -> list[str]:
    """Return the ids of questions that have ended and on which something of this account is not booked, in order;
    forecasts are left out while a board of the account with the question is under way.

    A question of a market's bars can have its outcome from another account, on a later day of a replay: for this one
    it has it once `until`, market time, has come to its closing.
    """
    forecast = exists().where(
        col(Forecast.question_id) == col(Question.id),
        col(Forecast.account) == account,
        ~exists().where(
            col(KarmaEntry.question_id) == col(Forecast.question_id),
            col(KarmaEntry.account) == account,
            col(KarmaEntry.voice) == col(Forecast.voice),
            col(KarmaEntry.ledger) == KarmaSum.SKILL,
        ),
    )
    position = exists().where(
        col(EventPosition.question_id) == col(Question.id),
        col(EventPosition.account) == account,
        col(EventPosition.payout).is_(None),
    )
    ended = (col(Question.state) == QuestionState.RESOLVED, forecast, ~_under_way(account))
    rests = or_(and_(*ended), position)
    known = or_(col(Question.market) == "", and_(col(Question.market) == market, col(Question.closes_at) <= until))
    query = select(Question.id).where(col(Question.state).in_(QUESTION_FINAL), known, rests)
    return list(session.exec(query.order_by(col(Question.id))))


def is_under_way(session: Session, question_id: str, account: str) -> bool:
    """Return whether a board of an account has a question and no tally yet: more forecasts of it may come, and which
    citations count is not decided."""
    return session.exec(select(Question.id).where(Question.id == question_id, _under_way(account))).first() is not None


def _under_way(account: str) -> ColumnElement[bool]:
    return exists().where(
        col(EpisodeQuestion.question_id) == col(Question.id),
        col(Run.id) == col(EpisodeQuestion.run_id),
        col(Run.account) == account,
        col(Run.state).not_in(RUN_FINAL),
        ~exists().where(col(Episode.run_id) == col(Run.id)),
    )


def book_late(
    session: Session, question_id: str, account: str, market: str, until: dt.datetime, on_resolved: Sequence[OnResolved]
) -> bool:
    """Book what rests on a question that ended before; return False when another has done so meanwhile."""
    locked = session.exec(select(Question).where(Question.id == question_id).with_for_update()).one()
    if question_id not in unbooked(session, account, market, until):
        return False
    book(session, locked, account, on_resolved)
    return True
