"""Pairs of questions of two venues: suggested by code, decided by a person, compared at the prices of now after all
costs."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Literal

from rapidfuzz import fuzz, process, utils
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.board.forecasts import VENUES
from chordesk.models.errors import DeskError, NotConfigured, NotFound, UsageError
from chordesk.models.questions import QuestionState
from chordesk.models.tables.board import Question, QuestionPair
from chordesk.models.tables.columns import utcnow
from chordesk.tools.board.venues.markets import (
    BookLevel,
    EventBook,
    EventVenue,
    FeeTerms,
    Side,
    VenueMarket,
    fee_per_share,
    taker_fee,
)

# Two questions of two venues against each other: what is left of buying opposite sides, at depth and after all costs.
#
# Without a pair that a person confirmed, with play money on a side, or with a cost that is not known, a difference in
# price is a divergence and has no edge: wording, deadline, source and cancellation may differ.

YEAR = dt.timedelta(days=365)
SUGGESTED, CONFIRMED, REJECTED = "suggested", "confirmed", "rejected"  # states of a pair
# Net edge a share, and shares, at which each half of the confidence is 1/2.
EDGE_SCALE, DEPTH_SCALE = 0.02, 100.0


@dataclass(frozen=True, slots=True)
class Leg:
    """A side that is bought at one venue. offers: what can be taken, the cheapest first."""

    venue: str
    side: Side
    offers: tuple[BookLevel, ...]
    fee: FeeTerms


@dataclass(frozen=True, slots=True)
class Edge:
    """What buying `shares` of both legs yields, whatever happens: net = shares - paid - fees - carry."""

    legs: tuple[Leg, Leg]
    shares: float
    paid: float
    fees: float
    carry: float  # interest on what is paid, until the later closing
    net: float
    per_share: float  # net of a share of both

    @property
    def prices(self) -> tuple[float, float]:
        return self.legs[0].offers[0].price, self.legs[1].offers[0].price


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two markets compared."""

    kind: Literal["arbitrage", "divergence"]
    gap: float | None  # probability of the first less that of the second, null without both
    edge: Edge | None  # of a confirmed pair alone
    confidence: float | None  # of an arbitrage alone
    basis: str  # what it rests on, or why there is none


def edge_per_share(first: float, second: float, fees: float, rate: float, years: float) -> float:
    """Return 1 - a - b - fees - r * T * (a + b): what one share of each side at prices a and b yields."""
    return 1 - first - second - fees - rate * years * (first + second)


def best_edge(first: Leg, second: Leg, rate: float, years: float) -> Edge | None:
    """Return the edge of as many shares as yield the most, walking both legs' offers from the best; if none yields,
    that of the best offers. None if a leg has no offers."""
    best: Edge | None = None
    taken: tuple[list[BookLevel], list[BookLevel]] = ([], [])
    for pair in _matched(first.offers, second.offers):
        a, b = (level.price for level in pair)
        marginal = edge_per_share(a, b, fee_per_share(first.fee, a) + fee_per_share(second.fee, b), rate, years)
        if best is not None and marginal <= 0:
            break
        for levels, level in zip(taken, pair, strict=True):
            _take(levels, level)
        edge = _edge((first, second), taken, rate * years)
        if best is None or edge.net > best.net:
            best = edge
    return best


def confidence_of(edge: Edge) -> float:
    """Return net / (net + 0.02) * shares / (shares + 100), 0 without an edge: it rises with both and stays below 1."""
    if edge.net <= 0:
        return 0.0
    return edge.per_share / (edge.per_share + EDGE_SCALE) * edge.shares / (edge.shares + DEPTH_SCALE)


