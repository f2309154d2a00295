"""The tool of its snapshot."""

from __future__ import annotations

from langchain_core.tools import tool

from tradingagents.dataflows.market_data_validator import build_verified_market_snapshot


@tool
def get_verified_market_snapshot(symbol: str, curr_date: str, look_back_days: int = 30) -> str:
    """Return verified figures of a symbol."""
    return build_verified_market_snapshot(symbol, curr_date, look_back_days)
