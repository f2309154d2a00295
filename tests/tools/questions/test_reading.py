"""Questions as they are read: by the beginning of an id, in lists, and by when their outcome is known."""

from __future__ import annotations

import datetime as dt

from chordesk.models.database.store import Store
from chordesk.models.questions import QuestionSource, QuestionState
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import resolve_due, settle
from chordesk.tools.questions.stored_questions import choose, list_questions, unused_tools
from tests.tools.ledger_rows import add_run
from tests.tools.questions.rows import (
    ASKED,
    CLOSED,
    add_citation,
    add_episode,
    add_forecast,
    add_signal,
    desk_questions,
    on,
    person_question,
)


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
        whole = [row.id for row in list_questions(session)]
        for most in (1, 2):
            pages = [list_questions(session, limit=most, offset=offset) for offset in range(0, 4, most)]
            assert [row.id for page in pages for row in page] == whole


NEXT = dt.date(2010, 3, 2)


def chosen(store: Store, data: ReplayData, day: dt.date, limit: int = 10, symbols: tuple[str, ...] = ()) -> list[str]:
    market = on(data, day)
    with store.read() as session:
        found = choose(session, market, market.clock.now(), "paper", limit, symbols)
    return [f"{question.text.split(' the sp500')[0]} | {reason}" for question, reason in found]


def test_fresh_ones_come_first_then_candidates_then_the_soonest(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL", "IBM"], "sp500", 10)
        desk_questions(session, on(data, ASKED), ["XOM"], "sp500", 3)
        add_episode(session, ASKED)
        desk_questions(session, on(data, NEXT), ["GE"], "sp500", 20)
    assert chosen(store, data, NEXT, symbols=("IBM",)) == [
        "Will GE beat | fresh, closes 2010-03-30",
        "Will IBM beat | on IBM, closes 2010-03-15",
        "Will XOM beat | closes 2010-03-04",
        "Will AAPL beat | closes 2010-03-15",
    ]
    assert len(chosen(store, data, NEXT, 2)) == 2
    assert chosen(store, data, NEXT) == chosen(store, data, NEXT)


def test_questions_not_open_at_now_are_left_out(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
        desk_questions(session, on(data, dt.date(2010, 3, 9)), ["IBM"], "sp500", 10)
        person_question(session, "Unpriced?", baseline=None)
        person_question(session, "Void?", state="void")
        person_question(session, "Open?")
    assert chosen(store, data, NEXT) == [
        "Open? | fresh, closes 2010-03-06",
        "Will AAPL beat | fresh, closes 2010-03-15",
    ]
    # At 15:55 of its last day the last bar counts as known.
    assert chosen(store, data, CLOSED) == ["Will IBM beat | fresh, closes 2010-03-23"]


def test_in_a_replay_an_outcome_of_a_later_day_is_not_seen(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    before = chosen(store, data, NEXT)
    assert len(resolve_due(store, on(data, CLOSED), "other").resolved) == 1
    assert chosen(store, data, NEXT) == before == ["Will AAPL beat | fresh, closes 2010-03-15"]


def test_the_brief_calls_to_mind_the_unused_tools(store: Store, data: ReplayData) -> None:
    market = on(data, NEXT)
    with store.session() as session:
        (question,) = desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
        assert unused_tools(session, market, market.clock.now(), "paper") == []
        run = add_episode(session, ASKED)
        signals = {tool: add_signal(session, run, tool) for tool in ("momentum", "heat", "news")}
        add_signal(session, run, "funding", "offline")
        forecast = add_forecast(session, run, question)
        add_citation(session, forecast, signals["momentum"], counts=True)
        add_citation(session, forecast, signals["heat"], counts=False, ordinal=1)
        add_signal(session, add_run(session, ReplayClock(ASKED).now()), "else")
    with store.read() as session:
        assert unused_tools(session, market, market.clock.now(), "paper") == ["heat", "news"]
        assert unused_tools(session, market, market.clock.now(), "other") == []
