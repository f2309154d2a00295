"""The desk's own questions: asked once, over the exchange's next sessions, on symbols that have a price."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, func, select

from chordesk.models.board import BeatsMedian, QuestionSource
from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.runs import Verdict
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.asking import base_day, unaskable, verdict_question
from chordesk.tools.questions.resolving import rule_of
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


def test_verdicts_of_a_day_and_the_desk_share_a_question(store: Store, data: ReplayData, tmp_path: Path) -> None:
    market = on(data, ASKED)
    with store.session() as session:
        (own,) = desk_questions(session, market, ["AAPL"], "sp500", 10)
        for rating in ("BUY", "PASS"):
            write = verdict_question(market, settings(tmp_path), a_verdict(session, rating))
            assert write is not None
            write(session)
        assert list(session.exec(select(VerdictQuestion.question_id))) == [own.id, own.id]


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
