"""Two workers on a real PostgreSQL: row locks in place of one writer."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from chordesk.models.database.store import Store
from chordesk.models.tables.board import EventPosition, Question
from chordesk.tools.event_positions import event_ledger
from chordesk.tools.ledger import ensure_account
from tests.patience import PATIENCE
from tests.tools.event_positions.test_ledger import add_question, ended, opened, position, settle_all
from tests.tools.ledger_rows import add_run

pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]


def test_two_workers_at_once_stake_once_within_the_heat_and_pay_once(postgres_url: str) -> None:
    stores = [Store(postgres_url), Store(postgres_url)]
    try:
        stake_and_settle_at_once(stores)
    finally:
        for store in stores:
            store.close()


def stake_and_settle_at_once(stores: list[Store]) -> None:
    with stores[0].session() as session:
        ensure_account(session, "paper", 1000)
        runs = [add_run(session) for _ in range(6)]
        questions = [add_question(session, f"q{number}") for number in range(6)]
    together = Barrier(len(stores))

    def stake(store: Store) -> None:
        for run, question in zip(runs, questions, strict=True):
            together.wait(PATIENCE)
            with store.session() as session:
                opened(session, run.id, question, 0.75)

    def settle(store: Store) -> int:
        together.wait(PATIENCE)
        with store.session() as session:
            return len(settle_all(session))

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(stake, stores))
        with stores[0].session() as session:
            ledger = event_ledger(session, "paper", 1000)
            assert ledger.staked <= 500
            rows: list[EventPosition] = [held.position for held in ledger.positions]
            assert len({row.question_id for row in rows}) == len(rows) == 4
            for question in questions:
                ended(session, session.get_one(Question, question.id), 1.0)
        assert sum(pool.map(settle, stores)) == 4
    with stores[0].session() as session:
        question = add_question(session, "later")
        assert position(session, add_run(session).id, question).cost > 0
