"""Every rule on its own: what it denies, and what is just inside."""

from __future__ import annotations

import datetime as dt
import uuid
from typing import Any

import pytest

from models.orders import (
    AccountView,
    Cleared,
    DenialCode,
    Denied,
    HeldPosition,
    OrderTicket,
    RiskContext,
    RiskLimits,
)
from models.research import Instrument, Rating
from models.settings import Settings
from tools.risk import check, limits_of

NOW = dt.datetime(2010, 8, 12, 19, 55, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


def ticket(**changes: Any) -> OrderTicket:
    base = {
        "order_id": uuid.UUID(int=1),
        "account": "paper",
        "symbol": "AAA",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": NOW,
        "order_type": "market",
    }
    return OrderTicket.model_validate({**base, **changes})


def limits(**changes: Any) -> RiskLimits:
    base = {
        "allow_short": False,
        "options_allowed": False,
        "shares_allowed": True,
        "max_order_notional": 10_000,
        "max_symbol_share": 0.1,
        "cooldown_hours": 24,
        "slippage_bps": 0,
        "commission_per_share": 0,
    }
    return RiskLimits.model_validate({**base, **changes})


def account(cash: float = 100_000, equity: float | None = 100_000, **held: float) -> AccountView:
    positions = [
        HeldPosition(symbol=symbol, quantity=quantity, average_cost=1, priced_at=NOW, market_price=100)
        for symbol, quantity in held.items()
    ]
    return AccountView(account="paper", cash=cash, equity=equity, positions=positions)


def context(**changes: Any) -> RiskContext:
    base = {
        "now": NOW,
        "market_open": True,
        "next_open": None,
        "providers": ("endpoint",),
        "markets": ("yahoo",),
        "broker": "paper",
        "rating": Rating.BUY,
        "instrument": Instrument.EQUITY,
        "price": 100.0,
        "account": account(),
    }
    return RiskContext.model_validate({**base, **changes})


SELL = {"action": "reduce", "side": "sell"}
SHORT = {"action": "open", "side": "sell"}
UNPRICED = HeldPosition(symbol="ZZZ", quantity=5, average_cost=1)
UNPRICED_SHORT = HeldPosition(symbol="ZZZ", quantity=-5, average_cost=1)

# code, (ticket, context, limits) that breaks the rule, and (ticket, context, limits) just inside
BOUNDARIES: list[tuple[DenialCode, tuple[dict, dict, dict], tuple[dict, dict, dict]]] = [
    (
        DenialCode.PROVIDER_NOT_ALLOWED,
        ({"account": "alpaca-paper"}, {"broker": "alpaca-paper", "providers": ("endpoint", "rulebook")}, {}),
        ({"account": "alpaca-paper"}, {"broker": "alpaca-paper", "providers": ("endpoint", "codex")}, {}),
    ),
    (
        DenialCode.PROVIDER_NOT_ALLOWED,
        ({"account": "alpaca-paper"}, {"broker": "alpaca-paper", "markets": ("yahoo", "replay")}, {}),
        ({}, {"providers": ("rulebook",), "markets": ("replay",)}, {}),
    ),
    (DenialCode.PROVIDER_NOT_ALLOWED, ({"account": "alpaca-live"}, {}, {}), ({"account": "paper"}, {}, {})),
    (DenialCode.NO_VERDICT, ({}, {"rating": None}, {}), ({}, {"rating": Rating.BUY}, {})),
    (DenialCode.NOT_TRADABLE, ({}, {"rating": Rating.PASS}, {}), ({}, {"rating": Rating.CAUTION}, {})),
    (
        DenialCode.NOT_TRADABLE,
        ({"action": "add"}, {"rating": Rating.INSUFFICIENT}, {}),
        ({"action": "add"}, {"rating": Rating.HOLD}, {}),
    ),
    (
        DenialCode.NOT_TRADABLE,
        (SELL, {"rating": Rating.INSUFFICIENT, "account": account(AAA=10)}, {}),
        (SELL, {"rating": Rating.PASS, "account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.COOLDOWN,
        ({}, {"last_order_at": NOW - 24 * HOUR + dt.timedelta(seconds=1)}, {}),
        ({}, {"last_order_at": NOW - 24 * HOUR}, {}),
    ),
    (DenialCode.COOLDOWN, ({}, {"last_order_at": NOW + HOUR}, {}), ({}, {"last_order_at": NOW}, {"cooldown_hours": 0})),
    (DenialCode.LONG_ONLY, (SELL, {"account": account(AAA=9)}, {}), (SELL, {"account": account(AAA=10)}, {})),
    (
        DenialCode.LONG_ONLY,
        (SELL, {"account": account(AAA=14), "pledged_sells": 5}, {}),
        (SELL, {"account": account(AAA=14), "pledged_sells": 4}, {}),
    ),
    (DenialCode.LONG_ONLY, (SELL, {"pledged_buys": 10}, {}), (SHORT, {}, {"allow_short": True})),
    (
        DenialCode.MALFORMED,
        (SHORT, {"account": account(AAA=1)}, {"allow_short": True}),
        (SHORT, {"account": account(AAA=0)}, {"allow_short": True}),
    ),
    (
        DenialCode.MALFORMED,
        ({"action": "close"}, {"account": account(AAA=-9)}, {"allow_short": True}),
        ({"action": "close"}, {"account": account(AAA=-10)}, {"allow_short": True}),
    ),
    (DenialCode.STOCKS_ONLY, ({}, {"instrument": Instrument.OPTION}, {}), ({}, {"instrument": Instrument.ETF}, {})),
    (DenialCode.STOCKS_ONLY, ({}, {"instrument": None}, {}), ({}, {"instrument": Instrument.EQUITY}, {})),
    (
        DenialCode.STOCKS_ONLY,
        ({}, {"instrument": Instrument.OPTION}, {"options_allowed": True}),
        ({}, {}, {"options_allowed": True}),
    ),
    (DenialCode.STOCKS_ONLY, ({}, {}, {"options_allowed": True, "shares_allowed": False}), ({}, {}, {})),
    (
        DenialCode.NOTIONAL_PER_ORDER,
        ({"quantity": 3}, {"price": 0.1001}, {"max_order_notional": 0.3}),
        ({"quantity": 3}, {"price": 0.1}, {"max_order_notional": 0.3}),  # 0.1 * 3 > 0.3 in binary floats
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,
        ({**SELL, "quantity": 11}, {"account": account(AAA=99)}, {"max_order_notional": 1_000}),
        ({**SELL, "quantity": 10}, {"account": account(AAA=99)}, {"max_order_notional": 1_000}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(equity=9_999.99)}, {}),
        ({}, {"account": account(equity=10_000)}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(AAA=80), "pledged_buys": 11}, {}),
        ({}, {"account": account(AAA=80), "pledged_buys": 10}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({"quantity": 11, **SHORT}, {"account": account(equity=10_000)}, {"allow_short": True}),
        ({"quantity": 10, **SHORT}, {"account": account(equity=10_000)}, {"allow_short": True}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": AccountView(account="paper", cash=1e5, equity=None, positions=[UNPRICED])}, {}),
        ({}, {"account": AccountView(account="paper", cash=1e5, equity=1e5, positions=[UNPRICED])}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(equity=-5.0)}, {}),
        (SELL, {"account": account(equity=None, AAA=10)}, {}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": account(cash=999.99)}, {}),
        ({}, {"account": account(cash=1_000)}, {}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": account(cash=5_000), "pledged_cash": 4_000.01}, {}),
        ({}, {"account": account(cash=5_000), "pledged_cash": 4_000}, {}),
    ),
    (
        DenialCode.BUYING_POWER,  # 10 shares of 100 with 5 bp and 0.01 a share are 1,000.60
        ({}, {"account": account(cash=1_000.59)}, {"slippage_bps": 5, "commission_per_share": 0.01}),
        ({}, {"account": account(cash=1_000.60)}, {"slippage_bps": 5, "commission_per_share": 0.01}),
    ),
    (
        DenialCode.BUYING_POWER,  # a short of 5 at 100 holds back 1,000
        ({}, {"account": account(cash=1_999, BBB=-5)}, {"allow_short": True}),
        ({}, {"account": account(cash=2_000, BBB=-5)}, {"allow_short": True}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": AccountView(account="paper", cash=1e5, equity=1e5, positions=[UNPRICED_SHORT])}, {}),
        ({**SELL, "quantity": 5}, {"account": account(cash=0, AAA=5)}, {}),
    ),
    (DenialCode.MARKET_CLOSED, ({}, {"market_open": False, "next_open": NOW + HOUR}, {}), ({}, {}, {})),
    (DenialCode.MARKET_CLOSED, ({}, {"market_open": None}, {}), ({}, {"market_open": True}, {})),
]  # fmt: skip


@pytest.mark.parametrize(("code", "outside", "inside"), BOUNDARIES, ids=lambda value: str(value)[:24])
def test_each_rule_denies_outside_its_limit_and_clears_just_inside(code, outside, inside) -> None:
    denied = check(ticket(**outside[0]), context(**outside[1]), limits(**outside[2]))
    assert isinstance(denied, Denied)
    assert denied.code == code
    assert denied.reason
    assert denied.measured
    assert denied.limit
    assert check(ticket(**inside[0]), context(**inside[1]), limits(**inside[2])) == Cleared()


# Codes that are given before or after the rules; test_codes.py has their pairs.
ELSEWHERE = {
    DenialCode.UNPRICED,
    DenialCode.PREVIEW_STALE,
    DenialCode.PREVIEW_ALTERED,
    DenialCode.RUN_STOPPED,
}


def test_no_code_is_without_a_pair() -> None:
    assert {code for code, _, _ in BOUNDARIES} | ELSEWHERE == set(DenialCode)


def test_the_first_denial_wins() -> None:
    broken = context(rating=None, last_order_at=NOW, instrument=None, account=account(cash=0), market_open=False)
    denied = check(ticket(), broken, limits())
    assert isinstance(denied, Denied)
    assert denied.code == DenialCode.NO_VERDICT


def test_a_cooldown_says_what_remains() -> None:
    denied = check(ticket(), context(last_order_at=NOW - HOUR / 2), limits())
    assert isinstance(denied, Denied)
    assert "23 h 30 min of market time remain" in denied.reason
    assert (denied.measured, denied.limit) == ("30 min since the last order", "at least 24 h")


def test_unknown_equity_names_the_position_without_a_price() -> None:
    unknown = AccountView(account="paper", cash=1e5, equity=None, positions=[UNPRICED])
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
