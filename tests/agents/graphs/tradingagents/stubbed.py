"""A program for `python -m agents.tradingagents`: a real TradingAgents with made-up data runs its main.py, as the
argument names it, or its command line.

What it fetches from vendors and around them is answered; its questions on the terminal too. Its agents, its graph and
its tools are its own.
"""

from __future__ import annotations

import runpy
import socket
import sys
from typing import Any, NoReturn

import pandas as pd

LOOPBACK = ("127.0.0.1", "localhost")


def closed(_self: Any, address: Any) -> NoReturn:
    raise OSError(f"a test reaches for {address}")


def prices(symbol: str, curr_date: str) -> pd.DataFrame:
    """Return two hundred days of made-up prices up to a date."""
    days = pd.bdate_range(end=curr_date, periods=200)
    close = pd.Series(range(100, 300), dtype=float)
    return pd.DataFrame(
        {"Date": days, "Open": close, "High": close + 1, "Low": close - 1, "Close": close, "Volume": 1000}
    )


def stub() -> None:
    """Put answers in place of what TradingAgents fetches."""
    from tradingagents.agents.analysts import sentiment_analyst
    from tradingagents.dataflows import interface, market_data_validator
    from tradingagents.default_config import DEFAULT_CONFIG
    from tradingagents.graph import trading_graph

    for name, vendors in interface.VENDOR_METHODS.items():
        vendors["stub"] = lambda *_given, name=name, **_more: f"figures of {name}"
    DEFAULT_CONFIG["data_vendors"] = dict.fromkeys(DEFAULT_CONFIG["data_vendors"], "stub")
    market_data_validator.load_ohlcv = prices
    sentiment_analyst.fetch_stocktwits_messages = lambda *_given, **_more: "no messages"
    sentiment_analyst.fetch_reddit_posts = lambda *_given, **_more: "no posts"
    trading_graph.resolve_instrument_identity = lambda _ticker: {"company_name": "Apple Inc."}
    trading_graph.TradingAgentsGraph._fetch_returns = lambda *_given, **_more: (None, None, None)


def answer_questions() -> None:
    """Run its command line with answers in place of the questions that no variable answers."""
    import cli.main as cli
    from cli.models import AnalystType

    cli.fetch_announcements = lambda: {"announcements": [], "require_attention": False}
    cli.display_announcements = lambda *_given: None
    cli.get_ticker = lambda: "AAPL"
    cli.get_analysis_date = lambda: "2024-05-10"
    cli.select_analysts = lambda _kind: list(AnalystType)
    cli.app(args=[])


if __name__ == "__main__":
    real = socket.socket.connect
    socket.socket.connect = lambda self, address: (  # type: ignore[method-assign]
        real(self, address) if self.family == socket.AF_UNIX or address[0] in LOOPBACK else closed(self, address)
    )
    stub()
    if sys.argv[1:]:
        runpy.run_path(sys.argv[1], run_name="__main__")
    else:
        answer_questions()
