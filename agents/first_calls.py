"""What a role's every turn asks its tools.

Code asks it before the turn (`Role.first`), so that the model is called once where it needs no more; the rulebook's
policies plan by the same calls. A turn may still ask for other things.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

OVERVIEW_BATCH = 50  # companies in one overview call: more would not fit the app-server's limit on an answer
MOVERS = 25  # requested length of the movers list
DECLINERS = 1  # requested length of the list of decliners, beside the name's own change
HEADLINES = 10  # requested headlines

Brief = Mapping[str, Any]
Asked = tuple[str, Mapping[str, Any]]


def _one(brief: Brief) -> dict[str, Any]:
    return {"symbols": [str(brief.get("symbol", ""))]}


def _signals(brief: Brief) -> Asked:
    return "signals_get", _one(brief)


def _technicals(brief: Brief) -> Asked:
    return "technicals_get", _one(brief)


def _news(brief: Brief) -> Asked:
    return "news_list", {**_one(brief), "limit": HEADLINES}


def _company(brief: Brief, *parts: str) -> Asked:
    return "company_get", {**_one(brief), "parts": list(parts)}


def quick(brief: Brief) -> Sequence[Asked]:
    return [_signals(brief)]


def overview(brief: Brief) -> Sequence[Asked]:
    return [_company(brief, "fundamentals", "earnings", "ratings"), _signals(brief)]


def fundamentals(brief: Brief) -> Sequence[Asked]:
    return [_company(brief, "fundamentals", "valuation", "statements", "earnings", "ratings"), _news(brief)]


def risk(brief: Brief) -> Sequence[Asked]:
    return [_signals(brief), _technicals(brief)]


def catalyst(brief: Brief) -> Sequence[Asked]:
    movers = "sp500_movers", {"direction": "down", "limit": DECLINERS, **_one(brief)}
    return [_company(brief, "earnings", "news"), _news(brief), movers]


def skeptic(brief: Brief) -> Sequence[Asked]:
    return [_signals(brief), _technicals(brief), _news(brief)]


# Of the price figures those that a lens judges by: all of them are 100 tokens a name.
_FIGURES = {
    "catalyst": ["momentum20", "volumeRatio", "gap", "change"],
    "options": ["momentum20", "momentum60", "rsi14", "volatility20", "drawdown60"],
    "technical": ["momentum20", "momentum60", "rsi14", "fromHigh", "volatility20", "drawdown60", "sma20", "sma50"],
}


def shard_signals(brief: Brief) -> Sequence[Asked]:
    """The price figures of all names of a shard; all figures for a lens of others."""
    figures = _FIGURES.get(str(brief.get("lens")))
    return [("signals_get", {"symbols": _symbols(brief), **({"figures": figures} if figures else {})})]


def shard_movers(brief: Brief) -> Sequence[Asked]:
    return [*shard_signals(brief), ("sp500_movers", {"direction": "up", "limit": MOVERS})]


def shard_companies(brief: Brief) -> Sequence[Asked]:
    """The company figures of a shard's first half: the rest is worth a call only where the source had any."""
    return [companies(_symbols(brief)[:OVERVIEW_BATCH])]


def companies(symbols: Sequence[str]) -> Asked:
    return "company_get", {"symbols": list(symbols), "parts": ["fundamentals", "earnings", "ratings"]}


def account(brief: Brief) -> Sequence[Asked]:
    """The portfolio, and the price figures of what may be bought."""
    rows = [row for row in brief.get("verdicts") or () if isinstance(row, Mapping) and row.get("symbol")]
    buys = [str(row["symbol"]) for row in rows if row.get("rating") == "BUY"]
    return [("portfolio_get", {}), *([("signals_get", {"symbols": buys})] if buys else [])]


def _symbols(brief: Brief) -> list[str]:
    found = brief.get("symbols")
    return [symbol for symbol in found if isinstance(symbol, str)] if isinstance(found, list) else []


# Of a lens without an entry the price figures are asked.
LENSES = {"catalyst": shard_movers, "fundamental": shard_companies}
