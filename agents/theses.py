"""Theses as they are kept: code looks up what they name in the tool answers of the turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from chordesk.agents.analysts import figure, levels_of, market_day, rows
from chordesk.agents.answers import AnswerError, RecordedCall
from chordesk.models.thesis import Direction, KeptThesis, Thesis, day_of
from chordesk.tools.shortening import shorten
from chordesk.tools.toolsets import CITE

# Prices of a row of technicals_get that a thesis may name as its level, by their own names.
PRICES = (
    "sma20", "sma50", "sma200", "ema12", "ema26", "bollingerUpper", "bollingerLower", "high252", "low252",
)  # fmt: skip
_TECHNICALS = {"technicals_get": "technicals"}
_CLOSES = {
    "technicals_get": "technicals", "signals_get": "signals", "chart_study_get": "studies", "chart_render": "charts",
    "sp500_movers": "asked",
}  # fmt: skip
_COMPANIES = {"company_get": "companies"}
# Levels of the chart analyst's answer in a subject.
_NAMED = ("support_levels", "resistance_levels", "confluence")
# Fields that have a figure of their own in the kept thesis, and lists, of which none is no gap.
_LISTS = ("catalysts", "points_for", "points_against")


def kept(stated: Thesis, subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> KeptThesis:
    """Return a thesis with the figures behind its ids, yet without its benchmark.

    Raises AnswerError with all faults, for there is one repair: a source that is no answer of this turn, a level that
    no answer has, an invalidation on the side of the close where the thesis is right, a catalyst or an event of the
    past.
    """
    symbol, today = str(subject["symbol"]), market_day(calls)
    close = close_of(symbol, calls, subject)
    price, faults = None, [*_strange_sources(stated, calls)]
    if (wrong := stated.invalidation) is not None and wrong.level is not None:
        known = dict(_prices(symbol, calls, subject))
        price = known.get(wrong.level)
        if price is None:
            there = f"there are {', '.join(known)}" if known else "no answer of this turn has any"
            faults.append(f"no level of {symbol} is {wrong.level!r}; {there}")
        else:
            faults += _wrong_side(stated.direction, wrong.level, price, close)
    days = {f"catalyst {one.event!r}": one.day for one in stated.catalysts}
    if wrong is not None and wrong.day is not None:
        days["the event of the invalidation"] = wrong.day
    for what, day in days.items():
        if today is not None and day_of(day) < today:
            faults.append(f"{what} is on {day}, which is past: today is {today}")
    if faults:
        raise AnswerError(f"thesis: {'; '.join(faults)}")
    return KeptThesis(
        **stated.model_dump(),
        invalidation_price=price,
        close=close,
        missing=[name for name in Thesis.model_fields if name not in _LISTS and getattr(stated, name) is None],
    )


def _strange_sources(stated: Thesis, calls: Sequence[RecordedCall]) -> Iterator[str]:
    known = [call.answer.payload[CITE] for call in calls if CITE in call.answer.payload]
    points = [*stated.points_for, *stated.points_against]
    named = [*(one.source for one in stated.catalysts), *(one.source for one in points)]
    if wrong := [source for source in dict.fromkeys(named) if source not in known]:
        there = f"there are {', '.join(known)}" if known else "there are none: ask a tool first"
        yield f"no answer of this turn has the cite {', '.join(map(repr, wrong))}; {there}"


def close_of(symbol: str, calls: Sequence[RecordedCall], subject: Mapping[str, Any]) -> float | None:
    """Return the last close of a symbol by the answers of a turn, else by the chart report in its subject."""
    found = [figure(row, "close") for row in rows(calls, _CLOSES, symbol)]
    found += [figure(row, "lastClose") for row in rows(calls, _COMPANIES, symbol)]
    return next((close for close in found if close is not None), figure(subject.get("chart") or {}, "close"))


def _prices(symbol: str, calls: Sequence[RecordedCall], subject: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield (id, price); the last of an id counts: a level that this turn has seen itself."""
    chart = subject.get("chart") or {}
    for one in (row for name in _NAMED for row in chart.get(name) or ()):
        yield one["id"], one["price"]
    for row in rows(calls, _TECHNICALS, symbol):
        yield from ((name, price) for name in PRICES if (price := figure(row, name)) is not None)
    yield from ((one.id, one.price) for one in levels_of(symbol, calls).values())


def _wrong_side(direction: Direction | None, level: str, price: float, close: float | None) -> Iterator[str]:
    if close is None:
        return
    if (direction == "up" and price >= close) or (direction == "down" and price <= close):
        side, right = ("above", "below") if direction == "up" else ("below", "above")
        where = "at" if price == close else side
        yield (
            f"its invalidation {level} at {price:g} is {where} the close of {close:g}; of a thesis {direction} it lies "
            f"{right} it"
        )


# Theses as the trader reads them: in full, up to so many tokens a candidate. Three reports of the rulebook take
# 505 to 584; beyond the limit the longest lists and texts lose their ends, and `leftOut` says so.
CANDIDATE_TOKENS = 2_000
_CHART = ("close", "atr14", "support_levels", "resistance_levels", "confluence")
_CONTRACT = (
    "contract",
    "best_strike",
    "best_expiration",
    "dte",
    "premium",
    "delta",
    "break_even",
    "pop",
    "iv_hv_ratio",
    "put_skew",
    "term_slope",
    "iv_rank",
)


def told(theses: Mapping[str, Mapping[str, Any]], answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a candidate's theses for the trader, with the levels of its chart and its contract; nulls are left out.

    theses: kept ones, by role. answers: of completed reports, by role.
    """
    found: dict[str, Any] = {role: _known(thesis) for role, thesis in theses.items()}
    for name, role, fields in (("levels", "chart", _CHART), ("option", "options", _CONTRACT)):
        if known := _known({field: answers.get(role, {}).get(field) for field in fields}):
            found[name] = known
    return shorten(found, CANDIDATE_TOKENS)[0]


def anonymous(theses: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return kept theses as the skeptic reads them: by probability and without sources, so that nothing says whose."""
    found = [
        _known({**one, **{name: [point["text"] for point in one[name]] for name in ("points_for", "points_against")}})
        for one in theses
    ]
    return sorted(found, key=lambda one: (one.get("probability", 0.5), str(one)))


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, [], {})}
