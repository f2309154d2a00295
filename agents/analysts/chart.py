"""Completion of a chart answer: prices of the levels that it names, and the measured trend."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chordesk.agents.analysts.evidence import Row, figure, rows
from chordesk.agents.answers import AnswerError, RecordedCall
from chordesk.models.analysis import ChartAnalysis, ExtensionFigures, NamedLevel, TrendFigures
from chordesk.models.research import Stance
from chordesk.tools.charts.frames import PERIODS, SESSIONS_A_WEEK

STANCES = {"bullish": Stance.CONFIRMED, "neutral": Stance.CAUTION, "bearish": Stance.CAUTION, "reject": Stance.REJECT}
INTERVALS = ("day", "week")  # of the charts that a report's figures and levels are of
_STUDIES = {"chart_study_get": "studies"}
_BOTH = {**_STUDIES, "chart_render": "charts"}
_LINES = {"TS": "trendline_support", "TR": "trendline_resistance"}
_KINDS = {"S": "support", "R": "resistance", "C": "confluence"}
_IDS = ("support", "resistance", "confluence")
_RATIOS = {"F": "fib_", "E": "fib_extension_"}


def complete_chart(answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """Return the answer as a ChartAnalysis.

    Raises AnswerError for a level that no answer of the turn has, a support above the close, a resistance below it.
    """
    symbol = str(subject["symbol"])
    known = levels_of(symbol, calls)
    measured = _last(_charts(calls, _STUDIES, symbol)) or _last(_charts(calls, _BOTH, symbol)) or {}
    close = figure(measured, "close")
    support = _named("support", answer["support"], known, symbol)
    resistance = _named("resistance", answer["resistance"], known, symbol)
    _require_side("support", support, close)
    _require_side("resistance", resistance, close)
    made = ChartAnalysis(
        verdict=STANCES[answer["recommendation"]],
        symbol=symbol,
        support_levels=support,
        resistance_levels=resistance,
        confluence=_named("confluence", answer["confluence"], known, symbol),
        interval=measured.get("interval"),
        first=measured.get("from"),
        last=measured.get("to"),
        close=close,
        atr14=figure(measured, "atr14"),
        adx14=figure(measured, "adx14"),
        trend=_trend(measured.get("trend")),
        extension=_extension(measured.get("extension")),
        **{name: value for name, value in answer.items() if name not in _IDS},
    )
    return made.model_dump(mode="json")


def has_chart(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Return whether a study or a picture is of as many sessions of the symbol as a trend needs."""
    found = (_sessions(row) for row in _charts(calls, _BOTH, str(subject["symbol"])))
    return max(found, default=0) >= PERIODS["day"].trend


def _charts(calls: Sequence[RecordedCall], tools: Mapping[str, str], symbol: str) -> Iterator[Row]:
    """Return the rows on a symbol that are of days or weeks, as a report is: an hour's S1 is not that of the days."""
    return (row for row in rows(calls, tools, symbol) if row.get("interval") in INTERVALS)


def _sessions(row: Row) -> float:
    return (figure(row, "bars") or 0) * (SESSIONS_A_WEEK if row.get("interval") == "week" else 1)


def levels_of(symbol: str, calls: Sequence[RecordedCall]) -> dict[str, NamedLevel]:
    """Return the levels and lines of a symbol in the answers of a turn, by id.

    An id is that of the last answer that has it. A picture's level is the study's where the price is the same: the
    study has its touches.
    """
    found: dict[str, NamedLevel] = {}
    for row in _charts(calls, _BOTH, symbol):
        for level in _levels(row):
            same = found.get(level.id)
            if same is None or same.price != level.price or level.touches is not None or level.members:
                found[level.id] = level
    return found


def _levels(row: Row) -> Iterator[NamedLevel]:
    fib = row.get("fib") or {}
    parts = (row.get(name) for name in ("support", "resistance", "confluence", "levels", "outside"))
    for part in (*parts, fib.get("retracements"), fib.get("extensions")):
        for one in part or ():
            yield _level(one, figure(one, "price"))
    for one in row.get("trendlines") or ():
        yield _level(one, figure(one, "now"))


def _level(one: Row, price: float | None) -> NamedLevel:
    assert price is not None, "a level of a tool has a price"
    given = {name: one[name] for name in ("touches", "strength", "members") if name in one}
    return NamedLevel(id=one["id"], type=_type(one["id"]), price=price, **given)


def _type(id: str) -> str:
    if id in _LINES:
        return _LINES[id]
    return _RATIOS[id[0]] + id[1:] if id[0] in _RATIOS else _KINDS[id[0]]


def _named(field: str, ids: Iterable[str], known: Mapping[str, NamedLevel], symbol: str) -> list[NamedLevel]:
    wanted = list(dict.fromkeys(ids))
    if wrong := [id for id in wanted if id not in known]:
        there = f"there are {', '.join(known)}" if known else "there are none: look at the chart first"
        raise AnswerError(
            f"{field}: no chart answer of this turn has {', '.join(map(repr, wrong))} of {symbol}; {there}"
        )
    return [known[id] for id in wanted]


def _require_side(field: str, levels: Iterable[NamedLevel], close: float | None) -> None:
    """Raise AnswerError where a support is above the close or a resistance below it."""
    for one in levels:
        if close is not None and (one.price > close if field == "support" else one.price < close):
            side = "above" if field == "support" else "below"
            raise AnswerError(f"{field}: {one.id} at {one.price} is {side} the close of {close}, so it is no {field}")


def _trend(found: Row | None) -> TrendFigures | None:
    if not found:
        return None
    figures = {name: figure(found, given) for name, given in (("r2", "r2"), ("slope_year", "slopeYear"))}
    return TrendFigures(
        direction=found["direction"],
        quality=found["quality"],
        score=figure(found, "score"),
        bars=found["bars"],
        **figures,
    )


def _extension(found: Row | None) -> ExtensionFigures | None:
    return ExtensionFigures(atr=figure(found, "atr"), risk=found["risk"]) if found else None


def _last(found: Iterable[Row]) -> Row | None:
    return next(reversed(list(found)), None)
