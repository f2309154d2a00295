"""Questions as they are read: by the beginning of an id, in lists, and by when their outcome is known."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import select

from chordesk.models.board.questions import QuestionSource, QuestionState
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.questions import Question
from chordesk.tools.market.replay.columns import ReplayData
from chordesk.tools.questions.desk import desk_questions
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.reading import find_question, known_outcome, known_until, list_questions
from chordesk.tools.questions.resolving import resolve_due
from chordesk.tools.questions.settling import settle
from tests.tools.questions.rows import ASKED, CLOSED, on, person_question


def test_an_id_is_found_by_its_only_beginning(store: Store) -> None:
    with store.session() as session:
        one = person_question(session, "One?", id="aaaa1")
        person_question(session, "Other?", id="aaaa2")
        assert find_question(session, "aaaa1").id == one.id
        with pytest.raises(UsageError, match="more than one question begins with 'aaaa'"):
            find_question(session, "aaaa")
        with pytest.raises(UsageError, match="too short"):
            find_question(session, "aaa")
        with pytest.raises(NotFound, match="no question 'bbbb'"):
            find_question(session, "bbbb")


def test_lists_have_the_open_ones_first_and_filters(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        for name, day in (("IBM", CLOSED), ("AAPL", ASKED)):
            desk_questions(session, on(data, day), [name], "sp500", 10)
        settled = person_question(session, "Settled?", subjects=["IBM"])
        settle(session, settled.id, Resolved(1.0, {}), "Ann")
    with store.read() as session:
        assert [row.subjects for row in list_questions(session)] == [["AAPL"], ["IBM"], ["IBM"]]
        assert [row.text for row in list_questions(session, state=QuestionState.RESOLVED)] == ["Settled?"]
        assert [row.text for row in list_questions(session, source=QuestionSource.PERSON)] == ["Settled?"]
        assert len(list_questions(session, subject="IBM")) == 2
        assert [row.text for row in list_questions(session, subject="IBM", limit=1, offset=1)] == ["Settled?"]
        assert list_questions(session, subject="IB") == []


def test_an_outcome_is_known_from_its_closing_on_and_no_sooner(store: Store, data: ReplayData) -> None:
    """In a database that has resolved it already, on a later day of the replay."""
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    resolve_due(store, on(data, dt.date(2010, 6, 1)), "paper")

    def known(day: dt.date) -> int:
        with store.read() as session:
            return len(session.exec(select(Question).where(known_outcome(known_until(on(data, day).clock)))).all())

    assert (known(dt.date(2010, 3, 12)), known(CLOSED)) == (0, 1)
