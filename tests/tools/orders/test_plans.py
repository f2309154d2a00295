"""Plans of positions: they stand at the broker, end once for the reason that came first, and are reviewed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.tables.runtime import Notice
from chordesk.tools.orders.protection import ending
from tests.tools.brokers.sessions import DAYS, FLAT, Sessions, sessions
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.protection.watch import a_pass
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]
DAY = dt.date(2010, 8, 12)


def holding(new_desk: NewDesk, market: Tape | Sessions, **plan: Any) -> Desk:
    """A desk that bought 10 AAA at 100 with a plan."""
    desk = new_desk(market)
    desk.run(action(plan={"entry": 100.0, "most": 5_000.0, "bound": "equal risk", **plan}))
    return desk


def exits(desk: Desk) -> list[tuple[str, str | None, str]]:
    return [(row.order_type or "", row.exit_reason, row.state) for row in desk.orders()[1:]]


def test_a_stop_stands_at_the_broker_and_says_whose_it_is(new_desk: NewDesk) -> None:
    desk = holding(new_desk, Tape({"AAA": 100.0}), stop=95.0)
    bought, stop = desk.orders()
    assert (stop.order_type, stop.stop_price, stop.exit_reason) == ("stop", 95, "invalidation")
    assert (stop.protects, stop.decision_id) == (bought.id, bought.decision_id)
    assert bought.plan is not None
    assert (bought.plan["bound"], bought.plan["stop"]) == ("equal risk", 95.0)
    for _ in range(3):
        a_pass(desk)
    assert len(desk.orders()) == 2


def test_of_rule_and_plan_the_closer_stop_stands(new_desk: NewDesk) -> None:
    for stop, at in ((95.0, 95.0), (80.0, 92.0)):
        desk = new_desk(Tape({"AAA": 100.0}), protect="stop:8%")
        desk.run(action(plan={"stop": stop}))
        assert desk.orders()[1].stop_price == at


@pytest.mark.parametrize(
    ("plan", "price", "reason"),
    [
        ({"stop": 95.0, "target": 110.0}, 111.0, "target"),
        ({"stop": 95.0, "ends": "2010-08-13"}, 101.0, "horizon"),
        ({"ends": "2010-08-13", "target": 110.0}, 120.0, "target"),
    ],
)
def test_an_exit_happens_once_for_its_reason(
    new_desk: NewDesk, plan: dict[str, Any], price: float, reason: str
) -> None:
    market = Tape({"AAA": 100.0})
    desk = holding(new_desk, market, **plan)
    a_pass(desk)
    assert desk.positions() == {"AAA": 10}
    market.clock.at += dt.timedelta(days=1)
    market.prices["AAA"] = price
    for _ in range(3):
        a_pass(desk)
    assert desk.positions() == {}
    assert [row for row in exits(desk) if row[2] == "filled"] == [("market", reason, "filled")]
    assert [fill.quantity for fill in desk.fills()] == [10, 10]


def test_a_closed_exchange_ends_nothing(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = holding(new_desk, market, stop=95.0, ends="2010-08-14")
    market.clock.at = market.clock.at.replace(day=14)
    a_pass(desk)
    assert desk.positions() == {"AAA": 10}


def test_a_crossed_invalidation_closes_at_its_stop_in_the_bars_of_a_later_day(new_desk: NewDesk) -> None:
    desk = holding(new_desk, sessions((100, 101, 99, 100), (99, 100, 90, 91), FLAT), stop=95.0, ends="2010-12-01")
    market = desk.market
    assert isinstance(market, Sessions)
    for day in DAYS[1:4]:
        market.go(day)
        a_pass(desk)
    assert desk.positions() == {}
    assert exits(desk) == [("stop", "invalidation", "filled")]
    assert [fill.price for fill in desk.fills()] == [100, 95]


def test_a_review_is_noted_once(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0})
    desk = holding(new_desk, market, stop=95.0, review="2010-08-13")

    def noted() -> list[Notice]:
        with desk.store.read() as session:
            return list(session.exec(select(Notice).where(Notice.kind == "plan_review")).all())

    a_pass(desk)
    assert noted() == []
    market.clock.at += dt.timedelta(days=1)
    a_pass(desk)
    a_pass(desk)
    (one,) = noted()
    assert (one.subject, one.facts["review"]) == ("AAA", "2010-08-13")


def test_a_sale_on_a_changed_verdict_says_so(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    (sold,) = desk.run(action(kind="close"), ratings={"AAA": "PASS"})
    assert (sold.state, sold.exit_reason) == ("filled", "verdict")


@given(st.floats(1, 200), st.booleans(), st.integers(-5, 5))
def test_a_plan_ends_on_the_losing_side_the_winning_side_or_its_last_day(price: float, long: bool, days: int) -> None:
    stop, target = (90.0, 120.0) if long else (120.0, 90.0)
    plan = PositionPlan(stop=stop, target=target, ends=DAY)
    found = ending(plan, DAY + dt.timedelta(days=days), Decimal(repr(price)), long=long)
    gain = price - 100 if long else 100 - price
    if gain <= (-10 if long else -20):
        assert found is ExitReason.INVALIDATION
    elif gain >= (20 if long else 10):
        assert found is ExitReason.TARGET
    else:
        assert found is (ExitReason.HORIZON if days >= 0 else None)
