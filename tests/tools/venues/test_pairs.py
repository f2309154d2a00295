"""Pairs are suggested by code, decided by a person, and stay decided."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.board import Question, QuestionPair
from chordesk.tools.venues.pairs import confirm_pair, likely_pairs, list_pairs, pair_of, reject_pair, suggest_pairs

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


def test_questions_of_one_venue_are_no_pair() -> None:
    assert likely_pairs([question("kalshi"), question("kalshi")]) == []


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


def test_a_pair_that_nothing_suggested_can_be_confirmed(store: Store) -> None:
    with store.session() as session:
        first, second = stored(session, question("kalshi", "Rate cut?"), question("manifold"))
        assert confirm_pair(session, first, second, "Ada").score < 90


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
