"""Its prices."""

from __future__ import annotations

from tradingagents.dataflows.live import fetch


def load_ohlcv(symbol: str, curr_date: str) -> str:
    return fetch("prices", symbol, curr_date)
