"""Every rule on its own: what it denies, and what is just inside."""

from __future__ import annotations

import pytest

from chordesk.models.orders import Cleared, DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState
from chordesk.tools.risk import check, limits_of
from tests.tools.risk.amount_cases import AMOUNTS, LOSSES
from tests.tools.risk.conduct_cases import CONDUCT
from tests.tools.risk.figures import HOUR, NOW, account, context, held, limits, ticket
from tests.tools.risk.instrument_cases import INSTRUMENTS

BOUNDARIES = [*CONDUCT, *INSTRUMENTS, *AMOUNTS, *LOSSES]


@pytest.mark.parametrize(("code", "outside", "inside"), BOUNDARIES, ids=lambda value: str(value)[:24])
def test_each_rule_denies_outside_its_limit_and_clears_just_inside(code, outside, inside) -> None:
    denied = check(ticket(**outside[0]), context(**outside[1]), limits(**outside[2]))
    assert isinstance(denied, Denied)
    assert denied.code == code
    assert denied.reason
    assert denied.measured
    assert denied.limit
    assert check(ticket(**inside[0]), context(**inside[1]), limits(**inside[2])) == Cleared()


def test_the_first_denial_wins() -> None:
    broken = context(rating=None, last_order_at=NOW, instrument=None, account=account(cash=0), market_open=False)
    denied = check(ticket(), broken, limits())
    assert isinstance(denied, Denied)
    assert denied.code == DenialCode.NO_VERDICT
    halted = broken.model_copy(update={"trading": TradingState.HALTED})
    assert getattr(check(ticket(), halted, limits()), "code", None) == DenialCode.HALTED


def test_a_cooldown_states_the_time_left() -> None:
    denied = check(ticket(), context(last_order_at=NOW - HOUR / 2), limits())
    assert isinstance(denied, Denied)
    assert "23 h 30 min of market time remain" in denied.reason
    assert (denied.measured, denied.limit) == ("30 min since the last order", "at least 24 h")


def test_unknown_equity_names_the_position_without_a_price() -> None:
    unknown = account(1e5, None, held("ZZZ", 5, None))
    denied = check(ticket(), context(account=unknown), limits())
    assert isinstance(denied, Denied)
    assert "no price for ZZZ" in denied.reason


@pytest.mark.parametrize(
    ("settings", "options", "shares"),
    [
        ({}, False, True),
        ({"stock_only": False}, False, True),
        ({"stock_only": False, "options_mode": "both"}, True, True),
        ({"stock_only": False, "options_mode": "options-only"}, True, False),
        ({"stock_only": True, "options_mode": "options-only"}, False, True),
    ],
)
def test_limits_come_from_the_settings(settings: dict, options: bool, shares: bool) -> None:
    found = limits_of(Settings(max_order_notional=123, max_symbol_share=0.5, cooldown_hours=7, **settings))
    assert (found.options_allowed, found.shares_allowed) == (options, shares)
    assert (found.max_order_notional, found.max_symbol_share, found.cooldown_hours) == (123, 0.5, 7)
