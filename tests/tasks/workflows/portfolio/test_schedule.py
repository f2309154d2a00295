"""The schedule store: the last look of each role, written with whatever else its transaction writes."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.tasks.workflows.portfolio import DueReason, HoldingSnapshot, RoleScheduleStore
from tests.builders import MARKET_NOW
from tests.patience import PATIENCE

DAY = dt.timedelta(days=1)
OURS = RoleScheduleStore("paper", "replay")


def record(store: Store, role: str, look: HoldingSnapshot, *, into: RoleScheduleStore = OURS, **changes: Any) -> None:
    details = {"reason": DueReason.INITIAL_RUN, "run_id": "run", "report_id": new_id(), **changes}
    with store.session() as session:
        into.record(session, "IBM", role, look, **details)


def rows(store: Store, now: dt.datetime = MARKET_NOW) -> dict[tuple[str, str], RoleSchedule]:
    with store.read() as session:
        return dict(OURS.rows(session, now))


def test_the_last_look_takes_the_place_of_the_one_before(store: Store) -> None:
    record(store, "risk", HoldingSnapshot(MARKET_NOW - DAY, 100.0, None))
    record(store, "quick", HoldingSnapshot(MARKET_NOW, None, 0.5))
    record(store, "risk", HoldingSnapshot(MARKET_NOW, 107.0, -0.25), reason=DueReason.PRICE_MOVE, report_id="r2")
    found = rows(store)
    assert found.keys() == {("IBM", "risk"), ("IBM", "quick")}
    risk = found["IBM", "risk"]
    assert (risk.reason, risk.report_id, risk.last_at) == ("price_move_trigger", "r2", MARKET_NOW)
    assert (risk.last_price, risk.last_unrealized) == (107.0, -0.25)
    assert (found["IBM", "quick"].last_price, found["IBM", "quick"].last_unrealized) == (None, 0.5)


def test_another_account_another_market_and_a_later_day_are_not_seen(store: Store) -> None:
    for other in (RoleScheduleStore("alpaca-paper", "replay"), RoleScheduleStore("paper", "yahoo")):
        record(store, "risk", HoldingSnapshot(MARKET_NOW, 1.0, 1.0), into=other)
    record(store, "quick", HoldingSnapshot(MARKET_NOW + dt.timedelta(seconds=1), 1.0, 1.0))
    assert rows(store) == {}
    assert rows(store, MARKET_NOW + DAY).keys() == {("IBM", "quick")}
    with store.read() as session:
        assert len(session.exec(select(RoleSchedule)).all()) == 3


def test_a_record_of_a_rolled_back_transaction_is_not_kept(store: Store) -> None:
    record(store, "risk", HoldingSnapshot(MARKET_NOW, 100.0, 0.0), report_id="first")

    def fails() -> None:
        with store.session() as session:
            OURS.record(
                session,
                "IBM",
                "risk",
                HoldingSnapshot(MARKET_NOW, 200.0, 1.0),
                reason="manual",
                run_id="x",
                report_id="x",
            )
            raise RuntimeError("the step is another's")

    with pytest.raises(RuntimeError):
        fails()
    assert rows(store)["IBM", "risk"].report_id == "first"


def test_two_runs_that_end_a_look_at_once_leave_one(store: Store) -> None:
    together = threading.Barrier(8)
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            together.wait(PATIENCE)
            record(store, "risk", HoldingSnapshot(MARKET_NOW, float(number), 0.0), report_id=str(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    (row,) = rows(store).values()
    assert row.report_id == f"{row.last_price:.0f}"
