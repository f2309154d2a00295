"""Posts of people."""

from __future__ import annotations

from tradingagents.dataflows.live import fetch


def fetch_stocktwits_messages(ticker: str, limit: int = 30) -> str:
    return fetch("stocktwits", ticker, limit)


def fetch_reddit_posts(ticker: str) -> str:
    return fetch("reddit", ticker)
