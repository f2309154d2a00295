"""An account that may give exposure back, and take on none."""

from __future__ import annotations

from collections.abc import Callable

from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.tools.orders import halting
from chordesk.tools.orders.flow import maintain_orders
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

NewDesk = Callable[..., Desk]


def test_reducing_cancels_open_orders_that_would_take_exposure_on(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, opens={"AAA": None, "BBB": None})
    desk = new_desk(market)
    desk.hold("BBB", 10, 50.0)
    desk.run(action(), action("BBB", "close"))
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    market.opens = {}
    maintain_orders(desk.context())
    assert {row.symbol: row.state for row in desk.orders()} == {"AAA": "cancelled", "BBB": "filled"}
    assert desk.positions() == {}


def test_reducing_cancels_what_sells_more_than_is_held(new_desk: NewDesk) -> None:
    market = Tape({"AAA": 100.0}, opens={"AAA": None})
    desk = new_desk(market)
    desk.hold("AAA", 10, 100.0)
    desk.run(action(kind="close"))
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["submitted"]
    desk.hold("AAA", -1, 100.0)
    maintain_orders(desk.context())
    assert [row.state for row in desk.orders()] == ["cancelled"]


def test_reducing_lets_exposure_be_given_back_alone(new_desk: NewDesk) -> None:
    desk = new_desk()
    desk.hold("AAA", 10, 100.0)
    with desk.store.session() as session:
        halting.resume(session, desk.settings, "paper", "somebody", "calm down", reduce_only=True)
    sold, bought = desk.run(action(kind="close"), action("BBB"))
    assert sold.state == OrderState.FILLED
    assert bought.denied is not None
    assert bought.denied.code is DenialCode.REDUCING