def compare(
    markets: tuple[VenueMarket, VenueMarket],
    books: tuple[EventBook | None, EventBook | None],
    pair: str,
    *,
    inverse: bool,
    rate: float,
    now: dt.datetime,
) -> Comparison:
    """Return how two markets differ. inverse: YES of one is NO of the other. rate: interest a year."""
    gap = _gap(*markets, inverse)
    obstacle = _obstacle(markets, books, pair)
    if obstacle is not None:
        return Comparison("divergence", gap, None, None, obstacle)
    years = max((market.closes_at - now) / YEAR for market in markets if market.closes_at is not None)
    edges = [
        edge
        for sides in _opposite(inverse)
        if (edge := best_edge(*_legs(markets, books, sides), rate, max(years, 0.0))) is not None
    ]
    if not edges:
        return Comparison("divergence", gap, None, None, "a side of each way has no offers")
    edge = max(edges, key=lambda one: one.net)
    if edge.net <= 0:
        return Comparison("divergence", gap, edge, None, f"its costs leave {edge.per_share:+.4f} a share")
    basis = f"net edge {edge.per_share:.4f} a share at a depth of {edge.shares:g} shares"
    return Comparison("arbitrage", gap, edge, round(confidence_of(edge), 4), basis)


def _gap(first: VenueMarket, second: VenueMarket, inverse: bool) -> float | None:
    if first.probability is None or second.probability is None:
        return None
    return round(first.probability - (1 - second.probability if inverse else second.probability), 6)


def _obstacle(markets: Sequence[VenueMarket], books: Sequence[EventBook | None], pair: str) -> str | None:
    if pair != CONFIRMED:
        return "a person rejected the pair" if pair == REJECTED else "no person confirmed the pair"
    for market, book in zip(markets, books, strict=True):
        reasons = {
            "is play money": market.play_money,
            f"is {market.state}": market.state != "open",
            "states no fee": market.fee is None,
            "states no closing": market.closes_at is None,
            "has no public book": book is None,
        }
        for reason, holds in reasons.items():
            if holds:
                return f"{market.venue} {reason}"
    return None


def _opposite(inverse: bool) -> tuple[tuple[Side, Side], tuple[Side, Side]]:
    return (("yes", "yes"), ("no", "no")) if inverse else (("yes", "no"), ("no", "yes"))


def _legs(markets: Sequence[VenueMarket], books: Sequence[EventBook | None], sides: Sequence[Side]) -> tuple[Leg, Leg]:
    first, second = (
        Leg(market.venue, side, book.offers(side) if book else (), market.fee or FeeTerms(0.0))
        for market, book, side in zip(markets, books, sides, strict=True)
    )
    return first, second


def _matched(first: Sequence[BookLevel], second: Sequence[BookLevel]) -> list[tuple[BookLevel, BookLevel]]:
    """Return pairs of equal sizes from the best offers on, until one side has no more."""
    pairs: list[tuple[BookLevel, BookLevel]] = []
    i = j = 0
    left = [first[0].size if first else 0.0, second[0].size if second else 0.0]
    while i < len(first) and j < len(second):
        size = min(left)
        if size > 0:
            pairs.append((BookLevel(first[i].price, size), BookLevel(second[j].price, size)))
        left = [left[0] - size, left[1] - size]
        if left[0] <= 0:
            i += 1
            left[0] = first[i].size if i < len(first) else 0.0
        if left[1] <= 0:
            j += 1
            left[1] = second[j].size if j < len(second) else 0.0
    return pairs


def _take(levels: list[BookLevel], level: BookLevel) -> None:
    if levels and levels[-1].price == level.price:
        levels[-1] = BookLevel(level.price, levels[-1].size + level.size)
    else:
        levels.append(level)


def _edge(legs: tuple[Leg, Leg], taken: Sequence[Sequence[BookLevel]], carry_rate: float) -> Edge:
    paid = sum(level.price * level.size for levels in taken for level in levels)
    fees = sum(
        taker_fee(leg.fee, level.price, level.size) for leg, levels in zip(legs, taken, strict=True) for level in levels
    )
    shares, carry = sum(level.size for level in taken[0]), carry_rate * paid
    net = shares - paid - fees - carry
    return Edge(legs, shares, paid, fees, carry, net, net / shares)


