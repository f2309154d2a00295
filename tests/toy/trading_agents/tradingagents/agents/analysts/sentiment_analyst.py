"""Its sentiment analyst, which is given its data in the prompt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tradingagents.agents.utils.agent_utils import get_news
from tradingagents.dataflows.posts import fetch_reddit_posts, fetch_stocktwits_messages


def sentiment_analyst(quick: Any, ask: Callable[..., str], schema: type) -> Callable[[Any], dict[str, Any]]:
    """Return the node of the sentiment analyst."""

    def node(state: Any) -> dict[str, Any]:
        ticker, day = state["company_of_interest"], state["trade_date"]
        blocks = [get_news.func(ticker, day, day), fetch_stocktwits_messages(ticker), fetch_reddit_posts(ticker)]
        text = ask(quick, schema, "\n".join([f"Judge the mood of '{ticker}' by:", *blocks]))
        return {"sentiment_report": text}

    return node
