"""The resolution of questions that are due, from data that is named: outcomes written once, and what rests on them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Protocol

import structlog
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, and_, exists, or_, update
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store, transact
from chordesk.models.questions import (
    PEOPLES,
    QUESTION_FINAL,
    BeatsMedian,
    ByPerson,
    ByVenue,
    QuestionState,
    ResolutionRule,
)
from chordesk.models.states import RUN_LIVE
from chordesk.models.tables.board import Episode, EpisodeQuestion, EventPosition, Forecast, Question
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.questions.medians import Pending, RelativeOutcomes, Resolution, Resolved
from chordesk.tools.questions.stored_questions import FROM_FILE, known_column, known_until
from chordesk.tools.questions.theses import watch

log = structlog.get_logger(__name__)


# Books for one account its forecasts and positions on a question that has its outcome: (session, question, account).
# Called in the transaction that wrote the outcome, or later for an account that had no turn then; whatever it booked
# before, it must find by its key and leave.
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
    ending = update(Question).where(*still_open).values(values).returning(Question)
    return session.scalars(ending.execution_options(synchronize_session=False, populate_existing=True)).one_or_none()


def keep_open(session: Session, question_id: str, note: str) -> None:
    """Write why a question is still open, unless that is its note already or it has ended."""
    differs = or_(col(Question.note).is_(None), col(Question.note) != note)
    still_open = (col(Question.id) == question_id, col(Question.state) == QuestionState.OPEN)
    session.connection().execute(update(Question).where(*still_open, differs).values(note=note))


def book(session: Session, question: Question, account: str, on_resolved: Sequence[OnResolved]) -> None:
    for books in on_resolved:
        books(session, question, account)
    if not is_under_way(session, question.id, account):
        mine = (col(Forecast.question_id) == question.id, col(Forecast.account) == account)
        session.connection().execute(update(Forecast).where(*mine).values(booked=True))


def unbooked(session: Session, account: str, market: str, until: dt.datetime, only: str | None = None) -> list[str]:
    """Return the ids of ended questions on which something of this account is not booked yet, in order. Forecasts are
    left out while a board of the account with the question is under way.

    Another account may have resolved a question on a later day of a replay, or a file has its outcome: for this account
    it exists once `until`, market time, has reached the closing, or the day that the file names. only: the one
    question to look at.
    """
    ended = col(Question.state).in_(QUESTION_FINAL)
    resolved = col(Question.state) == QuestionState.RESOLVED
    told = or_(col(Question.resolved_by).is_(None), col(Question.resolved_by) != FROM_FILE, known_column() <= until)
    known = or_(
        and_(col(Question.market) == "", told), and_(col(Question.market) == market, col(Question.closes_at) <= until)
    )
    found: set[str] = set()
    for table, waits, also in (
        (Forecast, col(Forecast.booked).is_(False), [resolved, ~_under_way(account)]),
        (EventPosition, col(EventPosition.payout).is_(None), []),
    ):
        query = select(Question.id).join(table, col(table.question_id) == col(Question.id))
        query = query.where(col(table.account) == account, waits, ended, known, *also)
        found.update(session.exec(query if only is None else query.where(col(table.question_id) == only)))
    return sorted(found)


def is_under_way(session: Session, question_id: str, account: str) -> bool:
    """Return whether a board of an account has a question and no tally yet: more forecasts of it may come, and which
    citations count is not decided."""
    return session.exec(select(Question.id).where(Question.id == question_id, _under_way(account))).first() is not None


def _under_way(account: str) -> ColumnElement[bool]:
    return exists().where(
        col(EpisodeQuestion.question_id) == col(Question.id),
        col(Run.id) == col(EpisodeQuestion.run_id),
        col(Run.account) == account,
        col(Run.state).in_(RUN_LIVE),
        ~exists().where(col(Episode.run_id) == col(Run.id)),
    )


def book_late(
    session: Session, question_id: str, account: str, market: str, until: dt.datetime, on_resolved: Sequence[OnResolved]
) -> bool:
    """Write the karma and stakes of a question that is already resolved. Returns False if another process wrote them
    first."""
    locked = session.exec(select(Question).where(Question.id == question_id).with_for_update()).one()
    if not unbooked(session, account, market, until, only=question_id):
        return False
    book(session, locked, account, on_resolved)
    return True


BATCH = 100  # questions of one transaction
PATIENCE_SECONDS = 60.0
_RULE: TypeAdapter[BeatsMedian | ByVenue | ByPerson] = TypeAdapter(ResolutionRule)


class Resolver(Protocol):
    """Resolves questions whose outcome is neither in bars nor a person's to give."""

    def watched(self, session: Session, now: dt.datetime) -> Sequence[Question]:
        """Return the questions to look at, open ones and those that it resolved. now: real time."""

    def ask(self, questions: Sequence[Question], now: dt.datetime) -> Mapping[str, Resolution]:
        """Return, by id, the outcomes of open questions and why those past their deadline have none. In no
        transaction: it may take long."""

    def refresh(self, session: Session, left: Collection[str]) -> list[Question]:
        """Bring the questions that were asked about and got no outcome up to date; return those of which another
        outcome is known now than they have."""


