"""Questions as they are read: one by its id, lists, outcomes known by a time, and the choice of an episode's
questions."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, String, and_, case, cast, func, or_
from sqlmodel import Session, col, select

from chordesk.models.questions import QuestionSource, QuestionState, SignalState
from chordesk.models.tables.board import Episode, Question, Signal, SignalCitation
from chordesk.models.tables.runs import Run
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.protocol import MarketClock, MarketData


def list_questions(
    session: Session,
    *,
    state: QuestionState | None = None,
    source: QuestionSource | None = None,
    subject: str | None = None,
    limit: int | None = 20,
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
    closing = (col(Question.closes_at), col(Question.id))
    # Two queries, each in the order of an index: one order over both would sort all that ever ended.
    still_open = select(Question).where(*filters, Question.state == QuestionState.OPEN)
    found = session.exec(still_open.order_by(*closing).offset(offset).limit(limit)).all()
    if limit is not None and len(found) == limit:
        return found
    ended = select(Question).where(*filters, Question.state != QuestionState.OPEN)
    ended = ended.order_by(col(Question.resolved_at).desc(), *closing)
    before = session.exec(select(func.count()).select_from(still_open.subquery())).one() if offset else 0
    rest = ended.offset(max(0, offset - before)).limit(None if limit is None else limit - len(found))
    return [*found, *session.exec(rest).all()]


def known_until(clock: MarketClock) -> dt.datetime:
    """Return the close of the last session whose bar the market knows. In a replay, at 15:55, it is that day's: a
    relative question that closes then has its outcome."""
    return exchange_hours(clock.exchange).close_of(clock.session())


FROM_FILE = "a file"  # by which a question is resolved whose outcome was imported with it, with its day


def known_at(question: Question) -> dt.datetime:
    """Return the market time from which the outcome of an ended question is known: when its venue or a person resolved
    it, but at the latest its closing (in a replay the moment of resolving is years later). A file states the time."""
    resolved = question.resolved_at or question.closes_at
    return resolved if question.resolved_by == FROM_FILE else min(question.closes_at, resolved)


def known_column() -> ColumnElement[dt.datetime]:
    resolved, closes = col(Question.resolved_at), col(Question.closes_at)
    return case((or_(col(Question.resolved_by) == FROM_FILE, resolved < closes), resolved), else_=closes)


class Chosen(NamedTuple):
    """A question of an episode. reason: why it was chosen."""

    question: Question
    reason: str


def choose(
    session: Session, market: MarketData, now: dt.datetime, account: str, limit: int, symbols: Sequence[str]
) -> list[Chosen]:
    """Return the questions of an episode, at most `limit`, in the order of their choice.

    Open ones at `now`, market time: first those opened since the account's last episode, then those on `symbols`
    (candidates, holdings) in their order, then the next to close. Questions without a baseline are left out: a forecast
    could beat no price. The same rows give the same choice.
    """
    last = previous_episode(session, market, now, account)
    since = last.market_now if last is not None else None
    rank = {symbol: at for at, symbol in enumerate(symbols)}
    found = [_ranked(question, since, rank) for question in askable(session, market, now)]
    found.sort(key=lambda one: one[0])
    return [Chosen(question, reason) for _, question, reason in found[:limit]]


def askable(
    session: Session, market: MarketData, now: dt.datetime, only: Collection[str] | None = None
) -> Sequence[Question]:
    """Return the questions that are open at `now`, market time, and have a baseline. In a replay a question can have
    its outcome already, from a later day: at `now` it is open all the same. It is open no more once its last bar counts
    as known. only: ids of those to look at."""
    relative = and_(col(Question.market) == market.name, col(Question.state) != QuestionState.VOID)
    of_file = and_(col(Question.resolved_by) == FROM_FILE, col(Question.resolved_at) > now)
    others = and_(col(Question.market) == "", or_(col(Question.state) == QuestionState.OPEN, of_file))
    query = select(Question).where(
        *(() if only is None else (col(Question.id).in_(only),)),
        or_(relative, others),
        col(Question.baseline).is_not(None),
        col(Question.opens_at) <= now,
        col(Question.closes_at) > max(now, known_until(market.clock)),
    )
    return session.exec(query).all()


def previous_episode(session: Session, market: MarketData, now: dt.datetime, account: str) -> Run | None:
    """Return the run of the account's last episode on this market before `now`, market time."""
    query = select(Run).join(Episode, col(Episode.run_id) == col(Run.id))
    mine = (col(Episode.account) == account, col(Run.market) == market.name, col(Run.market_now) < now)
    return session.exec(query.where(*mine).order_by(col(Episode.number).desc()).limit(1)).first()


def unused_tools(session: Session, market: MarketData, now: dt.datetime, account: str) -> list[str]:
    last = previous_episode(session, market, now, account)
    if last is None:
        return []
    live = select(Signal.id, Signal.tool).where(Signal.run_id == last.id, Signal.state == SignalState.LIVE)
    counted = select(SignalCitation.signal_id).where(SignalCitation.run_id == last.id, col(SignalCitation.counts))
    signals, cited = session.exec(live).all(), set(session.exec(counted))
    return sorted({tool for _, tool in signals} - {tool for id_, tool in signals if id_ in cited})


Rank = tuple[bool, int, dt.datetime, str]


def _ranked(question: Question, since: dt.datetime | None, symbols: dict[str, int]) -> tuple[Rank, Question, str]:
    fresh = since is None or question.opens_at > since
    place = min((symbols[one] for one in question.subjects if one in symbols), default=len(symbols))
    about = next((one for one in question.subjects if symbols.get(one) == place), None)
    when = f"closes {question.closes_at:%Y-%m-%d}"
    parts = ["fresh" if fresh else "", f"on {about}" if about else "", when]
    # Of questions that are alike none comes first by its letter.
    tie = hashlib.sha256(question.external_id.encode()).hexdigest()
    return (not fresh, place, question.closes_at, tie), question, ", ".join(part for part in parts if part)
