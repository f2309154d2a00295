"""Written contracts: their exits, and the reminders of the pass over the orders."""

from __future__ import annotations

import datetime as dt

from sqlmodel import select

from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.states import OrderState
from chordesk.models.tables.runtime import Notice
from chordesk.tools.orders.flow import note_written, written_end
from chordesk.tools.orders.snapshots import take_snapshot
from tests.tools.orders.desk import action
from tests.tools.orders.test_legs import ALLOWED, PRICES, PUT90, NewDesk, Options

PLAN = PositionPlan(entry=2.0, stop=6.0, target=1.0, ends=dt.date(2010, 9, 11))


def test_a_written_contract_ends_by_its_price_or_a_week_before_it_expires() -> None:
    early, late = dt.date(2010, 9, 10), dt.date(2010, 9, 11)
    for day, price, expected in (
        (early, 2.0, None), (early, 1.0, ExitReason.TARGET), (early, 6.0, ExitReason.INVALIDATION), (early, None, None),
        (late, 2.0, ExitReason.HORIZON), (late, None, ExitReason.HORIZON), (late, 0.5, ExitReason.TARGET),
    ):  # fmt: skip
        assert written_end(PLAN, day, price) == expected


def test_the_pass_reminds_of_each_end_once(new_desk: NewDesk) -> None:
    market = Options(dict(PRICES))
    desk = new_desk(market, starting_cash=20_000, **ALLOWED)
    price = PRICES[PUT90]
    plan = {"entry": price, "stop": price * 3, "target": price / 2}
    put = action("AAA", side="sell", quantity=1, orderType="limit", limitPrice=price, contract=PUT90, plan=plan)
    (sold,) = desk.run(put, instrument="option")
    assert sold.state == OrderState.FILLED, sold
    context = desk.context()
    assert note_written(context, take_snapshot(market, {PUT90})) == 0
    market.prices[PUT90] = price * 3
    assert [note_written(context, take_snapshot(market, {PUT90})) for _ in range(2)] == [1, 0]
    with desk.store.read() as session:
        notices = [row for row in session.exec(select(Notice)) if row.kind == "plan_review"]
    assert [row.subject for row in notices] == ["AAA"]
