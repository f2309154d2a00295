"""Pairs of questions: suggested by code, decided by a person, compared after all costs."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.board import Question, QuestionPair
from chordesk.tools.board.venues.kalshi import FEE as KALSHI
from chordesk.tools.board.venues.markets import NO_FEE, BookLevel, EventBook, FeeTerms
from chordesk.tools.board.venues.pairs import (
    Leg,
    best_edge,
    compare,
    confidence_of,
    confirm_pair,
    likely_pairs,
    list_pairs,
    pair_of,
    reject_pair,
    suggest_pairs,
)
from tests.tools.board.test_event_positions import market_of

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
CLOSES = NOW + dt.timedelta(days=30)
TITLE = "Will the Fed cut rates by 25 bps in March 2026?"


def question(source: str, text: str = TITLE, closes: dt.datetime = CLOSES, **more: Any) -> Question:
    """A question that is open unless `more` differs."""
    fields: dict[str, Any] = {"state": "open", "external_id": f"{source} {text} {closes}", "rule": {"kind": "venue"}}
    return Question(source=source, text=text, opens_at=NOW, closes_at=closes, **(fields | more))


def stored(session: Session, *questions: Question) -> list[Question]:
    session.add_all(questions)
    session.flush()
    return list(questions)


@pytest.mark.parametrize(
    ("text", "hours", "likely"),
    [
        (TITLE, 0, True),
        ("Will the Fed cut rates by 25bps in March 2026?", 24, True),
        ("WILL THE FED CUT RATES BY 25 BPS IN MARCH, 2026", 24, True),
        (TITLE, 25, False),
        ("Will the Fed cut rates by 50 bps in March 2026?", 0, False),
        ("Will the Fed cut rates by 25 bps in March 2027?", 0, False),
        ("Will the ECB leave its rates alone, by 25 March 2026?", 0, False),
    ],
)
def test_a_pair_is_likely_by_title_figures_and_closing(text: str, hours: float, likely: bool) -> None:
    other = question("polymarket", text, CLOSES + dt.timedelta(hours=hours))
    assert bool(likely_pairs([question("kalshi"), other])) is likely


def test_a_pair_has_the_likeness_of_its_titles() -> None:
    first, second, third = (
        question("kalshi"),
        question("polymarket"),
        question("manifold", TITLE.replace("Will", "Does")),
    )
    pairs = likely_pairs([third, second, first])
    assert {pairs[0].first.source, pairs[0].second.source} == {"kalshi", "polymarket"}
    assert pairs[0].score == 100
    assert len(pairs) == 3
    assert 90 <= pairs[1].score < 100


def test_a_suggestion_is_written_once(store: Store) -> None:
    with store.session() as session:
        first, second, *_ = stored(
            session,
            question("kalshi"),
            question("polymarket"),
            question("manifold", state="resolved", outcome=1.0),
            question("person"),
        )
        (pair,) = suggest_pairs(session)
        assert (pair.state, pair.inverse, pair.score) == ("suggested", False, 100)
        assert (pair.first_id, pair.second_id) == tuple(sorted((first.id, second.id)))
        assert suggest_pairs(session) == []


def test_a_person_confirms_and_rejects(store: Store) -> None:
    with store.session() as session:
        first, second = stored(session, question("kalshi"), question("polymarket"))
        suggest_pairs(session)
        pair = confirm_pair(session, second, first, "Ada", inverse=True, why="same source")
        assert (pair.state, pair.inverse, pair.decided_by, pair.why) == ("confirmed", True, "Ada", "same source")
        assert pair.decided_at is not None
        assert pair_of(session, first.id, second.id) is pair
        rejected = reject_pair(session, first, second, "Ada", why="other deadline")
        assert (rejected.id, rejected.state, rejected.inverse) == (pair.id, "rejected", True)
        assert suggest_pairs(session) == []
        assert len(session.exec(select(QuestionPair)).all()) == 1


@pytest.mark.parametrize(
    ("sources", "by", "text"),
    [
        (("kalshi", "kalshi"), "Ada", "both questions are of kalshi"),
        (("kalshi", "desk"), "Ada", "is of desk, which is no venue"),
        (("kalshi", "manifold"), " ", "a pair is decided by a person"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(store: Store, sources: tuple[str, str], by: str, text: str) -> None:
    with store.session() as session:
        first, second = stored(session, question(sources[0]), question(sources[1], "Another?"))
        with pytest.raises(UsageError, match=text):
            confirm_pair(session, first, second, by)
        assert pair_of(session, first.id, second.id) is None


def test_a_question_is_no_pair_of_itself(store: Store) -> None:
    with store.session() as session:
        (one,) = stored(session, question("kalshi"))
        with pytest.raises(UsageError, match="is one question"):
            pair_of(session, one.id, one.id)


def test_only_a_pair_can_be_rejected(store: Store) -> None:
    with store.session() as session:
        first, second = stored(session, question("kalshi"), question("manifold"))
        with pytest.raises(NotFound, match="are no pair"):
            reject_pair(session, first, second, "Ada")


def test_pairs_are_listed_confirmed_first_then_by_likeness(store: Store) -> None:
    with store.session() as session:
        a, b, c = stored(
            session, question("kalshi"), question("polymarket"), question("manifold", TITLE.replace("Will", "Does"))
        )
        suggest_pairs(session)
        confirm_pair(session, b, c, "Ada")
        shown = list_pairs(session)
        assert [paired.pair.state for paired in shown] == ["confirmed", "suggested", "suggested"]
        assert {shown[0].first.id, shown[0].second.id} == {b.id, c.id}
        assert shown[1].pair.score > shown[2].pair.score
        reject_pair(session, a, b, "Ada")
        assert len(list_pairs(session)) == 2
        assert [paired.pair.state for paired in list_pairs(session, ("rejected",))] == ["rejected"]


@given(texts=st.lists(st.text(max_size=30), max_size=8), closes=st.lists(st.integers(0, 72), min_size=8, max_size=8))
def test_no_pair_is_likely_beyond_its_limits(texts: list[str], closes: list[int]) -> None:
    venues = ("kalshi", "polymarket", "manifold")
    questions = [
        question(venues[number % 3], text, CLOSES + dt.timedelta(hours=closes[number]))
        for number, text in enumerate(texts)
    ]
    for pair in likely_pairs(questions):
        assert pair.first.source != pair.second.source
        assert pair.score >= 90
        assert abs(pair.first.closes_at - pair.second.closes_at) <= dt.timedelta(hours=24)


POLYMARKET = FeeTerms(0.04)
sizes = st.integers(1, 500).map(float)


def levels(*rows: tuple[float, float]) -> tuple[BookLevel, ...]:
    return tuple(BookLevel(price, size) for price, size in rows)


CLOSING = NOW + dt.timedelta(days=73)
FIRST = market_of("kalshi", probability=0.39, fee=KALSHI, closes_at=CLOSING)
SECOND = market_of("polymarket", probability=0.51, fee=POLYMARKET, closes_at=CLOSING)
FIRST_BOOK = EventBook(levels((0.38, 100)), levels((0.40, 100), (0.45, 50)), NOW)
SECOND_BOOK = EventBook(levels((0.50, 60), (0.49, 100)), levels((0.52, 100)), NOW)


def test_an_arbitrage_at_depth() -> None:
    """YES at Kalshi and NO at Polymarket, r 5 %, T 0.2 years.

    60 at 0.40 + 0.50: fees 0.07 * .24 + 0.04 * .25 = .0268, carry .009, edge .0642. The next 40 at 0.40 + 0.51: fees
    .0268, carry .0091, edge .0541. The next 50 at 0.45 + 0.51: fees .0273, carry .0096, edge .0031. So all 150 are
    taken: paid 100 * .40 + 50 * .45 + 60 * .50 + 90 * .51 = 138.4; fees at Kalshi 1.68 and .87 (.86625), at Polymarket
    60 * .01 + 90 * .009996 = 1.49964; carry 1.384.
    """
    found = compare((FIRST, SECOND), (FIRST_BOOK, SECOND_BOOK), "confirmed", inverse=False, rate=0.05, now=NOW)
    assert found.kind == "arbitrage"
    assert found.gap == pytest.approx(-0.12)
    edge = found.edge
    assert edge is not None
    assert [(leg.venue, leg.side) for leg in edge.legs] == [("kalshi", "yes"), ("polymarket", "no")]
    assert (edge.shares, edge.prices) == (150.0, (0.40, 0.50))
    assert edge.paid == pytest.approx(138.4)
    assert edge.fees == pytest.approx(1.68 + 0.87 + 1.49964)
    assert edge.carry == pytest.approx(1.384)
    assert edge.net == pytest.approx(150 - 138.4 - 4.04964 - 1.384)
    assert found.confidence == pytest.approx(confidence_of(edge), abs=1e-4)
    assert found.basis == "net edge 0.0411 a share at a depth of 150 shares"


def test_an_inverse_pair_is_the_same_side_at_both() -> None:
    """YES of the second is NO of the first: YES at 0.40 and YES at 0.52 leave 0.08 before costs."""
    found = compare((FIRST, SECOND), (FIRST_BOOK, SECOND_BOOK), "confirmed", inverse=True, rate=0.0, now=NOW)
    assert found.edge is not None
    assert [leg.side for leg in found.edge.legs] == ["yes", "yes"]
    assert found.gap == pytest.approx(0.39 - 0.49)


@pytest.mark.parametrize(
    ("changes", "pair", "basis"),
    [
        ({}, "none", "no person confirmed the pair"),
        ({}, "suggested", "no person confirmed the pair"),
        ({}, "rejected", "a person rejected the pair"),
        ({"play_money": True}, "confirmed", "polymarket is play money"),
        ({"state": "closed"}, "confirmed", "polymarket is closed"),
        ({"fee": None}, "confirmed", "polymarket states no fee"),
        ({"closes_at": None}, "confirmed", "polymarket states no closing"),
    ],
)
def test_a_gap_that_cannot_be_taken_is_a_divergence(changes: dict[str, Any], pair: str, basis: str) -> None:
    second = dataclasses.replace(SECOND, **changes)
    found = compare((FIRST, second), (FIRST_BOOK, SECOND_BOOK), pair, inverse=False, rate=0.05, now=NOW)
    assert (found.kind, found.edge, found.confidence, found.basis) == ("divergence", None, None, basis)
    assert found.gap == pytest.approx(-0.12)


def test_a_market_without_a_book_or_offers_is_a_divergence() -> None:
    empty = EventBook((), (), NOW)
    for book, basis in ((None, "polymarket has no public book"), (empty, "a side of each way has no offers")):
        found = compare((FIRST, SECOND), (FIRST_BOOK, book), "confirmed", inverse=False, rate=0.0, now=NOW)
        assert (found.kind, found.edge, found.basis) == ("divergence", None, basis)


def test_costs_above_the_gap_leave_a_divergence_with_its_negative_edge() -> None:
    book = EventBook(levels((0.41, 100)), levels((0.43, 100)), NOW)
    found = compare((FIRST, SECOND), (FIRST_BOOK, book), "confirmed", inverse=False, rate=0.0, now=NOW)
    assert found.kind == "divergence"
    assert found.edge is not None
    assert found.edge.net < 0
    assert found.confidence is None


def test_a_market_without_a_price_has_no_gap() -> None:
    unpriced = dataclasses.replace(SECOND, probability=None)
    found = compare((FIRST, unpriced), (FIRST_BOOK, SECOND_BOOK), "none", inverse=False, rate=0.0, now=NOW)
    assert found.gap is None


books = st.builds(
    lambda bid, spread, depth: EventBook(
        levels((bid / 100, depth), (max(bid - 1, 0.5) / 100, depth)),
        levels((min(bid + spread, 99.5) / 100, depth), (min(bid + spread + 1, 99.8) / 100, depth)),
        NOW,
    ),
    st.integers(1, 98),
    st.integers(1, 20),
    sizes,
)


@given(book=books, fee=st.sampled_from((NO_FEE, POLYMARKET, KALSHI)), rate=st.floats(0, 0.5), years=st.floats(0, 3))
def test_both_sides_of_one_book_yield_nothing(book: EventBook, fee: FeeTerms, rate: float, years: float) -> None:
    legs = (Leg("kalshi", "yes", book.offers("yes"), fee), Leg("kalshi", "no", book.offers("no"), fee))
    edge = best_edge(*legs, rate, years)
    assert edge is not None
    assert edge.net <= 1e-9


@given(first=books, second=books, rise=st.integers(1, 20), rate=st.floats(0, 0.2))
def test_the_best_edge_falls_as_offers_get_dearer(first: EventBook, second: EventBook, rise: int, rate: float) -> None:
    """But for the cent to which Kalshi rounds the fee of each fill up."""

    def edge(asks: tuple[BookLevel, ...]) -> float:
        found = best_edge(
            Leg("kalshi", "yes", asks, KALSHI), Leg("polymarket", "no", second.offers("no"), POLYMARKET), rate, 0.2
        )
        assert found is not None
        return max(found.net, 0.0)

    dearer = tuple(BookLevel(min(level.price + rise / 100, 1.0), level.size) for level in first.asks)
    assert edge(dearer) <= edge(first.asks) + 0.01 * len(dearer)


def test_confidence_rises_with_edge_and_depth() -> None:
    def edge(price: float, size: float) -> float:
        leg = Leg("kalshi", "yes", levels((price, size)), NO_FEE)
        found = best_edge(leg, Leg("polymarket", "no", levels((0.5, size)), NO_FEE), 0.0, 0.0)
        assert found is not None
        return confidence_of(found)

    assert edge(0.48, 100) == pytest.approx(0.25)  # half for the edge of 0.02, half for the depth of 100
    assert edge(0.48, 10) < edge(0.48, 100) < edge(0.40, 100) < edge(0.40, 1000) < 1
    assert edge(0.51, 100) == 0
