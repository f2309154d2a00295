"""A symbol across the runs of an account, and its bars with indicators, as a chart draws them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import sqlalchemy
from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.errors import DeskError
from chordesk.models.groups import by_key
from chordesk.models.market import Listing
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Fill, Order, Position, TraderNote
from chordesk.models.tables.runs import Candidate, Report, Run, ScreenHit, Verdict
from chordesk.tasks.reading.accounts import ProtectiveOrder, protective_order
from chordesk.tools.charts import study as charted
from chordesk.tools.charts.frames import Frame, Interval, frames
from chordesk.tools.charts.study import study_of
from chordesk.tools.market.prices import stamped
from chordesk.tools.market.protocol import Bars, Floats, IntradaySource
from chordesk.tools.model_tools.charts import LEVELS, LOOKBACK, plan_of, strength_of
from chordesk.tools.orders.stops import working_protection
from chordesk.tools.prices.price_figures import load_talib
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk.exposure import underlying_of


class SymbolRow(Frozen):
    """A symbol that runs of an account had as a candidate. rating, confidence: of its last verdict."""

    symbol: str
    runs: int
    last_run: str
    last_at: dt.datetime
    rating: str | None
    confidence: str | None


class SymbolHit(Frozen):
    """A hit. market_at: market time."""

    hit: Row[ScreenHit]
    market_at: dt.datetime


class SymbolVerdict(Frozen):
    """A verdict. market_at: market time."""

    verdict: Row[Verdict]
    market_at: dt.datetime


class SymbolPosition(Frozen):
    """What the books hold of a symbol, or of an option on it. quantity: negative when short; average_cost a share;
    filled_at: market time of the last fill."""

    symbol: str
    quantity: float
    average_cost: float
    filled_at: dt.datetime
    protected_by: list[ProtectiveOrder]


class PlanLevel(Frozen):
    """A price of a plan: entry, stop or target of shares, strike or break-even (even) of an option."""

    id: str
    price: float


class SymbolDetail(Frozen):
    """A symbol in an account's runs on one market, each list the newest first. name, sector: of the market, null where
    it does not know the symbol. memory: what a prompt of this moment would be given of it, null without any;
    memory_off: no prompt gets one. plan, plan_notes: levels and days of the plan of its position or open order."""

    symbol: str
    name: str | None
    sector: str | None
    account: str
    market: str
    as_of: dt.datetime
    memory: str | None
    memory_off: bool
    positions: list[SymbolPosition]
    plan: list[PlanLevel]
    plan_notes: list[str]
    hits: list[SymbolHit]
    verdicts: list[SymbolVerdict]
    reports: list[Row[Report]]
    orders: list[Row[Order]]
    fills: list[Row[Fill]]
    notes: list[Row[TraderNote]]


def list_symbols(
    session: Session, account: str, limit: int, offset: int = 0, part: str | None = None
) -> list[SymbolRow]:
    researched: Any = (
        sqlalchemy.select(
            col(Candidate.symbol).label("symbol"), func.count().label("runs"), func.max(col(Candidate.id)).label("last")
        )
        .join(Run, col(Run.id) == col(Candidate.run_id))
        .where(col(Run.account) == account)
        .group_by(col(Candidate.symbol))
    )
    if part is not None:
        researched = researched.where(col(Candidate.symbol).contains(part.upper(), autoescape=True))
    page = researched.order_by(func.max(col(Candidate.id)).desc()).offset(offset).limit(limit).subquery()
    last = (
        sqlalchemy.select(func.max(col(Verdict.id)))
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(col(Verdict.symbol) == page.c.symbol, col(Run.account) == account)
        .correlate(page)
        .scalar_subquery()
    )
    rows = session.execute(
        sqlalchemy.select(page.c.symbol, page.c.runs, col(Run.id), col(Run.created_at), Verdict)
        .join(Candidate, col(Candidate.id) == page.c.last)
        .join(Run, col(Run.id) == col(Candidate.run_id))
        .join(Verdict, col(Verdict.id) == last, isouter=True)
        .order_by(page.c.last.desc())
    ).all()
    return [
        SymbolRow(
            symbol=symbol,
            runs=runs,
            last_run=run_id,
            last_at=at,
            rating=verdict.rating if verdict is not None else None,
            confidence=verdict.confidence if verdict is not None else None,
        )
        for symbol, runs, run_id, at, verdict in rows
    ]


def listing_of(context: ToolContext, symbol: str) -> Listing:
    try:
        return context.market.listing(symbol)
    except DeskError:
        return Listing(symbol=symbol)


def symbol_detail(session: Session, context: ToolContext, listing: Listing, limit: int) -> SymbolDetail:
    from chordesk.tasks.reading.memory import symbol_memory

    symbol, account = listing.symbol, context.account
    hits, verdicts, reports = (
        _of_run(session, table, account, symbol, limit) for table in (ScreenHit, Verdict, Report)
    )
    orders = session.exec(
        select(Order)
        .where(Order.symbol == symbol, Order.account == account)
        .order_by(col(Order.created_at).desc(), col(Order.id).desc())
        .limit(limit)
    ).all()
    fills = session.exec(
        select(Fill)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(Order.symbol == symbol, Order.account == account)
        .order_by(col(Fill.filled_at).desc(), col(Fill.id).desc())
        .limit(limit)
    ).all()
    notes = session.exec(
        select(TraderNote)
        .where(TraderNote.symbol == symbol, TraderNote.account == account)
        .order_by(col(TraderNote.market_at).desc(), col(TraderNote.id).desc())
        .limit(limit)
    ).all()
    levels, plan_notes = plan_of(context, symbol)
    return SymbolDetail(
        **listing.model_dump(include={"symbol", "name", "sector"}),
        account=account,
        market=context.market.name,
        as_of=context.clock.now(),
        memory=symbol_memory(session, context, symbol),
        memory_off=context.settings.memory == "off",
        positions=_positions(session, account, symbol),
        plan=[PlanLevel(id=one.id, price=one.price) for one in levels],
        plan_notes=plan_notes,
        hits=[SymbolHit(hit=row, market_at=row.market_at) for row in hits],
        verdicts=[SymbolVerdict(verdict=row, market_at=row.market_at) for row in verdicts],
        reports=list(reports),
        orders=list(orders),
        fills=list(fills),
        notes=list(notes),
    )


def _of_run(session: Session, table: Any, account: str, symbol: str, limit: int) -> Sequence[Any]:
    query = select(table).join(Run, col(Run.id) == col(table.run_id))
    query = query.where(table.symbol == symbol, Run.account == account)
    return session.exec(query.order_by(col(table.market_at).desc(), col(table.id).desc()).limit(limit)).all()


def _positions(session: Session, account: str, symbol: str) -> list[SymbolPosition]:
    held = session.exec(select(Position).where(Position.account == account).order_by(col(Position.symbol))).all()
    stops = working_protection(session, account, symbol)
    protected = by_key((one.contract or one.symbol, protective_order(session, one)) for one in stops)
    return [
        SymbolPosition.of(row, protected_by=protected.get(row.symbol, []))
        for row in held
        if underlying_of(row.symbol) == symbol
    ]


Indicator = Literal[
    "sma20", "sma50", "sma200", "ema12", "ema26", "bollinger", "rsi14", "macd", "atr14", "adx14", "relative", "levels",
    "trendlines",
]  # fmt: skip


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


class ChartLevel(Frozen):
    """A support or resistance of the study; low, high: of its zone; touches: swings that touched it."""

    id: str
    kind: str
    price: float
    low: float
    high: float
    touches: int


class ChartLine(Frozen):
    """A trendline of the study, from its first swing to the last bar. start, end: places among the bars."""

    id: str
    kind: str
    broken: bool
    start: int
    start_price: float
    end: int
    end_price: float


class CandleChart(Frozen):
    """Bars in ascending order, without those of sessions in which the symbol has none. as_of: the market's time;
    incomplete: the last bar goes on. indicators: by line, a value for each bar, null before it has one; `relative`: the
    strength against the benchmark, 100 at the first bar. intraday: whether the market has bars of parts of a session.
    levels, lines: as the study of the bars has them, where they were asked for."""

    symbol: str
    market: str
    as_of: dt.datetime
    interval: Interval
    adjusted: bool | None
    incomplete: bool
    bars: list[Candle]
    indicators: dict[str, list[float | None]]
    levels: list[ChartLevel]
    lines: list[ChartLine]
    intraday: bool
    missing: list[Gap]


def candles(
    context: ToolContext, symbol: str, sessions: int, interval: Interval, wanted: Collection[Indicator]
) -> CandleChart:
    """Return the bars of the last so many sessions of the context's market. Without any, `missing` has the reason."""
    gaps = Gaps()
    frame = next(frames(context, [symbol], gaps, sessions, interval, closes_alone=True), None)
    found: dict[str, Any] = {"adjusted": None, "incomplete": False, "bars": [], "indicators": {}}
    found |= {"levels": [], "lines": [], "intraday": isinstance(context.market, IntradaySource)}
    if frame is not None:
        found |= _drawn(frame, wanted)
        if "relative" in wanted and (strength := strength_of(context, frame, gaps)) is not None:
            places = [at for at, close in enumerate(frame.shown.close) if math.isfinite(close)]
            found["indicators"]["relative"] = [_figure(strength[at]) for at in places]
        if not set(wanted).isdisjoint(("levels", "trendlines")) and np.isfinite(frame.bars.high).all():
            found |= _studied(frame, wanted)
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
    lines = {name: values for one, of in _LINES.items() if one in wanted for name, values in of(frame.long).items()}
    return {
        "adjusted": bars.adjusted,
        "incomplete": frame.incomplete,
        "bars": [_candle(bars, at) for at in places],
        "indicators": {name: _aligned(values, len(bars.dates), places) for name, values in lines.items()},
    }


def _studied(frame: Frame, wanted: Collection[str]) -> dict[str, Any]:
    study, shown = study_of(frame, LOOKBACK, LEVELS), frame.shown
    place = {at: n for n, at in enumerate(at for at, close in enumerate(shown.close) if math.isfinite(close))}
    levels = [ChartLevel(**one._asdict()) for one in charted.levels(study, wanted, ())]
    lines = [
        ChartLine(
            id=one.id,
            kind=one.kind,
            broken=one.broken is not None,
            start=place[frame.places[one.start.at]],
            start_price=one.start.price,
            end=place[frame.places[-1]],
            end_price=one.now,
        )
        for one in charted.lines(study, wanted, ())
    ]
    return {"levels": levels, "lines": lines}


def _candle(bars: Bars, at: int) -> Candle:
    opened, high, low, close = (_figure(column[at]) for column in (bars.open, bars.high, bars.low, bars.close))
    volume = bars.volume[at]
    shares = int(volume) if math.isfinite(volume) else None
    return Candle(at=str(stamped(bars.dates[at])), open=opened, high=high, low=low, close=close, volume=shares)


def _aligned(values: Floats, count: int, places: list[int]) -> list[float | None]:
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
