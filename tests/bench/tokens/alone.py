"""TradingAgents by itself in a program, with its own client of OpenAI's API and the desk's data of a day.

Run as a process, with its checkout on the path; prints one JSON line with the rating of each ticker.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
from importlib import import_module
from pathlib import Path
from typing import Any

from chordesk.agents.tradingagents.data import DeskData
from chordesk.agents.tradingagents.provider import TickerGraph, answering, config_of, install, options_of
from chordesk.models.settings.sources import load_settings
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.factory import build_market
from chordesk.tools.registry import ToolContext

ANALYSTS = ("market", "social", "news", "fundamentals")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="of the model")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("tickers", nargs="+")
    given = parser.parse_args()
    os.environ["OPENAI_API_KEY"] = "none is needed here"
    settings = load_settings({}, given.home)
    market = build_market(settings)
    context = ToolContext(market, market.clock, None, settings, settings.account, None)
    install(options_of(settings))
    config = {**config_of("gpt-5.5", 1, str(given.home)), "llm_provider": "openai", "backend_url": given.url}
    with answering(DeskData(context)):
        day = exchange_day(market.clock.now())
        print(json.dumps({ticker: rating(ticker, day, config) for ticker in given.tickers}), flush=True)


def rating(ticker: str, day: dt.date, config: dict[str, Any]) -> str:
    """Return the rating that a ticker's graph ends with: one round of each debate, nothing of earlier runs."""
    made = import_module("tradingagents.graph.trading_graph").TradingAgentsGraph(ANALYSTS, config=config)
    graph = TickerGraph(ticker, made)
    state = graph.compiled.invoke(graph.begin(str(day), ""), {"recursion_limit": 100})
    return str(made.process_signal(state["final_trade_decision"]))


if __name__ == "__main__":
    main()
