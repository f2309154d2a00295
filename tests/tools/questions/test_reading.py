"""Questions as they are read: by the beginning of an id, in lists, and by when their outcome is known."""

from __future__ import annotations

import pytest

from chordesk.models.board import QuestionSource, QuestionState
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.asking import desk_questions
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.reading import find_question, list_questions
from chordesk.tools.questions.resolving import settle
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
