"""The end of a question: compare and set, notes, and what of an account is not booked."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.tables.board import Episode, EpisodeQuestion, EventPosition, KarmaEntry, Question
from chordesk.models.tables.runs import Run
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import book_late, is_under_way, keep_open, settle, unbooked
from tests.tools.ledger_rows import add, add_run
from tests.tools.questions.rows import add_forecast, add_skill, person_question

LATE = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("outcome", "state"), [(1.0, "resolved"), (0.0, "resolved"), (0.37, "resolved"), (None, "void")]
)
def test_the_first_outcome_stays(store: Store, outcome: float | None, state: str) -> None:
    with store.session() as session:
        asked = person_question(session)
        keep_open(session, asked.id, "no data yet")
    with store.session() as session:
        ended = settle(session, asked.id, Resolved(outcome, {"why": "seen"}), "Ann")
        assert ended is not None
        assert (ended.state, ended.outcome, ended.evidence) == (state, outcome, {"why": "seen"})
        assert (ended.resolved_by, ended.note) == ("Ann", None)
    with store.session() as session:
        assert settle(session, asked.id, Resolved(0.5, {}), "Bob") is None
        keep_open(session, asked.id, "still open?")
    with store.read() as session:
        assert session.get_one(Question, asked.id).model_dump() == ended.model_dump()


def test_missing_bookings_are_found_by_account_and_voice(store: Store) -> None:
    with store.session() as session:
        run = add_run(session)
        asked = {name: person_question(session, name) for name in ("a", "b", "void", "open", "nothing")}
        for name in ("a", "b", "void", "open"):
            add_forecast(session, run, asked[name], "bull")
        add_forecast(session, run, asked["b"], "bear")
        add_forecast(session, add_run(session, account="other"), asked["a"], "bull")
        for name in ("a", "b", "nothing"):
            settle(session, asked[name].id, Resolved(1.0, {}), "Ann")
        settle(session, asked["void"].id, Resolved(None, {}), "Ann")
    assert missing(store, asked, "paper") == ["a", "b"]
    with store.session() as session:
        assert book_late(session, asked["a"].id, "paper", "replay", LATE, [add_skill])
        assert not book_late(session, asked["a"].id, "paper", "replay", LATE, [add_skill])
    assert missing(store, asked, "paper") == ["b"]
    assert missing(store, asked, "other") == ["a"]
    with store.session() as session:
        assert book_late(session, asked["b"].id, "paper", "replay", LATE, [add_skill])
        assert sorted(session.exec(select(KarmaEntry.voice))) == ["bear", "bull", "bull"]
    assert missing(store, asked, "paper") == []


def test_a_board_under_way_is_waited_for(store: Store) -> None:
    with store.session() as session:
        before, run = add_run(session), add_run(session, state="running")
        asked = {"asked": person_question(session)}
        question = asked["asked"].id
        session.add(EpisodeQuestion(run_id=run.id, question_id=question, label="Q1"))
        add_forecast(session, before, asked["asked"], "bull")
        settle(session, question, Resolved(1.0, {}), "Ann")
        assert is_under_way(session, question, "paper")
        assert not is_under_way(session, question, "other")
    assert missing(store, asked, "paper") == []
    with store.session() as session:
        session.add(Episode(run_id=run.id, account="paper", number=1, rounds=2, content="", created_at=run.market_now))
    assert missing(store, asked, "paper") == ["asked"], "its tally is written"
    with store.session() as session:
        session.delete(session.get_one(Episode, run.id))
        session.get_one(Run, run.id).state = "stopped"
    assert missing(store, asked, "paper") == ["asked"], "it ended without one"


def test_an_open_position_waits_even_on_a_void_question(store: Store) -> None:
    with store.session() as session:
        asked = {"void": person_question(session)}
        settle(session, asked["void"].id, Resolved(None, {}), "Ann")
        position = a_position(session, asked["void"])
    assert missing(store, asked, "paper") == ["void"]
    with store.session() as session:
        session.get_one(EventPosition, position.id).payout = 10.0
    assert missing(store, asked, "paper") == []


def a_position(session: Session, question: Question) -> EventPosition:
    stake = {"side": "yes", "probability": 0.6, "shares": 20, "price": 0.5, "fee": 0, "cost": 10}
    run = add_run(session)
    values = {"account": "paper", "run_id": run.id, "question_id": question.id, "opened_at": run.market_now}
    return add(session, EventPosition(**values, **stake))


def missing(store: Store, asked: dict[str, Question], account: str) -> list[str]:
    names = {question.id: name for name, question in asked.items()}
    with store.read() as session:
        return sorted(names[one] for one in unbooked(session, account, "replay", LATE))
