"""From prices to verdicts: a changed price series changes the verdict of its symbol, through the real indicators."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest

from chordesk.tools.market.prices import DailyBars, History, history_of
from chordesk.tools.model_tools.signals import symbol_signals, symbol_technicals
from tests.agents.rulebook.turns import ask, converse

SESSIONS = 240
Series = dict[str, Any]


def calm(sessions: int = SESSIONS) -> Series:
    """A slow rise with days of +1.0 % and -0.8 %, open at the last close, even volume."""
    moves = np.where(np.arange(sessions) % 2 == 0, 0.010, -0.008)
    return candles(100 * np.cumprod(1 + moves))


def candles(close: Any) -> Series:
    opened = np.concatenate(([close[0]], close[:-1]))
    high, low = np.maximum(opened, close) * 1.001, np.minimum(opened, close) * 0.999
    return {"open": opened, "high": high, "low": low, "close": close, "volume": np.full(len(close), 1e6)}


def moved(last: Any) -> Series:
    """The calm series with the moves of its last sessions replaced."""
    close = calm()["close"].copy()
    close[-len(last) :] = close[-len(last) - 1] * np.cumprod(1 + np.asarray(last))
    return candles(close)


def dipped() -> Series:
    close = calm()["close"].copy()
    close[-45:-40] *= 0.78
    return candles(close)


def changed(key: str, place: int, factor: float) -> Series:
    series = calm()
    series[key] = series[key].copy()
    series[key][place] *= factor
    return series


def wide() -> Series:
    series = calm()
    return {**series, "high": series["high"] * 1.03, "low": series["low"] * 0.97}


CASES = [
    pytest.param("quick", "history", lambda: calm(50), "REJECT", id="history"),
    pytest.param("quick", "overbought", lambda: moved([0.01] * 30), "REJECT", id="overbought"),
    pytest.param("quick", "falling", lambda: moved([-0.004] * 20), "CAUTION", id="falling"),
    pytest.param("quick", "drawdown", dipped, "CAUTION", id="drawdown"),
    pytest.param("quick", "volatility", lambda: moved([0.035, -0.034] * 10), "CAUTION", id="volatility"),
    pytest.param("risk", "off_high", lambda: changed("high", -100, 1.5), "CAUTION", id="off_high"),
    pytest.param("risk", "volume_spike", lambda: changed("volume", -1, 4.0), "CAUTION", id="volume_spike"),
    pytest.param("risk", "gap", lambda: changed("open", -1, 1.05), "CAUTION", id="gap"),
    pytest.param("risk", "atr", wide, "CAUTION", id="atr"),
]


def history(symbol: str, series: Series) -> History:
    count = len(series["close"])
    days = [dt.date(2010, 8, 12) - dt.timedelta(days=back) for back in range(count - 1, -1, -1)]
    return history_of(DailyBars(symbol=symbol, dates=days, adjusted=True, **series), days)


def tools(market: dict[str, Series]) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    def answer(key: str, figures: Callable[[History], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def call(asked: dict[str, Any]) -> dict[str, Any]:
            found = [figures(history(symbol, market[symbol])) for symbol in asked["symbols"]]
            rows = [row.model_dump(mode="json", by_alias=True) for row in found]
            return {"asOf": "2010-08-12T15:55:00-04:00", "available": True, key: rows, "missing": []}

        return call

    return {"signals_get": answer("signals", symbol_signals), "technicals_get": answer("technicals", symbol_technicals)}


def judge(http: httpx.Client, role: str, market: dict[str, Series], symbol: str) -> dict[str, Any]:
    return converse(http, role, [ask({"symbol": symbol})], tools(market)).answer


@pytest.mark.parametrize(("role", "rule", "series", "expected"), CASES)
def test_changed_prices_change_that_symbols_verdict(
    http: httpx.Client, role: str, rule: str, series: Callable[[], Series], expected: str
) -> None:
    market = {"AA": calm(), "BB": calm()}
    assert judge(http, role, market, "AA")["verdict"] == "CONFIRMED"
    market["AA"] = series()
    answer = judge(http, role, market, "AA")
    assert answer["verdict"] == expected, answer
    assert any(risk.startswith(f"Rule {rule}:") for risk in answer["keyRisks"])
    assert judge(http, role, market, "BB")["verdict"] == "CONFIRMED"


def test_changed_prices_change_what_a_lens_puts_forward(http: httpx.Client) -> None:
    subject = {"symbols": ["AA", "BB"], "constraints": {"stockOnly": True}}
    market = {"AA": moved([0.010, -0.006] * 10), "BB": moved([-0.004] * 20)}

    def named() -> list[str]:
        answer = converse(http, "screener_technical", [ask(subject)], tools(market)).answer
        return [row["symbol"] for row in answer["candidates"]]

    assert named() == ["AA"]
    market["BB"], market["AA"] = market["AA"], market["BB"]
    assert named() == ["BB"]
