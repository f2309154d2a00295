"""chart_study_get: swings, Fibonacci levels, support and resistance, trendlines, trend and patterns of many symbols."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from chordesk.tools.charts.frames import Interval, frames
from chordesk.tools.charts.levels import PriceLevel
from chordesk.tools.charts.study import Study, study_of
from chordesk.tools.charts.swings import Swing
from chordesk.tools.charts.trendlines import Trendline
from chordesk.tools.decimals import rounded
from chordesk.tools.market.intraday import stamped
from chordesk.tools.registry import Arguments, Gaps, Symbol, ToolContext, ToolSpec, payload

Section = Literal["swings", "fib", "levels", "trend", "patterns"]
SECTIONS: tuple[Section, ...] = get_args(Section)
SESSIONS, LOOKBACK, LEVELS = 126, 5, 5
MOST_SYMBOLS = 30
INTERVALS = "day, week, hour or 15min: what one bar stands for; hours of at most 60 sessions, 15min of 20"


def distinct(values: list[Any]) -> list[Any]:
    """Return the values once each, in their order."""
    return list(dict.fromkeys(values))


class ChartArguments(Arguments):
    """Arguments that choose the bars of a chart and how its swings are found."""

    sessions: int = Field(SESSIONS, ge=20, le=504, description="daily sessions to look back; a week is 5 of them")
    interval: Interval = Field("day", description=INTERVALS)
    lookback: int = Field(LOOKBACK, ge=2, le=20, description="bars on each side that a swing exceeds")


class StudyArguments(ChartArguments):
    symbols: Annotated[
        list[Symbol],
        Field(min_length=1, max_length=MOST_SYMBOLS, description=f"1 to {MOST_SYMBOLS} tickers, all in one call"),
        AfterValidator(distinct),
    ]
    levels: int = Field(LEVELS, ge=1, le=10, description="at most so many supports, resistances and zones")
    sections: Annotated[
        list[Section],
        Field(min_length=1, max_length=len(SECTIONS), description="what to give; all of them if not named"),
        AfterValidator(distinct),
    ] = Field(list(SECTIONS), validate_default=True)


def chart_study_get(context: ToolContext, arguments: StudyArguments) -> dict[str, Any]:
    """Return each symbol's study; prices in the listing's currency per share."""
    gaps, rows = Gaps(), []
    for frame in frames(context, arguments.symbols, gaps, arguments.sessions, arguments.interval):
        study = study_of(frame, arguments.lookback, arguments.levels)
        note_lacks(study, gaps)
        rows.append(study_row(study, arguments.sections))
    return payload(context, gaps, available=bool(rows), studies=rows)


def note_lacks(study: Study, gaps: Gaps) -> None:
    for what, reason in study.lacks():
        gaps.add(what, reason, study.frame.symbol)


def study_row(study: Study, sections: list[Section]) -> dict[str, Any]:
    """Return a study as the model gets it: the head, then the sections in their order."""
    made = {"swings": _swings, "fib": _fib, "levels": _levels, "trend": _trend, "patterns": _patterns}
    parts = [made[name](study) for name in SECTIONS if name in sections]
    return {**head(study), **{key: value for part in parts for key, value in part.items()}}


def head(study: Study) -> dict[str, Any]:
    """Return the bars that a study rests on, and its close."""
    frame = study.frame
    dates = frame.bars.dates
    row = {
        "symbol": frame.symbol,
        "interval": frame.interval,
        "bars": len(dates),
        "from": stamped(dates[0]),
        "to": stamped(dates[-1]),
        "close": rounded(study.close),
        "atr14": rounded(study.atr),
    }
    return row | frame.flags


def _swings(study: Study) -> dict[str, Any]:
    rows = [{**_swing(one), "kind": one.kind, "confirmed": stamped(one.confirmed)} for one in study.swings]
    return {"swings": rows}


def _swing(one: Swing) -> dict[str, Any]:
    return {"id": one.id, "date": stamped(one.date), "price": rounded(one.price)}


def _fib(study: Study) -> dict[str, Any]:
    if (fib := study.fib) is None:
        return {"fib": None}
    levels = {
        name: [{"id": one.id, "price": rounded(one.price)} for one in some]
        for name, some in (("retracements", fib.retracements), ("extensions", fib.extensions))
    }
    return {"fib": {"direction": fib.direction, "high": _swing(fib.high), "low": _swing(fib.low), **levels}}


def _levels(study: Study) -> dict[str, Any]:
    levels, lines = study.levels, study.trendlines
    zones = [{"id": one.id, "price": rounded(one.price), "members": list(one.members)} for one in study.confluence]
    return {
        "support": [_level(one) for one in levels.support] if levels is not None else None,
        "resistance": [_level(one) for one in levels.resistance] if levels is not None else None,
        "trendlines": [_line(one) for one in lines] if lines is not None else None,
        "confluence": zones,
    }


def _level(one: PriceLevel) -> dict[str, Any]:
    return {
        "id": one.id,
        "price": rounded(one.price),
        "touches": one.touches,
        "lastTouch": stamped(one.last_touch),
        "strength": one.strength,
    }


def _line(one: Trendline) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.kind,
        "from": stamped(one.start.date),
        "to": stamped(one.end.date),
        "slope": rounded(one.slope, 6),
        "touches": one.touches,
        "now": rounded(one.now),
    }


def _trend(study: Study) -> dict[str, Any]:
    trend, far = study.trend, study.extension
    found = None
    if trend is not None:
        found = {
            "direction": trend.direction,
            "quality": trend.quality,
            "r2": rounded(trend.r2, 6),
            "slopeYear": rounded(trend.slope_year),
            "score": rounded(trend.score),
            "bars": trend.bars,
        }
    return {
        "adx14": rounded(study.adx),
        "trend": found,
        "extension": {"atr": rounded(far.atr, 2), "risk": far.risk} if far is not None else None,
    }


def _patterns(study: Study) -> dict[str, Any]:
    if study.patterns is None:
        return {"patterns": None}
    rows = [{"date": stamped(one.date), "name": one.name, "direction": one.direction} for one in study.patterns]
    return {"patterns": rows}


CHART_STUDY_GET = ToolSpec(
    name="chart_study_get",
    description=(
        "Chart figures of up to 30 symbols from daily, weekly or intraday bars, each level with an id and price units: "
        "swings (confirmed `lookback` bars later), fib (retracements F, extensions E of the largest move of swings), "
        "support S and resistance R (clusters of swings; 3 touches strong, 2 moderate), trendlines TS and TR, "
        "confluence C (levels of two kinds within half an ATR), trend (r2 and slopeYear of log closes, adx14), "
        "extension (close above the nearest support in ATR), candlestick patterns of the last 10 bars. Name a level by "
        "its id: code fills its price. Null is unknown, and `missing` has the reason. Bars cannot be passed."
    ),
    hint="swings, Fibonacci levels, support and resistance, trendlines, trend, candlestick patterns; `symbols`.",
    arguments=StudyArguments,
    function=chart_study_get,
)
