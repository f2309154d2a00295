"""The checks of an order that no rule saw: what denied it, and every other rule as not reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.errors import MarketError
from chordesk.models.market import Quote
from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order
from chordesk.tasks.reading.order_history import OrderChecks, order_checks
from chordesk.tools.risk.pre_trade import RULES
from tests.tools.orders.desk import Desk, action, make_desk
from tests.tools.orders.tape import Tape


class Unquoted(Tape):
    """A market that lists a symbol and has no price for it."""

    def quote(self, symbol: str) -> Quote:
        if symbol == "BBB":
            raise MarketError("no price of BBB")
        return super().quote(symbol)


@pytest.fixture
def desk(template_db: Path, tmp_path: Path) -> Iterator[Desk]:
    made = make_desk(template_db, tmp_path / "desk", Unquoted({"AAA": 100.0, "BBB": 50.0}))
    yield made
    made.store.close()


def checks_of(desk: Desk, order: Order) -> OrderChecks:
    with desk.store.read() as session:
        return order_checks(session, desk.settings, session.get_one(Order, order.id), None, desk.market.name)


def test_an_order_without_a_price_reached_no_rule(desk: Desk) -> None:
    desk.run(action("BBB"))
    (order,) = desk.orders()
    found = checks_of(desk, order)
    assert (found.state, found.denial is not None and found.denial.code) == (OrderState.DENIED, DenialCode.UNPRICED)
    denied, *others = found.checks
    assert (denied.codes, denied.answer, denied.reason) == ([DenialCode.UNPRICED], "denied", order.denial_reason)
    assert {(one.answer, one.figure, one.limit) for one in others} == {("not_reached", None, None)}
    everything = {code for codes in RULES.values() for code in codes}
    assert {code for one in others for code in one.codes} == everything - {DenialCode.UNPRICED}


def test_an_order_with_a_price_reached_them_all(desk: Desk) -> None:
    desk.run(action("AAA"))
    (order,) = desk.orders()
    assert {one.answer for one in checks_of(desk, order).checks} == {"passed"}
