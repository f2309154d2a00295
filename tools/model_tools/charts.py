"""price_history_get, chart_study_get and chart_render: bars, what is computed from them, and their picture."""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import math
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, get_args

import numpy as np
from pydantic import Field
from sqlmodel import col, select
from typing_extensions import TypedDict

from chordesk.models.errors import DeskError, NotFound, UsageError
from chordesk.models.exchanges import clock_of, exchange_code
from chordesk.models.market import parse_contract
from chordesk.models.plans import PositionPlan
from chordesk.models.states import ORDER_OPEN, OrderState
from chordesk.models.tables.orders import Order, Position
from chordesk.tools.charts import study as of
from chordesk.tools.charts.frames import INTRADAY_SESSIONS, PERIODS, SESSIONS_A_WEEK, Frame, Interval, frames
from chordesk.tools.charts.lines import PriceLevel, Swing, Trendline
from chordesk.tools.charts.study import OVERLAYS, Overlay, Study, study_of
from chordesk.tools.decimals import finite, rounded
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.earnings import split
from chordesk.tools.market.prices import actions_of, stamped
from chordesk.tools.market.protocol import Bars, EarningsSource, Floats
from chordesk.tools.position_plans import contract_of_order, plan_now
from chordesk.tools.prices.price_panel import panel_of
from chordesk.tools.registry import (
    DISTINCT,
    Answer,
    Arguments,
    Gaps,
    Symbol,
    ToolContext,
    ToolImage,
    ToolSpec,
    payload,
    tickers,
)
from chordesk.tools.scoring.market_regime import strength_line

Section = Literal["swings", "fib", "levels", "trend", "patterns"]
SECTIONS: tuple[Section, ...] = get_args(Section)
SESSIONS, LOOKBACK, LEVELS = 126, 5, 5
MOST_STUDY_SYMBOLS = 30
INTERVALS = "day, week, hour or 15min: what one bar stands for; hours of at most 60 sessions, 15min of 20"


class ChartArguments(Arguments):
    sessions: int = Field(SESSIONS, ge=20, le=504, description="daily sessions to look back; a week is 5 of them")
    interval: Interval = Field("day", description=INTERVALS)
    lookback: int = Field(LOOKBACK, ge=2, le=20, description="bars on each side that a swing exceeds")


class StudyArguments(ChartArguments):
    symbols: Annotated[list[Symbol], tickers(MOST_STUDY_SYMBOLS), DISTINCT]
    levels: int = Field(LEVELS, ge=1, le=10, description="at most so many supports, resistances and zones")
    sections: Annotated[
        list[Section],
        Field(min_length=1, max_length=len(SECTIONS), description="what to give; all of them if not named"),
        DISTINCT,
    ] = Field(list(SECTIONS), validate_default=True)


Head = TypedDict(
    "Head",
    {
        "symbol": str,
        "interval": Interval,
        "bars": int,
        "from": str,
        "to": str,
        "close": float | None,
        "atr14": float | None,
        "weekIncomplete": NotRequired[bool],
        "barIncomplete": NotRequired[bool],
    },
)


class At(TypedDict):
    id: str
    price: float | None


class DatedAt(At):
    date: str


class SwingRow(DatedAt):
    kind: Literal["high", "low"]
    confirmed: str


class Fib(TypedDict):
    direction: str
    high: DatedAt
    low: DatedAt
    retracements: list[At]
    extensions: list[At]


class LevelRow(At):
    touches: int
    lastTouch: str
    strength: str


class Zone(At):
    members: list[str]


LineRow = TypedDict(
    "LineRow",
    {
        "id": str,
        "kind": str,
        "from": str,
        "to": str,
        "slope": float | None,
        "touches": int,
        "now": float | None,
        "atrAway": float | None,
        "broken": NotRequired[str],
    },
)


class TrendRow(TypedDict):
    direction: str
    quality: str
    r2: float | None
    slopeYear: float | None
    score: float | None
    bars: int


class Extension(TypedDict):
    atr: float | None
    risk: str


class PatternRow(TypedDict):
    date: str
    name: str
    direction: str


