"""Pairs of questions of two venues that may be the same: suggested by code, decided by a person.

A confirmed pair is what an arbitrage needs. Titles that are alike can differ in deadline, source and cancellation, so
no code confirms one.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from rapidfuzz import fuzz, process, utils
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.board.questions import VENUES, QuestionState
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.questions import Question, QuestionPair
from chordesk.tools.venues.arbitrage import PairState

LIKENESS = 90.0  # of the titles, 0 to 100
CLOSE_TOGETHER = dt.timedelta(hours=24)
SUGGESTED: PairState = "suggested"
CONFIRMED: PairState = "confirmed"
REJECTED: PairState = "rejected"
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, slots=True)
class LikelyPair:
    """Two questions of different venues with titles that are alike. score: rapidfuzz's ratio, 0 to 100."""

    first: Question
    second: Question
    score: float


@dataclass(frozen=True, slots=True)
class PairedQuestions:
    """A stored pair with its questions."""

    pair: QuestionPair
    first: Question
    second: Question


def likely_pairs(questions: Sequence[Question]) -> list[LikelyPair]:
    """Return the pairs that may be the same question, the likeliest first: of different venues, with titles alike, the
    same figures in them, and closings within a day. "Above 64,000" and "above 65,000" are alike and not the same."""
    groups: dict[str, list[Question]] = {}
    for question in sorted(questions, key=lambda one: one.id):
        groups.setdefault(question.source, []).append(question)
    found = [
        pair for first, second in combinations(sorted(groups), 2) for pair in _between(groups[first], groups[second])
    ]
    return sorted(found, key=lambda pair: (-pair.score, pair.first.id, pair.second.id))


def suggest_pairs(session: Session) -> list[QuestionPair]:
    """Write the likely pairs of the venues' open questions as suggestions and return the new ones; a pair that is
    there, whatever its state, stays as it is."""
    asked = select(Question).where(col(Question.source).in_(VENUES), Question.state == QuestionState.OPEN)
    known = set(session.exec(select(QuestionPair.first_id, QuestionPair.second_id)).all())
    new = []
    for likely in likely_pairs(session.exec(asked).all()):
        first, second = _ordered(likely.first.id, likely.second.id)
        if (first, second) not in known:
            row = QuestionPair(first_id=first, second_id=second, state=SUGGESTED, score=likely.score)
            new += [row] if _added(session, row) else []
    return new


def list_pairs(session: Session, states: Iterable[PairState] = (SUGGESTED, CONFIRMED)) -> list[PairedQuestions]:
    """Return the pairs in these states with their questions: confirmed ones first, then the likeliest."""
    rows = session.exec(select(QuestionPair).where(col(QuestionPair.state).in_(list(states)))).all()
    ids = {one for row in rows for one in (row.first_id, row.second_id)}
    questions = {row.id: row for row in session.exec(select(Question).where(col(Question.id).in_(ids)))}
    order: dict[str, int] = {CONFIRMED: 0, SUGGESTED: 1}
    rows = sorted(rows, key=lambda row: (order.get(row.state, 2), -row.score, row.id))
    return [PairedQuestions(row, questions[row.first_id], questions[row.second_id]) for row in rows]


def confirm_pair(
    session: Session, first: Question, second: Question, by: str, *, inverse: bool = False, why: str | None = None
) -> QuestionPair:
    """Write a person's decision that two questions are the same, or each other's inverse, and return the pair.

    Raises UsageError without a name, for one question twice, and for questions that are not of two venues.
    """
    for question in (first, second):
        if question.source not in VENUES:
            remedy = f"pair questions of {', '.join(VENUES)}"
            raise UsageError(f"question {question.id} is of {question.source}, which is no venue", remedy=remedy)
    if first.source == second.source:
        raise UsageError(f"both questions are of {first.source}", remedy="pair questions of two venues")
    return _decided(session, first, second, CONFIRMED, by, inverse, why)


def reject_pair(
    session: Session, first: Question, second: Question, by: str, *, why: str | None = None
) -> QuestionPair:
    """Write a person's decision that two questions are not the same, and return the pair; it is not suggested again.
    Raises UsageError without a name, NotFound when they are no pair."""
    if pair_of(session, first.id, second.id) is None:
        raise NotFound(f"questions {first.id} and {second.id} are no pair", remedy="`desk questions pairs` shows them")
    return _decided(session, first, second, REJECTED, by, None, why)


def pair_of(session: Session, first_id: str, second_id: str, *, lock: bool = False) -> QuestionPair | None:
    """Return the pair of two questions, in whatever order, None when there is none."""
    first, second = _ordered(first_id, second_id)
    query = select(QuestionPair).where(QuestionPair.first_id == first, QuestionPair.second_id == second)
    return session.exec(query.with_for_update() if lock else query).first()


def _decided(
    session: Session,
    first: Question,
    second: Question,
    state: PairState,
    by: str,
    inverse: bool | None,
    why: str | None,
) -> QuestionPair:
    if not by.strip():
        raise UsageError("a pair is decided by a person", remedy="name yourself with --by NAME")
    row = pair_of(session, first.id, second.id, lock=True)
    if row is None:
        ids = _ordered(first.id, second.id)
        row = QuestionPair(first_id=ids[0], second_id=ids[1], state=state, score=likeness(first.text, second.text))
        if not _added(session, row):  # another process wrote it a moment ago
            row = pair_of(session, *ids, lock=True) or row
    row.state, row.decided_by, row.decided_at, row.why = state, by.strip(), utcnow(), why
    row.inverse = row.inverse if inverse is None else inverse
    session.add(row)
    return row


def likeness(first: str, second: str) -> float:
    """Return rapidfuzz's ratio of two titles without case and punctuation, 0 to 100."""
    return round(fuzz.ratio(first, second, processor=utils.default_process), 2)


def _between(first: Sequence[Question], second: Sequence[Question]) -> list[LikelyPair]:
    """Return the likely pairs of one venue's questions with another's."""
    titles = [[utils.default_process(question.text) for question in group] for group in (first, second)]
    scores = process.cdist(*titles, scorer=fuzz.ratio, score_cutoff=LIKENESS)
    found = []
    for i, j in zip(*scores.nonzero(), strict=True):
        one, other = first[i], second[j]
        near = abs(one.closes_at - other.closes_at) <= CLOSE_TOGETHER
        if near and _figures(one.text) == _figures(other.text):
            found.append(LikelyPair(one, other, round(float(scores[i, j]), 2)))
    return found


def _figures(text: str) -> list[str]:
    return sorted(found.replace(",", "") for found in _FIGURE.findall(text))


def _ordered(first: str, second: str) -> tuple[str, str]:
    """Return two ids as the table has them. Raises UsageError when they are one."""
    if first == second:
        raise UsageError(f"{first} is one question", remedy="pair it with another one")
    return (first, second) if first < second else (second, first)


def _added(session: Session, row: QuestionPair) -> bool:
    try:
        with session.begin_nested():
            session.add(row)
    except IntegrityError:
        return False
    return True
