"""Its snapshot of prices."""

from __future__ import annotations

from tradingagents.dataflows.stockstats_utils import load_ohlcv


def build_verified_market_snapshot(symbol: str, curr_date: str, look_back_days: int = 30) -> str:
    return load_ohlcv(symbol, curr_date)[:look_back_days]
