"""Questions that persons ask, and the outcomes that they may enter."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.tables.board import Question
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.person import add_question, entered, moment_of, outcome_of
from chordesk.tools.questions.resolving import settle
from tests.tools.questions.rows import ASKED, desk_questions, on, person_question

NOW = ReplayClock(ASKED).now()
SOON = NOW + dt.timedelta(days=3)
# In another zone these lie before the first year or after the last.
FIRST, LAST = "0001-01-01T00:00+14:00", "9999-12-31T23:59-12:00"


def add(store: Store, text: str = "Will it rain?", closes_at: dt.datetime = SOON, **options: Any) -> Question:
    with store.session() as session:
        return add_question(session, text, closes_at, "Ann", NOW, **options)


def test_a_question_has_its_times_its_baseline_and_its_author(store: Store) -> None:
    asked = add(store, "  Will\nit \x1b[31mrain?", about=["aapl", " ", "AAPL"], baseline=0.2)
    assert asked.text == "Will it [31mrain?"
    assert (asked.opens_at, asked.closes_at, asked.author) == (NOW, SOON, "Ann")
    assert (asked.baseline, asked.baseline_source, asked.subjects) == (0.2, "given by Ann", ["AAPL"])
    assert asked.rule == {"kind": "person"}
    assert (add(store, "Another?").baseline, asked.state) == (0.5, "open")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"closes_at": NOW - dt.timedelta(days=1)}, "--closes 2010-02-28 15:55 EST has passed"),
        (
            {"opens_at": NOW + dt.timedelta(days=4)},
            "it would close at 2010-03-04 15:55 EST, and opens at 2010-03-05 15:55 EST",
        ),
        ({"opens_at": SOON}, "it would close at"),
        ({"baseline": 1.4}, "--baseline 1.4 is no probability"),
        ({"baseline": 0.0}, "--baseline 0 is no probability"),
        ({"baseline": float("nan")}, "--baseline nan is no probability"),
        ({"about": ["not a symbol"]}, "--about 'NOT A SYMBOL' is no symbol"),
        ({"text": " \n"}, "a question of 0 characters"),
        ({"text": "x" * 501}, "a question of 501 characters"),
    ],
)
def test_a_question_that_cannot_be_asked_is_refused(store: Store, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        add(store, **options)
    assert reason in str(caught.value)
    with store.read() as session:
        assert session.exec(select(Question)).all() == []


def test_the_same_question_is_asked_once(store: Store) -> None:
    first = add(store)
    with pytest.raises(UsageError, match=f"asked already, as {first.id} by Ann"):
        add(store, "WILL it  rain?")
    assert add(store, closes_at=SOON + dt.timedelta(days=1)).id != first.id


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2010-03-04", dt.datetime(2010, 3, 4, 16, tzinfo=NEW_YORK)),
        ("2010-03-04T09:30", dt.datetime(2010, 3, 4, 9, 30, tzinfo=NEW_YORK)),
        ("2010-03-04T09:30+00:00", dt.datetime(2010, 3, 4, 9, 30, tzinfo=dt.UTC)),
    ],
)
def test_times_are_new_yorks_unless_they_have_an_offset(text: str, moment: dt.datetime) -> None:
    assert moment_of("--closes", text) == moment


@pytest.mark.parametrize("text", ["soon", "2010-13-04", "", "04.03.2010", "2010-02-30", FIRST, LAST])
def test_a_text_that_is_no_time_is_named_with_its_option(text: str) -> None:
    with pytest.raises(UsageError, match=r"--closes .* is no time"):
        moment_of("--closes", text)


@pytest.mark.parametrize(("text", "outcome"), [("YES", 1), ("no", 0), ("void", None), (".25", 0.25), ("1", 1)])
def test_outcomes_are_read(text: str, outcome: float | None) -> None:
    assert outcome_of(text) == outcome


@pytest.mark.parametrize("text", ["1.4", "-0.1", "nan", "maybe", ""])
def test_other_outcomes_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no outcome"):
        outcome_of(text)


def test_a_person_resolves_a_persons_question_once(store: Store) -> None:
    asked = add(store)
    found = entered(asked, 1.0, "it rained", "Bob", NOW)
    assert found == Resolved(1.0, {"source": "a person, Bob", "why": "it rained", "as_of": NOW.isoformat()})
    with store.session() as session:
        ended = settle(session, asked.id, found, "Bob")
    assert ended is not None
    with pytest.raises(UsageError, match=rf"{asked.id} was resolved to 1 by Bob.*resolves once"):
        entered(ended, 0.0, "it did not", "Ann", NOW)


def test_a_person_may_only_void_a_question_of_bars_and_once_it_has_closed(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        (asked,) = desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 1)
    later = NOW + dt.timedelta(days=2)
    with pytest.raises(UsageError, match="is resolved by the bars of the replay market, not by a person"):
        entered(asked, 1.0, "I want it", "Bob", later)
    with pytest.raises(UsageError, match="closes at 2010-03-02 16:00 EST"):
        entered(asked, None, "no data", "Bob", NOW)
    assert entered(asked, None, "no data", "Bob", later).outcome is None


def test_a_person_may_only_void_a_venues_question(store: Store) -> None:
    with store.session() as session:
        asked = person_question(session, source="kalshi", rule={"kind": "venue", "venue": "kalshi", "id": "K"})
    with pytest.raises(UsageError, match="is resolved by kalshi, not by a person"):
        entered(asked, 0.0, "I want it", "Bob", NOW + dt.timedelta(days=9))
