"""The desk's own questions: asked once, over the exchange's next sessions, on symbols that have a price."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import func, select

from chordesk.models.board import BeatsMedian, QuestionSource
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.tables.board import Question
from chordesk.tools.market.clock import NEW_YORK, LiveClock
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.asking import base_day, desk_questions, unaskable
from chordesk.tools.questions.resolving import rule_of
from tests.tools.questions.rows import ASKED, CLOSED, on


def test_a_question_names_its_universe_its_sessions_and_its_closing(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        (asked,) = desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    assert asked.text == "Will AAPL beat the sp500's median over the next 10 sessions after 2010-03-01?"
    assert asked.closes_at == dt.datetime(2010, 3, 15, 16, 0, tzinfo=NEW_YORK)
    assert asked.opens_at == dt.datetime(2010, 3, 1, 15, 55, tzinfo=NEW_YORK)
    assert (asked.state, asked.market, asked.subjects) == ("open", "replay", ["AAPL"])
    assert (asked.baseline, asked.baseline_source) == (0.5, "even odds")
    assert rule_of(asked) == BeatsMedian(symbol="AAPL", universe="sp500", day=ASKED, sessions=10)
    assert asked.closes_at.astimezone(NEW_YORK).date() == CLOSED


def test_asking_again_writes_nothing_more(store: Store, data: ReplayData) -> None:
    market = on(data, ASKED)
    with store.session() as session:
        first = desk_questions(session, market, ["IBM", "AAPL"], "sp500", 10)
    with store.session() as session:
        again = desk_questions(session, market, ["AAPL", "IBM", "GE", "AAPL"], "SP500", 10)
        other = desk_questions(session, market, ["AAPL"], "sp500", 5)
        assert session.exec(select(func.count()).select_from(Question)).one() == 4
    assert [row.id for row in again[:2]] == [first[1].id, first[0].id]
    assert again[2].subjects == ["GE"]
    assert other[0].id not in {row.id for row in again}


def test_a_question_of_a_verdict_is_the_desks_too(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        (first,) = desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10, source=QuestionSource.VERDICT)
        (again,) = desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    assert again.id == first.id
    assert again.source == QuestionSource.VERDICT


def test_a_universe_by_comma_is_kept_as_its_symbols(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        (asked,) = desk_questions(session, on(data, ASKED), ["AAPL"], "ibm, GE,AAPL", 10)
        (same,) = desk_questions(session, on(data, ASKED), ["AAPL"], "AAPL,IBM,GE", 10)
    assert asked.id == same.id
    assert rule_of(asked).universe == "AAPL,GE,IBM"
    assert "these 3 symbols' median" in asked.text


def test_a_symbol_without_a_price_has_no_question(store: Store, data: ReplayData) -> None:
    market = on(data, ASKED)
    with store.session() as session:
        assert desk_questions(session, market, ["NOPE"], "sp500", 10) == []
    assert "NOPE" in unaskable(market, ["NOPE", "AAPL"])["NOPE"]


def test_an_unknown_universe_is_refused(store: Store, data: ReplayData) -> None:
    with store.session() as session, pytest.raises(UsageError, match="NOPE"):
        desk_questions(session, on(data, ASKED), ["AAPL"], "AAPL,NOPE", 10)


@pytest.mark.parametrize(
    ("now", "day"),
    [
        ("2010-03-02 08:00", "2010-03-01"),  # before the open: the last close
        ("2010-03-02 11:00", "2010-03-02"),  # within the session: its own close, of which nothing is known
        ("2010-03-02 17:00", "2010-03-02"),
        ("2010-03-06 12:00", "2010-03-05"),  # a Saturday
    ],
)
def test_live_a_question_counts_from_a_close_that_is_no_older_than_the_latest(now: str, day: str) -> None:
    class Clock(LiveClock):
        def now(self) -> dt.datetime:
            return dt.datetime.fromisoformat(now).replace(tzinfo=NEW_YORK)

    assert base_day(Clock()) == dt.date.fromisoformat(day)