class StudyRow(Head):
    swings: NotRequired[list[SwingRow]]
    fib: NotRequired[Fib | None]
    support: NotRequired[list[LevelRow] | None]
    resistance: NotRequired[list[LevelRow] | None]
    trendlines: NotRequired[list[LineRow] | None]
    confluence: NotRequired[list[Zone]]
    adx14: NotRequired[float | None]
    trend: NotRequired[TrendRow | None]
    extension: NotRequired[Extension | None]
    patterns: NotRequired[list[PatternRow] | None]


class StudyAnswer(Answer):
    studies: list[StudyRow]


def chart_study_get(context: ToolContext, arguments: StudyArguments) -> dict[str, Any]:
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
    made = {"swings": _swings, "fib": _fib, "levels": _levels, "trend": _trend, "patterns": _patterns}
    parts = [made[name](study) for name in SECTIONS if name in sections]
    return {**head(study), **{key: value for part in parts for key, value in part.items()}}


def head(study: Study) -> dict[str, Any]:
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
        "atrAway": rounded(one.distance, 2),
        **_broken(one),
    }


def _broken(one: Trendline) -> dict[str, str]:
    return {} if one.broken is None else {"broken": stamped(one.broken)}


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
        "support S and resistance R (clusters of swings; 3 touches strong, 2 moderate), trendlines TS and TR, at most "
        "5 ATR away (BS and BR were broken lately and are no levels), confluence C (levels of two kinds within half an "
        "ATR), trend (r2 and slopeYear of log closes, adx14), extension (close above the nearest support in ATR), "
        "candlestick patterns of the last 10 bars. Name a level by its id: code fills its price. Null is unknown, and "
        "`missing` has the reason. Bars cannot be passed."
    ),
    arguments=StudyArguments,
    function=chart_study_get,
    answer=StudyAnswer,
)


# Rows of at most 70 bytes, and of 85 with a time of day: what fits in one answer.
MOST_HISTORY_SYMBOLS, MOST_ROWS, MOST_INTRADAY_ROWS = 20, 640, 520
COLUMNS = ["date", "open", "high", "low", "close", "volume"]


class HistoryArguments(Arguments):
    symbols: Annotated[list[Symbol], tickers(MOST_HISTORY_SYMBOLS), DISTINCT]
    sessions: int = Field(30, ge=20, le=504, description="daily sessions to look back; a week is 5 of them")
    interval: Interval = Field("day", description=INTERVALS)


class HistoryRow(TypedDict):
    symbol: str
    adjusted: bool
    rows: list[list[str | float | None]]
    weekIncomplete: NotRequired[bool]
    barIncomplete: NotRequired[bool]


class HistoryAnswer(Answer):
    interval: Interval
    columns: list[str]
    histories: list[HistoryRow]


def price_history_get(context: ToolContext, arguments: HistoryArguments) -> dict[str, Any]:
    """Return the bars of each symbol, oldest first. Raises UsageError for more rows than an answer holds."""
    _require_room(arguments)
    gaps, rows = Gaps(), []
    for frame in frames(context, arguments.symbols, gaps, arguments.sessions, arguments.interval, closes_alone=True):
        bars = frame.shown
        row = {"symbol": frame.symbol, "adjusted": bars.adjusted, "rows": _rows(bars)}
        rows.append(row | frame.flags)
    return payload(context, gaps, available=bool(rows), interval=arguments.interval, columns=COLUMNS, histories=rows)


def _require_room(arguments: HistoryArguments) -> None:
    bars, symbols = _bars(arguments.sessions, arguments.interval), len(arguments.symbols)
    most = MOST_INTRADAY_ROWS if arguments.interval in INTRADAY_SESSIONS else MOST_ROWS
    if symbols * bars > most:
        noun = PERIODS[arguments.interval].noun
        raise UsageError(
            f"{symbols} symbols of {bars} {noun} are {symbols * bars} rows, more than {most}",
            remedy="ask for fewer symbols or sessions, or for weeks; chart_study_get has the figures of long periods",
        )


