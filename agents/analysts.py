"""Completion of the analysts' answers: code looks up what they name in the tool answers of the turn."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from pydantic.alias_generators import to_camel

from chordesk.agents.turn_answers import AnswerError, RecordedCall
from chordesk.models.analysis import (
    WRITES,
    ChartAnalysis,
    ExtensionFigures,
    NamedLevel,
    OptionsAnalysis,
    ResearchAnalysis,
    Strategy,
    TrendFigures,
    WrittenContract,
)
from chordesk.models.answers import Stance
from chordesk.models.market import OptionContract, parse_contract, root_of
from chordesk.tools.charts.frames import PERIODS, SESSIONS_A_WEEK
from chordesk.tools.market.clock import day_of

Row = Mapping[str, Any]


def rows(calls: Sequence[RecordedCall], tools: Mapping[str, str], symbol: str | None = None) -> Iterator[Row]:
    """Yield the data rows of successful answers. tools: by name of a tool, the key of its rows. symbol: only rows on
    it."""
    for call in calls:
        key = tools.get(call.answer.tool)
        if key is None or not call.answer.success:
            continue
        found = call.answer.payload.get(key)
        for row in found if isinstance(found, list) else ():
            if isinstance(row, dict) and symbol in (None, row.get("symbol")):
                yield row


def market_day(calls: Sequence[RecordedCall], symbol: str) -> dt.date | None:
    """Return the day of the newest answer where a symbol is listed."""
    moments = (call.answer.payload.get("asOf") for call in reversed(calls) if call.answer.success)
    moment = next((one for one in moments if isinstance(one, str)), None)
    return day_of(dt.datetime.fromisoformat(moment), symbol) if moment is not None else None


def figure(row: Row, field: str) -> float | None:
    value = row.get(field)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


CHART_STANCES = {
    "bullish": Stance.CONFIRMED,
    "neutral": Stance.CAUTION,
    "bearish": Stance.CAUTION,
    "reject": Stance.REJECT,
}
INTERVALS = ("day", "week")  # of the charts that a report's figures and levels are of
_STUDIES = {"chart_study_get": "studies"}
_BOTH = {**_STUDIES, "chart_render": "charts"}
_LINES = {"TS": "trendline_support", "TR": "trendline_resistance"}
_KINDS = {"S": "support", "R": "resistance", "C": "confluence"}
_IDS = ("support", "resistance", "confluence")
_RATIOS = {"F": "fib_", "E": "fib_extension_"}


def complete_chart(answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> dict[str, Any]:
    """Raises AnswerError for a level that no answer of the turn has, a support above the close, a resistance below
    it."""
    symbol = str(subject["symbol"])
    known = levels_of(symbol, calls)
    measured = _last(_charts(calls, _STUDIES, symbol)) or _last(_charts(calls, _BOTH, symbol)) or {}
    close = figure(measured, "close")
    support = _named("support", answer["support"], known, symbol)
    resistance = _named("resistance", answer["resistance"], known, symbol)
    _require_side("support", support, close)
    _require_side("resistance", resistance, close)
    made = ChartAnalysis(
        verdict=CHART_STANCES[answer["recommendation"]],
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
    found = (_sessions(row) for row in _charts(calls, _BOTH, str(subject["symbol"])))
    return max(found, default=0) >= PERIODS["day"].trend


def _charts(calls: Sequence[RecordedCall], tools: Mapping[str, str], symbol: str) -> Iterator[Row]:
    return (row for row in rows(calls, tools, symbol) if row.get("interval") in INTERVALS)


def _sessions(row: Row) -> float:
    return (figure(row, "bars") or 0) * (SESSIONS_A_WEEK if row.get("interval") == "week" else 1)


def levels_of(symbol: str, calls: Sequence[RecordedCall]) -> dict[str, NamedLevel]:
    """Return the levels and lines of a symbol in the answers of a turn, by id. An id is that of the last answer that
    has it. A picture's level is the study's where the price is the same: the study has its touches."""
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
        if "broken" in one:
            continue
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
    for one in levels:
        if close is not None and (one.price > close if field == "support" else one.price < close):
            side = "above" if field == "support" else "below"
            raise AnswerError(f"{field}: {one.id} at {one.price} is {side} the close of {close}, so it is no {field}")


def _trend(found: Row | None) -> TrendFigures | None:
    if not found:
        return None
    return TrendFigures(**{name: found[to_camel(name)] for name in TrendFigures.model_fields})


def _extension(found: Row | None) -> ExtensionFigures | None:
    return ExtensionFigures(atr=found["atr"], risk=found["risk"]) if found else None


def _last(found: Iterable[Row]) -> Row | None:
    return next(reversed(list(found)), None)


OPTIONS_STANCES = {"select": Stance.CONFIRMED, "reject": Stance.REJECT}
_CHAINS = {"option_chain_get": "contracts", "option_greeks_get": "contracts"}
_INPUTS = dict.fromkeys((*_CHAINS, "volatility_get", "options_unusual"), "chains")
_VOLATILITIES = {"volatility_get": "volatilities"}
# Figures without which a contract cannot be chosen.
NEEDED = ("strike", "dte", "bid", "ask", "mid", "delta", "rocWeekly", "breakEven")
_SLACK = 1e-9  # limits and figures are decimals
# Fields of the analysis, by the field of a tool's row.
_FIGURES = {
    "best_strike": "strike", "premium": "mid", "bid": "bid", "ask": "ask", "roc": "roc", "weekly_roc": "rocWeekly",
    "annualized_roc": "rocAnnual", "delta": "delta", "gamma": "gamma", "theta": "theta", "vega": "vega", "iv": "iv",
    "break_even": "breakEven", "pop": "pop", "dte": "dte",
}  # fmt: skip
_OF_SYMBOL = {"iv_hv_ratio": "ivHvRatio", "put_skew": "putSkew", "term_slope": "termSlope", "iv_rank": "ivRank"}
_TEXTS = {"best_expiration": "expiry", "liquidity_score": "liquidity", "source": "source", "greeks": "greeks"}


def complete_options(
    answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]
) -> dict[str, Any]:
    """Return the answer as an OptionsAnalysis. Raises AnswerError for a selection without a contract, for a contract
    that no answer of the turn has, of another symbol or kind, expired, outside the limits, or without a figure that a
    choice needs. A rejection has no contract."""
    symbol, strategy = str(subject["symbol"]), cast(Strategy, subject["strategy"])
    listed = {str(row["contract"]): row for row in rows(calls, _CHAINS)}
    chosen, others = None, list[Row]()
    if answer["recommendation"] == "select":
        names = _names(answer, strategy)
        found = [_row(name, subject, listed, market_day(calls, symbol)) for name in names]
        if found:
            chosen, others = found[0], found[1:]
            _require_figures(chosen)
            _require_limits(chosen, subject["limits"])
    volatility = next(iter([*rows(calls, _VOLATILITIES, symbol)][-1:]), {})
    row = chosen or {}
    made = OptionsAnalysis(
        verdict=OPTIONS_STANCES[answer["recommendation"]],
        symbol=symbol,
        strategy=strategy,
        contract=row.get("contract"),
        **{name: figure(volatility, given) for name, given in _OF_SYMBOL.items()},
        alternative_strikes=[_alternative(one) for one in others],
        **{name: figure(row, given) for name, given in _FIGURES.items()},
        **{name: row.get(given) for name, given in _TEXTS.items()},
        **{name: value for name, value in answer.items() if name not in ("contract", "alternatives")},
    )
    return made.model_dump(mode="json")


def has_chain(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    return any(row.get("expiries") for row in rows(calls, _INPUTS, str(subject["symbol"])))


def _names(answer: Mapping[str, Any], strategy: Strategy) -> list[str]:
    named = [name for name in (answer["contract"], *answer["alternatives"]) if name is not None]
    if strategy not in WRITES:
        if named:
            raise AnswerError(f"contract: {named[0]!r}, but the strategy {strategy} writes none: answer null and []")
        return []
    if answer["contract"] is None:
        raise AnswerError("contract: null with the recommendation select: name the contract to write, or reject")
    return list(dict.fromkeys(named))


def _row(name: str, subject: Mapping[str, Any], listed: Mapping[str, Row], today: dt.date | None) -> Row:
    """Return the figures of a contract. Raises AnswerError where the contract cannot be written."""
    symbol, kind = str(subject["symbol"]), WRITES[subject["strategy"]]
    contract: OptionContract | None = parse_contract(name.strip().upper())
    if contract is None:
        raise AnswerError(f"contract: {name!r} is no OCC symbol, such as AAPL261218P00180000")
    if contract.underlying != root_of(symbol):
        raise AnswerError(f"contract: {contract.symbol} is on {contract.underlying}, and the subject is {symbol}")
    if contract.kind != kind:
        raise AnswerError(f"contract: {contract.symbol} is a {contract.kind}; {subject['strategy']} writes a {kind}")
    if today is not None and contract.expiry < today:
        raise AnswerError(f"contract: {contract.symbol} expired on {contract.expiry}; today is {today}")
    if contract.symbol not in listed:
        raise AnswerError(f"contract: no option answer of this turn has {contract.symbol}; name one that an answer has")
    return listed[contract.symbol]


def _require_figures(row: Row) -> None:
    if lacking := [name for name in NEEDED if figure(row, name) is None]:
        why = f" ({row['problem']})" if row.get("problem") else ""
        raise AnswerError(f"contract: {row['contract']} has no {', '.join(lacking)}{why}, so it cannot be chosen")


def _require_limits(row: Row, limits: Mapping[str, Any]) -> None:
    delta, weekly, days = abs(row["delta"]), row["rocWeekly"], row["dte"]
    for name, value, broken, limit in (
        ("|delta|", delta, delta > limits["maxDelta"] + _SLACK, f"maxDelta is {limits['maxDelta']}"),
        ("rocWeekly", weekly, weekly < limits["minWeeklyRoc"] - _SLACK, f"minWeeklyRoc is {limits['minWeeklyRoc']}"),
        ("dte", days, days < limits["dteMin"], f"dteMin is {limits['dteMin']}"),
        ("dte", days, days > limits["dteMax"], f"dteMax is {limits['dteMax']}"),
    ):
        if broken:
            raise AnswerError(f"contract: {name} of {row['contract']} is {value}, and {limit}")


def _alternative(row: Row) -> WrittenContract:
    return WrittenContract(
        contract=row["contract"],
        strike=figure(row, "strike"),
        expiration=row.get("expiry"),
        dte=row.get("dte"),
        premium=figure(row, "mid"),
        weekly_roc=figure(row, "rocWeekly"),
        delta=figure(row, "delta"),
        liquidity_score=row.get("liquidity"),
        source=row.get("source"),
    )


RISKS = ("news_risk", "earnings_risk", "short_interest_risk")
_NO_SOURCES = ("company_get", "page_read")
_EARNINGS = {"earnings_dates": "earnings"}


def complete_research(
    answer: dict[str, Any], subject: Mapping[str, Any], calls: Sequence[RecordedCall]
) -> dict[str, Any]:
    """Return the answer as a ResearchAnalysis.

    A pass is CONFIRMED only where each risk is known and low; else it is CAUTION.
    """
    symbol = str(subject["symbol"])
    due = _next_earnings(symbol, calls)
    made = ResearchAnalysis(
        verdict=_verdict(answer),
        symbol=symbol,
        earnings_date=due.isoformat() if due is not None else None,
        **answer,
    )
    return made.model_dump(mode="json")


def has_source(subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> bool:
    """Return whether a source on the company had data. Name, price and web pages do not count."""
    return any(call.answer.has_data for call in calls if call.answer.tool not in _NO_SOURCES)


def _verdict(answer: Mapping[str, Any]) -> Stance:
    if answer["recommendation"] == "reject":
        return Stance.REJECT
    calm = all(answer[name] == "low" for name in RISKS)
    return Stance.CONFIRMED if calm else Stance.CAUTION


def _next_earnings(symbol: str, calls: Sequence[RecordedCall]) -> dt.date | None:
    """Return the date of the next report, as the last answer of the turn has it; the first day of a window."""
    following = [row.get("next") for row in rows(calls, _EARNINGS, symbol)]
    found = following[-1] if following else None
    return dt.date.fromisoformat(found["date"]) if found else None
