"""The fence, the halt, the submit step and the flattening on a real PostgreSQL: row locks in place of one writer."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pydantic import SecretStr
from sqlmodel import select

import tests.tools.orders.halt.test_halting as halting_cases
import tests.tools.orders.records.test_accounts as fence_cases
import tests.tools.orders.records.test_drafting as decision_cases
import tests.tools.orders.test_flattening as flattening_cases
import tests.tools.orders.test_submitting as submitting_cases
from chordesk.models.database.store import Store
from chordesk.models.errors import FencedOff
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState
from chordesk.models.tables.orders import Order
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.orders import halting
from chordesk.tools.orders.accounts import FencingLease
from tests.patience import PATIENCE
from tests.postgres import Server
from tests.tools.orders.desk import DEFAULTS, Desk, action
from tests.tools.orders.tape import Tape

# The same cases run on SQLite, where coverage counts their lines.
pytestmark = [pytest.mark.postgres, pytest.mark.no_cover]
NewDesk = Callable[..., Desk]


@pytest.fixture
def new_desk(postgres: Server, tmp_path: Path) -> Iterator[NewDesk]:
    made: list[Desk] = []

    def make(market: Any = None, **settings: Any) -> Desk:
        url = SecretStr(postgres.migrated())
        home = tmp_path / str(len(made))
        home.mkdir()
        found = Settings(home=home, database_url=url, **{**DEFAULTS, **settings})
        store, market = Store(found.database), market or Tape({"AAA": 100.0, "BBB": 50.0, "CCC": 20.0})
        made.append(
            Desk(store, found, market, build_broker(found, market, store), FencingLease(store, "paper", "test"))
        )
        return made[-1]

    yield make
    for desk in made:
        desk.store.close()


wired, alpaca, desk = submitting_cases.wired, fence_cases.alpaca, fence_cases.desk


def _cases(module: ModuleType) -> dict[str, Callable[..., None]]:
    return {name: case for name, case in vars(module).items() if name.startswith("test_")}


for cases in (decision_cases, fence_cases, flattening_cases, halting_cases, submitting_cases):
    globals().update(_cases(cases))


def test_a_reading_transaction_keeps_one_view_whatever_is_halted_meanwhile(new_desk: NewDesk) -> None:
    desk = new_desk()
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody")
    with desk.store.read() as session:
        assert session.exec(select(Order)).all() == []  # from here on it is this view
        halting.halt(desk.store, "paper", "a test", "somebody")
        assert halting.trading_state(session, desk.settings, "paper")[0] is TradingState.ACTIVE
    with desk.store.read() as session:
        assert halting.trading_state(session, desk.settings, "paper")[0] is TradingState.HALTED


def _until_held(desk: Desk, decision: str) -> None:
    """As the trade queue does: a resume gives the account back, and the step is tried again."""
    while True:
        with contextlib.suppress(FencedOff):
            desk.process(decision)
            return


def test_halts_and_decisions_at_the_same_time_do_not_lock_each_other_out(new_desk: NewDesk) -> None:
    desk = new_desk()
    decisions = [desk.decide(action(symbol)) for symbol in ("AAA", "BBB", "CCC")]
    failures: list[BaseException] = []

    def switch() -> None:
        for number in range(6):
            if number % 2:
                with desk.store.session() as session:
                    halting.resume(session, desk.settings, "paper", "somebody")
            else:
                halting.halt(desk.store, "paper", "a test", "somebody")

    def trade() -> None:
        for decision in decisions:
            _until_held(desk, decision)

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (switch, trade)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert failures == []
    assert {row.state for row in desk.orders()} <= {"filled", "denied", "cancelled"}
    assert {row.denial_code for row in desk.orders() if row.state == "denied"} <= {"halted"}