def _bars(sessions: int, interval: Interval) -> int:
    """Return the most bars of so many sessions."""
    if interval == "hour" or interval == "15min":
        return min(sessions, INTRADAY_SESSIONS[interval]) * PERIODS[interval].a_year // PERIODS["day"].a_year
    return -(-sessions // (SESSIONS_A_WEEK if interval == "week" else 1))


def _rows(bars: Bars) -> list[list[Any]]:
    prices = (bars.open, bars.high, bars.low, bars.close)
    return [
        [stamped(day), *(rounded(float(column[at])) for column in prices), _shares(float(bars.volume[at]))]
        for at, day in enumerate(bars.dates)
        if bars.close[at] == bars.close[at]
    ]


def _shares(volume: float) -> int | None:
    return None if math.isnan(volume) else int(volume)


PRICE_HISTORY_GET = ToolSpec(
    name="price_history_get",
    description=(
        "Daily, weekly or intraday bars of up to 20 symbols, oldest first, as `columns` and `rows`: date (a week's "
        "last session, of whole weeks but the last; the start of an intraday bar, in regular hours), open, high, low, "
        "close, volume in shares. At most 640 rows an answer, 520 of intraday bars. A session without a bar has no row "
        "and is in `missing`; `adjusted`: prices were adjusted for splits and dividends."
    ),
    arguments=HistoryArguments,
    function=price_history_get,
    answer=HistoryAnswer,
)


MOST_PICTURE_SYMBOLS, MOST_IDS = 4, 20
_DEFAULT: tuple[Overlay, ...] = ("levels", "trendlines", "swings", "sma50")


class RenderArguments(ChartArguments):
    symbols: Annotated[list[Symbol], tickers(MOST_PICTURE_SYMBOLS, "a chart each"), DISTINCT]
    overlays: Annotated[
        list[Overlay], Field(max_length=len(OVERLAYS), description="what to draw beside candles and volume"), DISTINCT
    ] = Field(list(_DEFAULT), validate_default=True)
    ids: list[Annotated[str, Field(pattern="^[A-Z]{1,2}[0-9.]{0,5}$")]] = Field(
        [], max_length=MOST_IDS, description="draw only these levels and lines of the study, such as S1, F61.8, TS"
    )


class Size(TypedDict):
    width: int
    height: int


class DrawnLine(TypedDict):
    id: str
    now: float | None
    broken: NotRequired[str]


class ChartRow(Head):
    levels: list[At]
    outside: list[At]
    trendlines: list[DrawnLine]
    indicators: dict[str, float | None]


class ChartsAnswer(Answer):
    image: NotRequired[Size]
    charts: list[ChartRow]


def chart_render(context: ToolContext, arguments: RenderArguments) -> dict[str, Any] | tuple[dict[str, Any], ToolImage]:
    gaps, panels, rows = Gaps(), [], []
    for frame in frames(context, arguments.symbols, gaps, arguments.sessions, arguments.interval):
        study = study_of(frame, arguments.lookback, LEVELS)
        note_lacks(study, gaps)
        _note_unknown_ids(study, arguments.ids, gaps)
        panel, row = _panel(study, arguments, gaps)
        panels.append(panel)
        rows.append(row)
    if not panels:
        return payload(context, gaps, available=False, charts=[])
    if context.disguise is not None:
        panels = [context.disguise.drawn(one) for one in panels]
    width, height = _picture().size_of(len(panels))
    found = payload(context, gaps, available=True, image={"width": width, "height": height}, charts=rows)
    return found, ToolImage(_picture().picture(panels), "image/png")


_PEOPLES: tuple[Overlay, ...] = (*_DEFAULT, "sma200", "rsi14")


def picture_for_people(context: ToolContext, symbol: str, sessions: int, interval: Interval) -> bytes:
    """Return a symbol's chart as a PNG of 2,400 x 1,600 pixels, with its strength against the benchmark, the days on
    which the company reported, and the plan of the account's position or open order. Raises NotFound where there are no
    bars to draw."""
    gaps, module = Gaps(), _picture()
    # A person may ask for what no model may: ^GSPC, EURUSD=X.
    arguments = RenderArguments.model_construct(symbols=[symbol], overlays=list(_PEOPLES))
    for frame in frames(context, [symbol], gaps, sessions, interval):
        strips = _against_benchmark(strength_of(context, frame, gaps))
        panel, _ = _panel(study_of(frame, LOOKBACK, LEVELS), arguments, gaps, module.PEOPLE, strips)
        places = {day: at for at, day in enumerate(frame.shown.dates)}
        days = [(places[day], "E") for day in _reports(context, symbol) if day in places]
        scale = module.panel_scale(panel, module.PEOPLE)
        marks, notes = plan_of(context, symbol)
        inside = [one for one in marks if scale.holds(one.price)]
        beyond = (f"{one.id} {one.price:.2f} is {_side(one.price, scale.low)}" for one in marks if one not in inside)
        panel = dataclasses.replace(panel, days=days, marks=[*panel.marks, *inside], notes=[*notes, *beyond])
        return bytes(module.picture([panel], module.PEOPLE))
    reasons = "; ".join(f"{gap['what']}: {gap['reason']}" for gap in gaps.rows())
    raise NotFound(f"there is no chart of {symbol}: {reasons}", remedy="ask for a symbol and a day that the market has")


def _reports(context: ToolContext, symbol: str) -> list[dt.date]:
    if not isinstance(context.market, EarningsSource):
        return []
    try:
        _, past = split(context.market.earnings(symbol), context.clock.now())
    except DeskError:
        return []
    return [row.date for row in past]


def _side(price: float, low: float) -> str:
    return "below the prices shown" if price < low else "above the prices shown"


def strength_of(context: ToolContext, frame: Frame, gaps: Gaps) -> Floats | None:
    """Return the strength of a name against its benchmark at each bar drawn; None, with the reason in the gaps, of an
    intraday chart and without the benchmark's prices."""
    what = "strength against the benchmark"
    if frame.interval not in ("day", "week"):
        gaps.add(what, "it is of whole sessions")
        return None
    try:
        values: Floats = strength_line(panel_of(context, [frame.symbol]), frame.symbol, frame.shown.dates)
    except DeskError as error:
        gaps.add(what, error)
        return None
    return values if np.isfinite(values).any() else None


def _against_benchmark(values: Floats | None) -> list[Any]:
    if values is None:
        return []
    known = values[np.isfinite(values)]
    return [_picture().Strip("relative", values, min(float(known.min()), 99), max(float(known.max()), 101), (100.0,))]


def plan_of(context: ToolContext, symbol: str) -> tuple[list[of.DrawnLevel], list[str]]:
    """Return (levels, notes) of the plan of the account's position in a symbol or of its open order, none without."""
    order = _planned(context, symbol)
    if order is None:
        return [], []
    actions = actions_of(context.market, symbol, day_of(order.market_at, symbol))
    contract = parse_contract(contract_of_order(order, actions) or order.contract or "")
    plan = plan_now(order, actions) or PositionPlan()
    prices = {"entry": plan.entry, "stop": plan.stop, "target": plan.target}
    days = {"horizon until": plan.ends, "review": plan.review}
    notes = [f"{what} {day}" for what, day in days.items() if day is not None]
    if contract is not None:
        strike, sign = float(contract.strike), 1 if contract.kind == "call" else -1
        # The plan of an option has prices of its premium, which are not on a share's scale.
        prices = {"strike": strike, "even": strike + sign * order.limit_price if order.limit_price else None}
        notes.append(f"{order.action} {contract.symbol}, expires {contract.expiry}")
    return [of.DrawnLevel(id, at, "plan", at, at) for id, at in prices.items() if at is not None], notes


def _planned(context: ToolContext, symbol: str) -> Order | None:
    """Return the order whose plan holds now: the newest that opens or adds, while it is open or its position held."""
    if context.store is None:
        return None
    with context.store.read() as session:
        of_symbol = select(Order).where(
            Order.account == context.account, Order.symbol == symbol, col(Order.plan).is_not(None)
        )
        newest = session.exec(
            of_symbol.where(Order.market_at <= context.clock.now()).order_by(col(Order.market_at).desc())
        ).first()
        if newest is None or newest.state in ORDER_OPEN:
            return newest
        actions = actions_of(context.market, symbol, day_of(newest.market_at, symbol))
        held = session.get(Position, (context.account, contract_of_order(newest, actions) or symbol))
        return newest if newest.state == OrderState.FILLED and held is not None else None


def _panel(
    study: Study, arguments: RenderArguments, gaps: Gaps, size: Any = None, further: Sequence[Any] = ()
) -> tuple[Any, dict[str, Any]]:
    frame, module, overlays = study.frame, _picture(), arguments.overlays
    indicators = of.series(frame, overlays)
    strengths = {"rsi14": of.relative_strength(frame)} if "rsi14" in overlays else {}
    levels, lines = of.levels(study, overlays, arguments.ids), of.lines(study, overlays, arguments.ids)
    strips = [module.Strip(name, values, 0.0, 100.0, (30.0, 70.0)) for name, values in strengths.items()]
    bare = module.Panel(_title(study), frame.shown, series=indicators, strips=[*strips, *further])
    scale = module.panel_scale(bare, size or module.MODEL)
    inside = [one for one in levels if scale.holds(one.price)]
    places = frame.places
    panel = dataclasses.replace(
        bare,
        marks=inside,
        segments=[_segment(one, places) for one in lines],
        swings=[(places[one.at], one.price, one.kind == "high") for one in study.swings if "swings" in overlays],
    )
    row = {
        **head(study),
        "levels": [{"id": one.id, "price": rounded(one.price)} for one in inside],
        "outside": [{"id": one.id, "price": rounded(one.price)} for one in levels if one not in inside],
        "trendlines": [{"id": one.id, "now": rounded(one.now), **_broken(one)} for one in lines],
        "indicators": _values(indicators | strengths, study, gaps),
    }
    return panel, row


def _segment(line: Trendline, places: Sequence[int]) -> Any:
    """Return a line to its price at the last bar. places: of the study's bars among those drawn."""
    start, end = (places[line.start.at], line.start.price), (places[-1], line.now)
    return _picture().Segment(line.id, start, end, line.broken is not None)


def _values(indicators: dict[str, Floats], study: Study, gaps: Gaps) -> dict[str, float | None]:
    """Return each indicator at the last bar; one that has no value there is added to `gaps`."""
    found = {name: finite(values[-1]) for name, values in indicators.items()}
    frame = study.frame
    if lacking := [name for name, value in found.items() if value is None]:
        gaps.add(", ".join(lacking), f"too few {frame.period.noun}: {len(frame.long.dates)}", frame.symbol)
    return {name: rounded(value) for name, value in found.items()}


def _note_unknown_ids(study: Study, ids: list[str], gaps: Gaps) -> None:
    known = dict.fromkeys([*study.prices(), *(one.id for one in study.trendlines or ())])
    if wrong := [one for one in ids if one not in known]:
        reason = f"no {', '.join(wrong)} in the study; it has {', '.join(known) or 'none'}"
        gaps.add("ids", reason, study.frame.symbol)


_NOUNS = {"day": "daily", "week": "weekly", "hour": "hourly", "15min": "15 minutes"}


def _title(study: Study) -> str:
    frame, dates = study.frame, study.frame.shown.dates
    open_end = f", the last {'week' if frame.interval == 'week' else 'bar'} not over" if frame.incomplete else ""
    first, last = (
        f"{day:%Y-%m-%d %H:%M}" if isinstance(day, dt.datetime) else str(day) for day in (dates[0], dates[-1])
    )
    noun = _NOUNS[frame.interval]
    if isinstance(dates[0], dt.datetime):
        noun += f", {clock_of(exchange_code(frame.symbol))}"
    return f"{frame.symbol}  {noun}{open_end}  {first} to {last}  close {study.close:.2f}"


@cache
def _picture() -> Any:
    """Return the module that draws, imported with the first picture: Pillow is no use to a process that draws none."""
    return importlib.import_module("chordesk.tools.charts.picture")


CHART_RENDER = ToolSpec(
    name="chart_render",
    description=(
        "One picture (PNG) of the charts of up to 4 symbols: candles, volume, and the overlays: levels (support and "
        "resistance), fib, trendlines, swings, sma20, sma50, sma200, bollinger, rsi14. With it the figures drawn, by "
        "the ids of chart_study_get over the same bars; `outside` are levels beyond the prices shown. Bars cannot be "
        "passed."
    ),
    arguments=RenderArguments,
    function=chart_render,
    answer=ChartsAnswer,
)
