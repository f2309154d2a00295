"""The rule of DESK_PROTECT, and the stop that it asks for."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.order_terms import Protection, parse_protection
from chordesk.models.settings.sources import load_settings
from chordesk.tools.orders.stops import preview_of, preview_text, stop_for, stop_price


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("none", None),
        ("stop:8%", Protection("stop", 8)),
        ("trail:5%", Protection("trail", 5)),
        ("trail:0.1%", Protection("trail", 0.1)),
        ("stop:50%", Protection("stop", 50)),
    ],
)
def test_a_rule_is_a_kind_and_a_percentage(rule: str, found: Protection | None) -> None:
    assert parse_protection(rule) == found


@pytest.mark.parametrize("rule", ["stop", "stop:8", "stop:0.09%", "stop:50.1%", "trail:-5%", "STOP:8%", "none%"])
def test_anything_else_is_refused_in_one_line_that_names_it(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DESK_PROTECT", rule)
    with pytest.raises(SettingError) as refused:
        load_settings()
    line = str(refused.value)
    assert "DESK_PROTECT" in line
    assert "allowed are none, stop:N% and trail:N% with N from 0.1 to 50" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("percent", "side", "cost", "price"),
    [
        (8, "sell", "100", "92"),
        (8, "sell", "100.33", "92.31"),  # 92.3036: never further away than asked for
        (8, "buy", "100.33", "108.35"),  # 108.3564
        (5, "sell", "0.5", "0.475"),
        (50, "sell", "0.0001", "0.0001"),
    ],
)
def test_a_stop_is_a_whole_cent_within_its_percentage(percent: float, side: str, cost: str, price: str) -> None:
    assert stop_price(percent, side, Decimal(cost)) == Decimal(price)


def test_a_short_position_is_protected_by_a_stop_to_buy() -> None:
    stop = stop_for(Protection("trail", 5), "AAA", Decimal(-7), Decimal(7), Decimal(100))
    assert (stop.side, stop.quantity, stop.stop_price, stop.order_type) == ("buy", 7, 105, "trailing_stop")


def test_a_preview_states_the_protective_order_of_an_opening_order_alone() -> None:
    found = preview_of("stop:8%", "open", "buy", Decimal(10), Decimal(100))
    assert preview_text(json.dumps({"protection": found})) == "sell 10, stop 92.00, gtc"
    trail = preview_of("trail:5%", "add", "buy", Decimal(10), Decimal(100))
    assert preview_text(json.dumps({"protection": trail})) == "sell 10, stop that trails by 5 % from 95.00, gtc"
    assert preview_of("stop:8%", "close", "sell", Decimal(10), Decimal(100)) is None
    assert preview_of("none", "open", "buy", Decimal(10), Decimal(100)) is None
