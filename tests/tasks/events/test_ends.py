"""Where a run's events end: with the run, or later with the last of its orders."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.events import Envelope
from chordesk.models.tables.orders import Approval, Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.events.feed import Feed, is_over
from chordesk.tools.orders import approvals
from chordesk.tools.orders.flow import maintain_orders
from tests.patience import PATIENCE
from tests.tasks.events.kit import ended, read
from tests.tools.orders.desk import Desk, action, make_desk


@pytest.fixture
def desk(tmp_path: Path, template_db: Path) -> Iterator[Desk]:
    """Its orders wait for a person."""
    made = make_desk(template_db, tmp_path / "desk", approval="manual")
    yield made
    made.store.close()


def _over(desk: Desk, run_id: str) -> bool:
    with desk.store.read() as session:
        return is_over(session, run_id)


def _decide(desk: Desk, yes: bool) -> None:
    (order,) = desk.orders()
    with desk.store.session() as session:
        approvals.decide(session, desk.settings, order.id, yes, "somebody@here", None)


def test_events_of_an_order_follow_after_its_run(desk: Desk) -> None:
    desk.run(action())
    run_id = desk.orders()[0].run_id
    last = ended(desk.store, run_id)

    async def main() -> list[Envelope]:
        async with Feed(desk.store, None) as feed:
            reader = asyncio.create_task(read(feed, run_id, last))
            await asyncio.sleep(0.3)
            assert not reader.done(), "the order waits for a person"
            _decide(desk, True)
            await asyncio.sleep(0.4)
            assert not reader.done(), "the order is approved and not sent"
            maintain_orders(desk.context())
            return await asyncio.wait_for(reader, PATIENCE)

    arrived = [(str(one.type), one.payload.get("state")) for one in asyncio.run(main())]
    states = [state for type_, state in arrived if type_ == "order.state"]
    assert (states[0], states[-1]) == ("approved", "filled")
    assert "approval.decided" in dict(arrived)
    assert arrived[-1][0] == "order.fill"
    assert _over(desk, run_id)


def test_an_order_that_is_denied_ends_its_run_for_readers(desk: Desk) -> None:
    desk.run(action())
    run_id = desk.orders()[0].run_id
    ended(desk.store, run_id)
    assert not _over(desk, run_id)
    _decide(desk, False)
    assert _over(desk, run_id)


def test_an_order_that_rests_until_the_next_session_of_past_days_keeps_no_reader(desk: Desk) -> None:
    desk.run(action())
    (order,) = desk.orders()
    ended(desk.store, order.run_id)
    for market, over in (("replay", True), ("files-0a1b2c3d", True), ("yahoo", False)):
        with desk.store.session() as session:
            session.get_one(Run, order.run_id).market = market
            session.get_one(Order, order.id).state = "submitted"
            session.exec(select(Approval).where(Approval.order_id == order.id)).one().state = "approved"
        assert _over(desk, order.run_id) is over
