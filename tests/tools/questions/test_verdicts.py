"""The question of a verdict: of BUY and PASS alone, shared with the desk's own, never in the way of the verdict."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session, func, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.runs import Verdict
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.asking import desk_questions, verdict_question
from tests.tools.ledger_rows import add_candidate, add_run, add_verdict
from tests.tools.market.far_market import FarMarket
from tests.tools.questions.rows import ASKED, on


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
