"""Every rule on its own: what it denies, and what is just inside."""

from __future__ import annotations

import pytest

from chordesk.models.orders import Cleared, DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.states import TradingState
from chordesk.tools.risk.pre_trade import check, measured
from tests.tools.risk.amount_cases import AMOUNTS, LOSSES
from tests.tools.risk.conduct_cases import CONDUCT
from tests.tools.risk.figures import HOUR, NOW, account, context, limits, ticket
from tests.tools.risk.instrument_cases import INSTRUMENTS

NUMERIC = {
    DenialCode.NOTIONAL_PER_ORDER: "notional 1,000.00",
    DenialCode.NOTIONAL_PER_SYMBOL: "exposure 1,000.00",
    DenialCode.GROSS_NOTIONAL: "gross 1,000.00",
    DenialCode.SHARE_PER_SYMBOL: "1.0000% of equity",
    DenialCode.SHARE_PER_SECTOR: "1.0000% of equity",
    DenialCode.BUYING_POWER: "needs 1,000.00",
    DenialCode.DAILY_LOSS: "0.0000% lost",
    DenialCode.DRAWDOWN: "0.0000% lost",
    DenialCode.QUOTE_STALE: "0 h old",
    DenialCode.VERDICT_STALE: "0 h old in market time",
    DenialCode.CONSECUTIVE_REJECTIONS: "0 in a row",
}
BOUNDARIES = [*CONDUCT, *INSTRUMENTS, *AMOUNTS, *LOSSES]


@pytest.mark.parametrize(("code", "outside", "inside"), BOUNDARIES, ids=lambda value: str(value)[:24])
def test_each_rule_denies_outside_its_limit_and_clears_just_inside(code, outside, inside) -> None:
    given = ticket(**outside[0]), context(**outside[1]), limits(**outside[2])
    denied = check(*given)
    assert isinstance(denied, Denied)
    assert denied.code == code
    assert all((denied.reason, denied.measured, denied.limit))
    shown = next(row for row in measured(*given) if row.denied is not None)
    assert (shown.denied, shown.figure, code in shown.codes) == (denied, denied.measured, True)
    given = ticket(**inside[0]), context(**inside[1]), limits(**inside[2])
    assert check(*given) == Cleared()
    assert not [row for row in measured(*given) if row.denied is not None]


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
def test_the_settings_allow_shares_options_or_both(settings: dict, options: bool, shares: bool) -> None:
    found = Settings(**settings)
    assert (found.options_allowed, found.shares_allowed) == (options, shares)


def test_an_order_that_passes_has_the_figures_of_what_is_measured() -> None:
    found = {row.codes[-1]: row.figure for row in measured(ticket(), context(), limits())}
    assert {code: found[code] for code in NUMERIC} == NUMERIC


def test_an_order_that_only_reduces_is_not_bound_by_rules_on_entries() -> None:
    holds = context(account=account(100_000, 100_000, AAA=10))
    rows = {row.codes[-1]: row for row in measured(ticket(action="close", side="sell"), holds, limits())}
    assert (rows[DenialCode.NOTIONAL_PER_ORDER].binds, rows[DenialCode.NOTIONAL_PER_ORDER].figure) == (False, None)
    assert rows[DenialCode.DUPLICATE].binds
