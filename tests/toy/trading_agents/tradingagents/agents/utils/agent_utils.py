"""Its tools, and the company of a ticker."""

from __future__ import annotations

from collections.abc import Mapping

from langchain_core.tools import tool

from tradingagents.dataflows.interface import route_to_vendor
from tradingagents.dataflows.live import fetch


@tool
def get_stock_data(symbol: str, start_date: str, end_date: str) -> str:
    """Return prices of a symbol."""
    return route_to_vendor("get_stock_data", symbol, start_date, end_date)


@tool
def get_indicators(symbol: str, indicator: str, curr_date: str, look_back_days: int = 30) -> str:
    """Return one indicator of a symbol."""
    return route_to_vendor("get_indicators", symbol, indicator, curr_date, look_back_days)


@tool
def get_news(ticker: str, start_date: str, end_date: str) -> str:
    """Return news of a symbol."""
    return route_to_vendor("get_news", ticker, start_date, end_date)


@tool
def get_global_news(curr_date: str, look_back_days: int | None = None, limit: int | None = None) -> str:
    """Return news of the world."""
    return route_to_vendor("get_global_news", curr_date, look_back_days, limit)


@tool
def get_macro_indicators(indicator: str, curr_date: str, look_back_days: int | None = None) -> str:
    """Return a series of the economy."""
    return route_to_vendor("get_macro_indicators", indicator, curr_date, look_back_days)


@tool
def get_prediction_markets(topic: str, limit: int | None = None) -> str:
    """Return odds of events."""
    return route_to_vendor("get_prediction_markets", topic, limit)


@tool
def get_fundamentals(ticker: str, curr_date: str) -> str:
    """Return figures of a company."""
    return route_to_vendor("get_fundamentals", ticker, curr_date)


@tool
def get_balance_sheet(ticker: str, freq: str = "quarterly", curr_date: str | None = None) -> str:
    """Return a balance sheet."""
    return route_to_vendor("get_balance_sheet", ticker, freq, curr_date)


def resolve_instrument_identity(ticker: str) -> Mapping[str, str]:
    return {"company_name": fetch("identity", ticker)}
