"""Types, prices and times in force as the commands show them."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.tasks.cli.show.orders import terms_text

NONE: dict[str, Any] = {"limit_price": None, "stop_price": None, "trail_percent": None, "time_in_force": "day"}


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ({"order_type": "market"}, "market order"),
        ({"order_type": None}, "no order"),
        ({"order_type": "limit", "limit_price": 99.5}, "limit order at 99.50"),
        ({"order_type": "stop", "stop_price": 92, "time_in_force": "gtc"}, "stop order, stop 92.00, gtc"),
        (
            {"order_type": "stop_limit", "stop_price": 92, "limit_price": 91, "time_in_force": "gtc"},
            "stop limit order, stop 92.00, limit 91.00, gtc",
        ),
        (
            {"order_type": "trailing_stop", "stop_price": 95, "trail_percent": 5.0},
            "trailing stop order, trail 5 %, stop 95.00",
        ),
    ],
)
def test_an_order_states_its_type_prices_and_time_in_force(order: dict[str, Any], text: str) -> None:
    assert terms_text({**NONE, **order}) == text
