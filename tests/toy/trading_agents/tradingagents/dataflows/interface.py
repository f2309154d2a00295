"""Its vendors by method, and the way to the configured one."""

from __future__ import annotations

from functools import partial
from typing import Any

from tradingagents.dataflows.config import get_config
from tradingagents.dataflows.live import fetch

CATEGORIES = {
    "core_stock_apis": ("get_stock_data",),
    "technical_indicators": ("get_indicators",),
    "fundamental_data": ("get_fundamentals", "get_balance_sheet", "get_cashflow", "get_income_statement"),
    "news_data": ("get_news", "get_global_news", "get_insider_transactions"),
    "macro_data": ("get_macro_indicators",),
    "prediction_markets": ("get_prediction_markets",),
}
VENDOR_METHODS: dict[str, dict[str, Any]] = {
    method: {"live": partial(fetch, method)} for methods in CATEGORIES.values() for method in methods
}


def route_to_vendor(method: str, *given: Any) -> str:
    category = next(name for name, methods in CATEGORIES.items() if method in methods)
    vendor = get_config()["data_vendors"][category]
    return str(VENDOR_METHODS[method][vendor](*given))
