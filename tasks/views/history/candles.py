"""The bars of a symbol with indicators beside them, as a chart draws them: nothing later than the market's now."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, get_args

from chordesk.models.answers import Frozen
from chordesk.tools.charts.frames import Frame, Interval, frames
from chordesk.tools.figures import load_talib
from chordesk.tools.market.prices import stamped
from chordesk.tools.market.protocol import Bars, Floats
from chordesk.tools.registry import Gaps, ToolContext

Indicator = Literal[
    "sma20", "sma50", "sma200", "ema12", "ema26", "bollinger", "rsi14", "macd", "atr14", "adx14"
]  # fmt: skip
INDICATORS: tuple[Indicator, ...] = get_args(Indicator)


class Candle(Frozen):
    """One bar; null where the market has no figure. at: its day, of a week its last one, of a part of a session its
    start in New York. volume in shares."""

    at: str
    open: float | None
    high: float | None
    low: float | None
    close: float | None
    volume: int | None


class Gap(Frozen):
    """Data that are missing, and why."""

    what: str
    reason: str


class CandleChart(Frozen):
    """Bars in ascending order, without those of sessions in which the symbol has none. as_of: the market's time;
    incomplete: the last bar goes on. indicators: by line, a value for each bar, null before it has one."""

    symbol: str
    market: str
    as_of: dt.datetime
    interval: Interval
    adjusted: bool | None
    incomplete: bool
    bars: list[Candle]
    indicators: dict[str, list[float | None]]
    missing: list[Gap]


def candles(
    context: ToolContext, symbol: str, sessions: int, interval: Interval, wanted: Collection[Indicator]
) -> CandleChart:
    """Return the bars of the last so many sessions of the context's market. Without any, `missing` has the reason."""
    gaps = Gaps()
    frame = next(frames(context, [symbol], gaps, sessions, interval, closes_alone=True), None)
    found: dict[str, Any] = {"adjusted": None, "incomplete": False, "bars": [], "indicators": {}}
    if frame is not None:
        found = _drawn(frame, wanted)
    return CandleChart(
        symbol=symbol,
        market=context.market.name,
        as_of=context.clock.now(),
        interval=interval,
        missing=[Gap(what=str(row["what"]), reason=str(row["reason"])) for row in gaps.rows()],
        **found,
    )


def _drawn(frame: Frame, wanted: Collection[Indicator]) -> dict[str, Any]:
    bars = frame.shown
    places = [at for at, close in enumerate(bars.close) if math.isfinite(close)]
    lines = {name: values for one in INDICATORS if one in wanted for name, values in _LINES[one](frame.long).items()}
    return {
        "adjusted": bars.adjusted,
        "incomplete": frame.incomplete,
        "bars": [_candle(bars, at) for at in places],
        "indicators": {name: _aligned(values, len(bars.dates), places) for name, values in lines.items()},
    }


def _candle(bars: Bars, at: int) -> Candle:
    opened, high, low, close = (_figure(column[at]) for column in (bars.open, bars.high, bars.low, bars.close))
    volume = bars.volume[at]
    shares = int(volume) if math.isfinite(volume) else None
    return Candle(at=str(stamped(bars.dates[at])), open=opened, high=high, low=low, close=close, volume=shares)


def _aligned(values: Floats, count: int, places: list[int]) -> list[float | None]:
    """Return an indicator of the bars without a hole at the places of the bars drawn: both end with the same bar."""
    back = len(values) - count
    return [_figure(values[at + back]) if at + back >= 0 else None for at in places]


def _figure(value: float) -> float | None:
    return round(float(value), 4) if math.isfinite(value) else None


def _bollinger(bars: Bars) -> dict[str, Floats]:
    upper, middle, lower = load_talib().BBANDS(bars.close, 20)
    return {"bollinger_upper": upper, "bollinger_middle": middle, "bollinger_lower": lower}


def _macd(bars: Bars) -> dict[str, Floats]:
    line, signal, histogram = load_talib().MACD(bars.close)
    return {"macd": line, "macd_signal": signal, "macd_histogram": histogram}


def _average(name: str, periods: int) -> Callable[[Bars], dict[str, Floats]]:
    kind = name[:3].upper()
    return lambda bars: {name: getattr(load_talib(), kind)(bars.close, periods)}


def _ranged(name: str, periods: int) -> Callable[[Bars], dict[str, Floats]]:
    kind = name[:3].upper()
    return lambda bars: {name: getattr(load_talib(), kind)(bars.high, bars.low, bars.close, periods)}


# TA-Lib's definitions and usual periods, as `tools/model_tools/signals.py` has them.
_LINES: Mapping[Indicator, Callable[[Bars], dict[str, Floats]]] = {
    "sma20": _average("sma20", 20),
    "sma50": _average("sma50", 50),
    "sma200": _average("sma200", 200),
    "ema12": _average("ema12", 12),
    "ema26": _average("ema26", 26),
    "bollinger": _bollinger,
    "rsi14": _average("rsi14", 14),
    "macd": _macd,
    "atr14": _ranged("atr14", 14),
    "adx14": _ranged("adx14", 14),
}
