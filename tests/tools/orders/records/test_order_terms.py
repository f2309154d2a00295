"""Types, prices and times in force of orders, as the trader gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.tools.orders.desk import Desk, action

NewDesk = Callable[..., Desk]
PUT = "AAA100918P00090000"


@pytest.mark.parametrize(
    ("terms", "measured", "limit"),
    [
        ({"orderType": "stop"}, "stop price none", "a stop price above 0"),
        ({"orderType": "stop", "stopPrice": 92, "limitPrice": 91}, "limit price 91.0", "no limit price"),
        ({"orderType": "stop_limit", "stopPrice": 92}, "limit price none", "a limit price above 0"),
        ({"orderType": "trailing_stop"}, "trail percent none", "a trail percent above 0"),
        ({"trailPercent": 5}, "trail percent 5.0", "no trail percent"),
        ({"orderType": "stop", "stopPrice": 92, "timeInForce": "ioc"}, "time in force ioc", "time in force day or gtc"),
        (
            {"orderType": "trailing_stop", "trailPercent": 5, "timeInForce": "opg"},
            "time in force opg",
            "time in force day or gtc",
        ),
        (
            {"contract": PUT, "orderType": "limit", "limitPrice": 2, "timeInForce": "gtc"},
            "time in force gtc",
            "time in force day",
        ),
        ({"contract": PUT, "orderType": "stop", "stopPrice": 2}, "order type stop", "order type market or limit"),
    ],
)
def test_terms_that_no_broker_takes_are_denied_with_the_value_and_the_allowed_ones(
    new_desk: NewDesk, terms: dict[str, Any], measured: str, limit: str
) -> None:
    (order,) = new_desk().run(action(**terms))
    assert (order.denied.code, order.denied.measured, order.denied.limit) == ("malformed", measured, limit)


@pytest.mark.parametrize("tif", ["day", "gtc", "ioc", "opg", "cls", None])
def test_a_market_order_takes_every_time_in_force(new_desk: NewDesk, tif: str | None) -> None:
    (order,) = new_desk(trader_live=False).run(action(timeInForce=tif))
    assert (order.state, order.time_in_force) == ("previewed", tif or "day")


def test_a_stop_to_buy_counts_at_its_stop(new_desk: NewDesk) -> None:
    (order,) = new_desk(trader_live=False).run(action(orderType="stop", stopPrice=104.0))
    assert (order.price, order.notional) == (104.0, 1040.0)
