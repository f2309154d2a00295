"""Questions as they are asked: the desk's own, verdicts', and persons' with the outcomes that they may enter."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, func, select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.questions import BeatsMedian
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.runs import Verdict
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import LiveClock, ReplayClock
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.asking import base_day, unaskable, verdict_question
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.person import add_question, entered, moment_of, outcome_of
from chordesk.tools.questions.resolving import rule_of, settle
from tests.tools.ledger_rows import add_candidate, add_run, add_verdict
from tests.tools.market.far_market import FarMarket
from tests.tools.questions.rows import ASKED, CLOSED, desk_questions, on


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


def a_verdict(session: Session, rating: str, symbol: str = "AAPL") -> Verdict:
    run = add_run(session)
    return add_verdict(session, run, add_candidate(session, run, symbol), rating)


def settings(tmp_path: Path, **changes: Any) -> Settings:
    return Settings(home=tmp_path, **changes)


@pytest.mark.parametrize(
    ("rating", "asked"), [("BUY", 1), ("PASS", 1), ("HOLD", 0), ("CAUTION", 0), ("INSUFFICIENT", 0)]
)
def test_ratings_that_expect_something_have_a_question(
    store: Store, data: ReplayData, tmp_path: Path, rating: str, asked: int
) -> None:
    with store.session() as session:
        verdict = a_verdict(session, rating)
        write = verdict_question(on(data, ASKED), settings(tmp_path, question_sessions=5), verdict)
        if write is not None:
            write(session)
            write(session)  # a transaction is begun again after a lost connection
        assert session.exec(select(func.count()).select_from(VerdictQuestion)).one() == asked
        found = session.exec(select(Question)).all()
    assert [row.text for row in found] == [
        "Will AAPL beat the sp500's median over the next 5 sessions after 2010-03-01?"
    ] * asked
    assert all(row.source == "verdict" for row in found)


def test_a_run_on_named_symbols_is_measured_against_the_markets_universe(
    store: Store, data: ReplayData, tmp_path: Path
) -> None:
    with store.session() as session:
        write = verdict_question(on(data, ASKED), settings(tmp_path, universe="AAPL,IBM"), a_verdict(session, "BUY"))
        assert write is not None
        write(session)
        assert session.exec(select(Question)).one().rule["universe"] == "sp500"


def test_a_verdict_that_can_have_no_question_stays_without(store: Store, data: ReplayData, tmp_path: Path) -> None:
    """On a symbol without a price, on a market without a universe, on a day that is no session."""
    with store.session() as session:
        own, odd = settings(tmp_path), settings(tmp_path, universe="AAPL")
        assert verdict_question(on(data, ASKED), own, a_verdict(session, "BUY", "NOPE")) is None
        assert verdict_question(FarMarket(), odd, a_verdict(session, "BUY")) is None
        saturday = FarMarket()
        saturday.clock.day = dt.date(2024, 3, 16)
        assert verdict_question(saturday, own, a_verdict(session, "BUY")) is None


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