LIKENESS = 90.0  # of the titles, 0 to 100
CLOSE_TOGETHER = dt.timedelta(hours=24)
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


def list_pairs(session: Session, states: Iterable[str] = (SUGGESTED, CONFIRMED)) -> list[PairedQuestions]:
    rows = session.exec(select(QuestionPair).where(col(QuestionPair.state).in_(list(states)))).all()
    ids = {one for row in rows for one in (row.first_id, row.second_id)}
    questions = {row.id: row for row in session.exec(select(Question).where(col(Question.id).in_(ids)))}
    order: dict[str, int] = {CONFIRMED: 0, SUGGESTED: 1}
    rows = sorted(rows, key=lambda row: (order.get(row.state, 2), -row.score, row.id))
    return [PairedQuestions(row, questions[row.first_id], questions[row.second_id]) for row in rows]


def confirm_pair(
    session: Session, first: Question, second: Question, by: str, *, inverse: bool = False, why: str | None = None
) -> QuestionPair:
    """Write a person's decision that two questions are the same, or each other's inverse, and return the pair. Raises
    UsageError without a name, for one question twice, and for questions that are not of two venues."""
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
    Raises UsageError without a name, NotFound when they are not a pair."""
    if pair_of(session, first.id, second.id) is None:
        raise NotFound(f"questions {first.id} and {second.id} are no pair", remedy="`desk questions pairs` shows them")
    return _decided(session, first, second, REJECTED, by, None, why)


def pair_of(session: Session, first_id: str, second_id: str, *, lock: bool = False) -> QuestionPair | None:
    first, second = _ordered(first_id, second_id)
    query = select(QuestionPair).where(QuestionPair.first_id == first, QuestionPair.second_id == second)
    return session.exec(query.with_for_update() if lock else query).first()


def _decided(
    session: Session, first: Question, second: Question, state: str, by: str, inverse: bool | None, why: str | None
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
    return round(fuzz.ratio(first, second, processor=utils.default_process), 2)


def _between(first: Sequence[Question], second: Sequence[Question]) -> list[LikelyPair]:
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


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A pair with its markets as they are now."""

    paired: PairedQuestions
    markets: tuple[VenueMarket, VenueMarket]
    comparison: Comparison


@dataclass(frozen=True, slots=True)
class PairSurvey:
    """Pairs that were compared, arbitrages first, then by the size of their gap; and why others were not, by pair."""

    compared: list[ComparedPair] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)


def survey_pairs(
    pairs: Sequence[PairedQuestions], venues: Mapping[str, EventVenue], rate: float, now: dt.datetime | None = None
) -> PairSurvey:
    """Return how each pair differs now. Books are read of confirmed pairs alone: no other can have an edge. A venue
    that does not answer ends nothing but its own pairs. rate: interest a year; now: real time."""
    survey = PairSurvey()
    for paired in pairs:
        try:
            survey.compared.append(_compared(paired, venues, rate, now or dt.datetime.now(dt.UTC)))
        except DeskError as error:
            survey.failed[paired.pair.id] = str(error)
    survey.compared.sort(key=lambda one: (one.comparison.kind != "arbitrage", -abs(one.comparison.gap or 0.0)))
    return survey


def _compared(paired: PairedQuestions, venues: Mapping[str, EventVenue], rate: float, now: dt.datetime) -> ComparedPair:
    first, second = (_market(question, venues) for question in (paired.first, paired.second))
    books: tuple[EventBook | None, EventBook | None] = (None, None)
    if paired.pair.state == CONFIRMED:
        books = (venues[first.venue].book(first), venues[second.venue].book(second))
    found = compare((first, second), books, paired.pair.state, inverse=paired.pair.inverse, rate=rate, now=now)
    return ComparedPair(paired, (first, second), found)


def _market(question: Question, venues: Mapping[str, EventVenue]) -> VenueMarket:
    venue = venues.get(question.source)
    if venue is None:
        raise NotConfigured(f"not available: configure DESK_VENUES with {question.source}")
    return venue.market(question.external_id)
