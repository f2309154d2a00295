"""Cases of an order's source and time."""

from __future__ import annotations

from decimal import Decimal

from chordesk.models.answers import Rating
from chordesk.models.day_limits import DayBand
from chordesk.models.orders import DenialCode
from chordesk.models.states import TradingState
from tests.tools.risk.cases import SECOND, SELL, SHORT, Case, auction
from tests.tools.risk.figures import HOUR, NOW, account

HOLDS = account(AAA=10)
IN_TOKYO, IN_SHANGHAI = "7203.T", "600519.SS"
BAND = {"band": DayBand(Decimal(100), Decimal(98), Decimal(102))}

CONDUCT: list[Case] = [
    (
        DenialCode.NO_SHORT,
        ({**SHORT, "symbol": IN_TOKYO}, {}, {"allow_short": True}),
        (SHORT, {}, {"allow_short": True}),
    ),
    (
        DenialCode.SAME_DAY,
        (
            {**SELL, "symbol": IN_SHANGHAI, "quantity": 101},
            {"account": account(**{IN_SHANGHAI: 200}), "bought_today": 100},
            {},
        ),
        (
            {**SELL, "symbol": IN_SHANGHAI, "quantity": 100},
            {"account": account(**{IN_SHANGHAI: 200}), "bought_today": 100},
            {},
        ),
    ),
    (
        DenialCode.DAY_LIMIT,
        ({"symbol": IN_TOKYO, "order_type": "limit", "limit_price": 102.5}, BAND, {}),
        ({"symbol": IN_TOKYO, "order_type": "limit", "limit_price": 102}, BAND, {}),
    ),
    (
        DenialCode.TIME_IN_FORCE,
        ({"symbol": IN_TOKYO, "time_in_force": "opg"}, {}, {}),
        ({"symbol": IN_TOKYO, "time_in_force": "gtc"}, {}, {}),
    ),
    (
        DenialCode.HALTED,
        ({}, {"trading": TradingState.HALTED, "trading_why": "the moon"}, {}),
        ({}, {"trading": TradingState.ACTIVE}, {}),
    ),
    (
        DenialCode.HALTED,
        (SELL, {"trading": TradingState.HALTED, "account": account(AAA=10)}, {}),
        (SELL, {"trading": TradingState.REDUCING, "account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.REDUCING,
        ({}, {"trading": TradingState.REDUCING}, {}),
        (SELL, {"trading": TradingState.REDUCING, "account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.REDUCING,
        ({**SELL, "quantity": 11}, {"trading": TradingState.REDUCING, "account": account(AAA=10)}, {}),
        ({**SELL, "quantity": 10}, {"trading": TradingState.REDUCING, "account": account(AAA=10)}, {}),
    ),
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
    (
        DenialCode.PROVIDER_NOT_ALLOWED,
        ({"account": "alpaca-paper"}, {"broker": "alpaca-paper", "markets": ("files-0a1b2c3d",)}, {}),
        ({}, {"markets": ("files-0a1b2c3d",)}, {}),
    ),
    (
        DenialCode.SETTINGS_DIFFER,
        ({}, {"markets": ("files-0a1b2c3d", "files-00000000")}, {}),
        ({}, {"markets": ("files-0a1b2c3d", "files-0a1b2c3d")}, {}),
    ),
    (
        DenialCode.SETTINGS_DIFFER,
        ({}, {"markets": ("files-0a1b2c3d", "files-00000000"), "account": HOLDS}, {}),
        (SELL, {"markets": ("files-0a1b2c3d", "files-00000000"), "account": HOLDS}, {}),
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
        ({}, {"rating": Rating.INSUFFICIENT, "account": HOLDS}, {}),
        (SELL, {"rating": Rating.INSUFFICIENT, "account": HOLDS}, {}),
    ),
    (
        DenialCode.NO_VERDICT,
        ({}, {"rating": None, "account": HOLDS}, {}),
        (SELL, {"rating": None, "account": HOLDS}, {}),
    ),
    (
        DenialCode.VERDICT_STALE,
        ({}, {"verdict_at": None, "account": HOLDS}, {}),
        (SELL, {"verdict_at": None, "account": HOLDS}, {}),
    ),
    (
        DenialCode.UNRESOLVED,
        ({}, {"unresolved": "o1", "account": HOLDS}, {}),
        (SELL, {"unresolved": "o1", "account": HOLDS}, {}),
    ),
    (
        DenialCode.COOLDOWN,
        ({}, {"last_order_at": NOW, "account": HOLDS}, {}),
        (SELL, {"last_order_at": NOW, "account": HOLDS}, {}),
    ),
    (
        DenialCode.COOLDOWN,  # one share too many opens, with all of the order
        ({**SELL, "quantity": 11}, {"last_order_at": NOW, "account": HOLDS}, {"allow_short": True}),
        ({**SELL, "quantity": 10}, {"last_order_at": NOW, "account": HOLDS}, {"allow_short": True}),
    ),
    (
        DenialCode.TRADES_PER_DAY,
        ({}, {"orders_today": 50, "account": HOLDS}, {}),
        (SELL, {"orders_today": 50, "account": HOLDS}, {}),
    ),
    (
        DenialCode.DUPLICATE,  # an exit is not given twice either
        (SELL, {"open_order": "o1", "account": HOLDS}, {}),
        (SELL, {"open_order": None, "account": HOLDS}, {}),
    ),
    (
        DenialCode.MARKET_CLOSED,
        (SELL, {"market_open": False, "account": HOLDS}, {}),
        (SELL, {"market_open": True, "account": HOLDS}, {}),
    ),
    (
        DenialCode.VERDICT_STALE,
        ({}, {"verdict_at": NOW - 24 * HOUR - SECOND}, {}),
        ({}, {"verdict_at": NOW - 24 * HOUR}, {}),
    ),
    (DenialCode.NO_VOLUME, ({}, {"idle": 5}, {}), ({}, {"idle": 4}, {})),
    (DenialCode.NO_VOLUME, ({}, {"idle": 5, "account": HOLDS}, {}), (SELL, {"idle": 5, "account": HOLDS}, {})),
    (DenialCode.VERDICT_STALE, ({}, {"verdict_at": NOW + SECOND}, {}), ({}, {"verdict_at": NOW}, {})),
    (DenialCode.VERDICT_STALE, ({}, {"verdict_at": None}, {}), ({}, {"verdict_at": NOW}, {})),
    (DenialCode.UNRESOLVED, ({}, {"unresolved": "o1"}, {}), ({}, {"unresolved": None}, {})),
    (
        DenialCode.COOLDOWN,
        ({}, {"last_order_at": NOW - 24 * HOUR + SECOND}, {}),
        ({}, {"last_order_at": NOW - 24 * HOUR}, {}),
    ),
    (DenialCode.COOLDOWN, ({}, {"last_order_at": NOW + HOUR}, {}), ({}, {"last_order_at": NOW}, {"cooldown_hours": 0})),
    (DenialCode.DUPLICATE, ({}, {"open_order": "o1"}, {}), ({}, {"open_order": None}, {})),
    (DenialCode.ORDER_RATE, ({}, {"recent_orders": 30}, {}), ({}, {"recent_orders": 29}, {})),
    (
        DenialCode.ORDER_RATE,
        ({}, {"recent_orders": 30, "account": HOLDS}, {}),
        (SELL, {"recent_orders": 30, "account": HOLDS}, {}),
    ),
    (DenialCode.TRADES_PER_DAY, ({}, {"orders_today": 50}, {}), ({}, {"orders_today": 49}, {})),
    (DenialCode.CONSECUTIVE_REJECTIONS, ({}, {"rejections": 3}, {}), ({}, {"rejections": 2}, {})),
    (
        DenialCode.CONSECUTIVE_REJECTIONS,
        ({}, {"rejections": 3, "account": account(AAA=10)}, {}),
        (SELL, {"rejections": 3, "account": account(AAA=10)}, {}),
    ),
    (DenialCode.MARKET_CLOSED, ({}, {"market_open": False, "next_open": NOW + HOUR}, {}), ({}, {}, {})),
    (DenialCode.MARKET_CLOSED, ({}, {"market_open": None}, {}), ({}, {"market_open": True}, {})),
    # Alpaca takes orders for the opening until 9:28, for the closing until 15:50, and for the next day from 19:00.
    (DenialCode.MARKET_CLOSED, auction("opg", "09:28"), auction("opg", "09:27:59")),
    (DenialCode.MARKET_CLOSED, auction("opg", "18:59:59"), auction("opg", "19:00")),
    (DenialCode.MARKET_CLOSED, auction("cls", "15:50"), auction("cls", "15:49:59")),
    (DenialCode.MARKET_CLOSED, auction("cls", "18:59:59"), auction("cls", "19:00")),
    (DenialCode.MARKET_CLOSED, auction("day", "09:27:59"), auction("opg", "09:27:59")),
    (DenialCode.MARKET_CLOSED, auction("opg", "09:27", market_open=None), auction("opg", "09:27")),
    # Paper puts it into the next auction instead.
    (DenialCode.MARKET_CLOSED, auction("cls", "15:55"), auction("cls", "15:55", "paper")),
    (DenialCode.MARKET_CLOSED, auction("opg", "12:00"), auction("opg", "12:00", "paper")),
]
