"""Positions are opened once, paid out once, and the bankroll is what was realised."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlmodel import Session, col, select

from chordesk.models.board import QuestionState
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import EventPosition, Question
from chordesk.tools.event_positions import (
    NoStake,
    event_ledger,
    open_event_position,
    payout_of,
    purse_of,
    settle_event_positions,
)
from chordesk.tools.venues.markets import NO_FEE, VenueMarket
from tests.tools.event_positions.markets import NOW, book_of, market_of
from tests.tools.ledger_rows import add, add_run

BOOK = book_of([(0.38, 1e6)], [(0.40, 1e6)])
SETTINGS = Settings(event_bankroll=1000, kelly_fraction=0.25)


def free_market(market_id: str = "7") -> VenueMarket:
    return market_of("polymarket", market_id, fee=NO_FEE)


def add_question(session: Session, external_id: str = "7", **changes: Any) -> Question:
    fields: dict[str, Any] = {
        "source": "polymarket",
        "external_id": external_id,
        "text": "Will it rain?",
        "rule": {"kind": "venue", "venue": "polymarket", "id": external_id},
        "opens_at": NOW,
        "closes_at": NOW + dt.timedelta(days=30),
        "state": "open",
    }
    return add(session, Question(**(fields | changes)))


def opened(session: Session, run_id: str, question: Question, probability: float = 0.6) -> EventPosition | NoStake:
    return open_event_position(
        session,
        SETTINGS,
        run_id=run_id,
        question=question,
        probability=probability,
        market=free_market(question.external_id),
        book=BOOK,
        at=NOW,
    )


def position(session: Session, run_id: str, question: Question, probability: float = 0.6) -> EventPosition:
    row = opened(session, run_id, question, probability)
    assert isinstance(row, EventPosition), row
    return row


def ended(session: Session, question: Question, outcome: float | None) -> Question:
    question.state = QuestionState.VOID if outcome is None else QuestionState.RESOLVED
    question.outcome = outcome
    return add(session, question)


def settle_all(session: Session) -> list[EventPosition]:
    """Pay out what can be on every question, and return it."""
    questions = session.exec(select(Question).order_by(col(Question.id))).all()
    return [row for question in questions for row in settle_event_positions(session, question, "paper")]


def test_a_position_is_opened_once_a_run_and_question(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question)
        assert (row.account, row.side, row.probability, row.shares) == ("paper", "yes", 0.6, 208.33)
        assert (row.price, row.fee, row.cost) == (pytest.approx(0.4), 0.0, pytest.approx(83.332))
        assert (row.payout, row.opened_at) == (None, NOW)
        assert position(session, run.id, question, 0.9).id == row.id
        assert len(event_ledger(session, "paper", 1000).positions) == 1


@pytest.mark.parametrize(
    ("changes", "market", "reason"),
    [
        ({"source": "desk"}, free_market(), "the question is of desk, which is no venue"),
        ({}, free_market("8"), "the market polymarket 8 is not that of the question"),
        ({"state": "resolved", "outcome": 1.0}, free_market(), "the question is resolved, its market open"),
        ({}, market_of("polymarket", "7", state="closed"), "the question is open, its market closed"),
    ],
)
def test_nothing_is_staked_on_another_or_an_ended_question(
    store: Store, changes: dict[str, Any], market: VenueMarket, reason: str
) -> None:
    with store.session() as session:
        question, run = add_question(session, **changes), add_run(session)
        found = open_event_position(
            session, SETTINGS, run_id=run.id, question=question, probability=0.6, market=market, book=BOOK
        )
        assert found == NoStake(reason)


@pytest.mark.parametrize(
    ("probability", "outcome", "payout"),
    [(0.6, 1.0, 208.33), (0.6, 0.0, 0.0), (0.6, 0.25, 52.0825), (0.2, 0.0, 191.0), (0.2, 0.25, 143.25)],
)
def test_a_position_pays_its_shares_times_its_outcome(
    store: Store, probability: float, outcome: float, payout: float
) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question, probability)
        assert settle_event_positions(session, question, "paper") == []
        assert [
            paid.id for paid in settle_event_positions(session, ended(session, question, outcome), "paper", NOW)
        ] == [row.id]
        assert row.payout == pytest.approx(payout)
        assert row.closed_at == NOW


def test_a_void_question_gives_back_what_was_paid(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question)
        settle_event_positions(session, ended(session, question, None), "paper")
        assert row.payout == row.cost
        assert event_ledger(session, "paper", 1000).bankroll == 1000


def test_a_payout_is_booked_once_whatever_the_venue_gives_later(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question)
        settle_all(session)
        assert row.payout is None
        ended(session, question, 1.0)
        assert [paid.id for paid in settle_all(session)] == [row.id]
        ended(session, question, 0.0)
        assert settle_all(session) == []
        assert settle_event_positions(session, question, "paper") == []
        assert row.payout == pytest.approx(208.33)


def test_workers_that_settle_at_once_pay_once(store: Store) -> None:
    with store.session() as session:
        for number in range(5):
            question = add_question(session, f"q{number}")
            position(session, add_run(session).id, question, 0.45)
            ended(session, question, 1.0)

    def settle(_: int) -> int:
        with store.session() as session:
            return len(settle_all(session))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(settle, range(8))) == 5


def test_only_the_accounts_own_positions_are_paid(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        position(session, run.id, question)
        assert settle_event_positions(session, ended(session, question, 1.0), "alpaca-paper") == []


def test_the_bankroll_is_the_start_and_what_was_realised(store: Store) -> None:
    """Won 208.33 - 83.332; of 1,124.998 the next stake is a twelfth, 93.75."""
    with store.session() as session:
        first, second = add_question(session), add_question(session, "8")
        position(session, add_run(session).id, first)
        settle_event_positions(session, ended(session, first, 1.0), "paper")
        row = position(session, add_run(session).id, second)
        assert row.cost == pytest.approx(1124.998 / 12, abs=0.01)
        ledger = event_ledger(session, "paper", 1000)
        assert (ledger.realised, ledger.staked) == (pytest.approx(124.998), row.cost)
        assert [held.question.id for held in ledger.positions] == [second.id, first.id]
        assert [held.question.id for held in event_ledger(session, "paper", 1000, only_open=True).positions] == [
            second.id
        ]


def test_open_positions_use_heat_up_to_its_limit(store: Store) -> None:
    """Each of 0.75 at 0.40 wants 145.8; the fourth gets what is left of 500, the fifth nothing."""
    with store.session() as session:
        costs = []
        for number in range(5):
            question = add_question(session, f"q{number}")
            row = opened(session, add_run(session).id, question, 0.75)
            costs.append(row.cost if isinstance(row, EventPosition) else row)
        assert costs[:3] == [pytest.approx(145.83, abs=0.01)] * 3
        assert costs[3] == pytest.approx(62.5, abs=0.02)
        assert costs[4] == NoStake("open positions hold 50% of the bankroll, the limit is 50%")
        assert purse_of(session, "paper", 1000, "none").heat <= 0.5


def test_later_runs_add_only_what_kelly_still_allows(store: Store) -> None:
    with store.session() as session:
        question = add_question(session)
        position(session, add_run(session).id, question)
        again = opened(session, add_run(session).id, question)
        assert again == NoStake("Kelly allows no more than is held already")
        more = position(session, add_run(session).id, question, 0.7)
        assert more.cost == pytest.approx(125 - 83.33, abs=0.01)


def test_a_payout_of_a_half_is_the_same_for_both_sides() -> None:
    question = Question(state="resolved", outcome=0.5, source="polymarket", external_id="7", text="", rule={})
    for side in ("yes", "no"):
        assert payout_of(EventPosition(side=side, shares=10, cost=4), question) == 5