class ResolveReport(Frozen):
    """A pass over due questions."""

    market: str
    as_of: dt.datetime  # market time
    resolved: tuple[Question, ...] = ()
    waiting: tuple[Question, ...] = ()  # past their deadline and still open
    changed: tuple[Question, ...] = ()  # their source contradicts the outcome, which stays
    late: int = 0  # had ended before and were booked for the account now


def rule_of(question: Question) -> BeatsMedian | ByVenue | ByPerson:
    return _RULE.validate_python(question.rule)


def resolve_due(
    store: Store,
    market: MarketData,
    account: str,
    *,
    on_resolved: Sequence[OnResolved] = (),
    resolvers: Sequence[Resolver] = (),
    only: str | None = None,
    by: str = "code",
    delisted_pays: float = 1.0,
) -> ResolveReport:
    """Resolve the questions past their deadline and book what rests on them; return what came of each.

    Relative questions of this market are due at its clock, whatever its day. resolvers: of other questions, which get
    their outcome as soon as it is known, and are left as they are without one. only: id of the one question to look at.
    delisted_pays: as of RelativeOutcomes. Each question is resolved once, with its bookings in the same transaction;
    what cannot be resolved stays open with a note. Of any number of callers at once each question is resolved, and
    booked for an account, by one.
    """
    now = utcnow()
    with store.read() as session:
        own = [row for row in due(session, market) if only in (None, row.id)]
        others = [[row for row in one.watched(session, now) if only in (None, row.id)] for one in resolvers]
    found = outcomes(own, market, delisted_pays)
    for resolver, theirs in zip(resolvers, others, strict=True):
        found |= resolver.ask(theirs, now)
    questions = [row for row in (*own, *chain.from_iterable(others)) if row.id in found]
    write = partial(_write, found=found, account=account, on_resolved=on_resolved, by=by)
    ended = _settle(store, questions, write)
    watch(store, market)
    changed: list[Question] = []
    for resolver, theirs in zip(resolvers, others, strict=True):
        if left := {row.id for row in theirs if not isinstance(found.get(row.id), Resolved)}:
            changed += transact(store, partial(resolver.refresh, left=left), PATIENCE_SECONDS)
    return ResolveReport(
        market=market.name,
        as_of=market.clock.now(),
        resolved=tuple(ended),
        waiting=tuple(row for row in questions if isinstance(found[row.id], Pending)),
        changed=tuple(changed),
        late=_book_late(store, market, account, on_resolved),
    )


def due(session: Session, market: MarketData) -> list[Question]:
    """Return the open questions past their deadline, in the order of their ids: those of this market's bars by the
    last session that it knows, persons' by its clock."""
    closes = col(Question.closes_at)
    passed = or_(
        and_(col(Question.market) == market.name, closes <= known_until(market.clock)),
        and_(col(Question.source).in_(PEOPLES), closes <= market.clock.now()),
    )
    query = select(Question).where(Question.state == QuestionState.OPEN, passed)
    return list(session.exec(query.order_by(col(Question.id))))


def outcomes(questions: Iterable[Question], market: MarketData, delisted_pays: float = 1.0) -> dict[str, Resolution]:
    """Return the outcome of each question of a market's bars, or why it has none, by id; a person's waits for one."""
    relative = RelativeOutcomes(market, delisted_pays)
    found: dict[str, Resolution] = {}
    for question in questions:
        rule = rule_of(question)
        if isinstance(rule, BeatsMedian):
            found[question.id] = relative.of(rule)
        else:
            found[question.id] = Pending(f"it waits for a person: desk questions resolve {question.id}")
    return found


def _settle(store: Store, questions: Sequence[Question], write: Callable[..., list[Question]]) -> list[Question]:
    ended: list[Question] = []
    for first in range(0, len(questions), BATCH):
        batch = questions[first : first + BATCH]
        ended += transact(store, partial(write, batch=batch), PATIENCE_SECONDS)
    return ended


def _write(
    session: Session,
    batch: Sequence[Question],
    found: Mapping[str, Resolution],
    account: str,
    on_resolved: Sequence[OnResolved],
    by: str,
) -> list[Question]:
    """Write each question's outcome; return the questions that this call ended."""
    ended, staked = [], _staked(session, account, [question.id for question in batch])
    for question in batch:
        outcome = found[question.id]
        if isinstance(outcome, Pending):
            keep_open(session, question.id, outcome.note)
            question.note = outcome.note  # as the report has it: the row is of no session
        elif (settled := settle(session, question.id, outcome, by)) is not None:
            if settled.id in staked:
                book(session, settled, account, on_resolved)
            ended.append(settled)
    return ended


def _staked(session: Session, account: str, questions: Sequence[str]) -> set[str]:
    """Return the questions with forecasts or positions of an account: on the others it has nothing to book."""
    found: set[str] = set()
    for table in (Forecast, EventPosition):
        own = (col(table.account) == account, col(table.question_id).in_(questions))
        found.update(session.exec(select(table.question_id).where(*own)))
    return found


def _book_late(store: Store, market: MarketData, account: str, on_resolved: Sequence[OnResolved]) -> int:
    if not on_resolved:
        return 0
    until = known_until(market.clock)
    with store.read() as session:
        waiting = unbooked(session, account, market.name, until)
    done = 0
    for one in waiting:
        write = partial(book_late, question_id=one, account=account, market=market.name, until=until)
        done += transact(store, partial(write, on_resolved=on_resolved), PATIENCE_SECONDS)
    return done
