"""Tool answers as the tools give them, made of rows that a test states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Row = dict[str, Any]

# Calm in every rule, within every bound of the technical and the options lens, no catalyst.
CALM: Row = {
    "date": "2010-08-12",
    "close": 50.0,
    "sessions": 240,
    "momentum20": 0.04,
    "momentum60": 0.06,
    "rsi14": 58.0,
    "fromHigh": -0.03,
    "highSessions": 240,
    "volatility20": 0.25,
    "drawdown60": -0.06,
    "volumeRatio": 1.0,
    "gap": 0.001,
    "change": 0.004,
    "sma20": 0.01,
    "sma50": 0.02,
}
SOUND: Row = {
    "trailingPE": 15.0,
    "profitMargin": 0.2,
    "revenueGrowth": 0.1,
    "debtToEquityPercent": 60.0,
    "recommendationMean": 2.0,
}


class Desk:
    """The far side of tool calls: signals, movers, overviews, headlines and a portfolio by symbol."""

    def __init__(self) -> None:
        self.signals: dict[str, Row] = {}
        self.atr: dict[str, float] = {}
        self.movers: dict[str, list[Row]] = {"up": [], "down": []}
        self.overviews: dict[str, Row] = {}
        self.volatilities: dict[str, Row] = {}
        self.headlines: list[Row] | None = None
        self.portfolio: Row = {"cash": 0.0, "equity": 0.0, "buyingPower": 0.0, "positions": []}
        self.missing: list[Row] = []

    def tools(self, *names: str) -> Mapping[str, Callable[[Row], Row]]:
        every = {
            "signals_get": self._signals,
            "technicals_get": self._technicals,
            "sp500_movers": self._movers,
            "company_get": self._overviews,
            "volatility_get": self._volatilities,
            "news_list": self._news,
            "portfolio_get": lambda asked: {"asOf": "t", "available": True, "portfolio": self.portfolio, "missing": []},
        }
        return {name: every[name] for name in names} if names else every

    def _signals(self, asked: Row) -> Row:
        rows = [{"symbol": symbol, **self.signals[symbol]} for symbol in asked["symbols"] if symbol in self.signals]
        return self._frame("signals", rows)

    def _movers(self, asked: Row) -> Row:
        rows = self.movers[asked["direction"]]
        own = [row for row in rows if row["symbol"] in asked.get("symbols", ())]
        frame = self._frame("movers", rows[: asked["limit"]])
        return {**frame, "asked": own, "notCompared": {"count": 0, "symbols": []}}

    def _technicals(self, asked: Row) -> Row:
        rows = [
            {"symbol": symbol, "close": self.signals[symbol]["close"], "atr14": self.atr.get(symbol, 1.0)}
            for symbol in asked["symbols"]
            if symbol in self.signals
        ]
        return self._frame("technicals", rows)

    def _overviews(self, asked: Row) -> Row:
        rows = []
        for symbol in asked["symbols"]:
            found = self.overviews.get(symbol, {})
            kept = {name: found[name] for name in asked["parts"] if name in found}
            rows.append({"symbol": symbol, "name": symbol, "lastClose": 50.0, **kept})
        known = any(len(row) > 3 for row in rows)
        frame = self._frame("companies", rows, *(() if known else asked["parts"]))
        return {**frame, "cite": "kqz-e", "available": known}

    def _volatilities(self, asked: Row) -> Row:
        known = [symbol for symbol in asked["symbols"] if symbol in self.volatilities]
        rows = [{"symbol": symbol, **self.volatilities[symbol]} for symbol in known]
        return self._frame("volatilities", rows, *(() if rows else ["option chain"]))

    def _news(self, asked: Row) -> Row:
        if self.headlines is None:
            return self._frame("headlines", [], "headlines")
        # All of them, asked for or not: a rule has to look at its own symbol's alone.
        return self._frame("headlines", self.headlines)

    def _frame(self, key: str, rows: list[Row], *absent: str) -> Row:
        gone = [{"what": what, "reason": "not available: configure DESK_MARKET=yahoo"} for what in absent]
        return {"asOf": "t", "source": "test", "available": bool(rows), key: rows, "missing": [*gone, *self.missing]}
