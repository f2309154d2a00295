"""The policies of the screeners: the names of a shard that the rules of each lens put forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from chordesk.agents import first_calls
from chordesk.agents.first_calls import OVERVIEW_BATCH
from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, calls_of, number, policy, shown, symbols_of

Row = Payload
Score = Callable[[Row], float]
# Title and unit of each figure that a thesis names.
_TITLES = {
    "momentum20": ("20-session momentum", "percent"),
    "rsi14": ("RSI-14", "number"),
    "fromHigh": ("distance from the high", "percent"),
    "highSessions": ("of", "sessions"),
    "volatility20": ("realised volatility", "percent"),
    "trailingPE": ("price to earnings", "times"),
    "profitMargin": ("profit margin", "percent"),
    "revenueGrowth": ("revenue growth", "percent"),
    "recommendationMean": ("mean analyst rating", "number"),
    "gap": ("opening gap", "percent"),
    "change": ("change of the day", "percent"),
    "volumeRatio": ("volume against its mean", "times"),
    "momentum60": ("60-session momentum", "percent"),
    "drawdown60": ("drawdown", "percent"),
}


@policy("screener_technical")
def technical(case: Case) -> Call | Payload:
    """Put forward names that rise without being overbought: every technical bound holds; by momentum and strength."""
    if call := case.next_call(_signals(case)):
        return call
    rows = [row for row in _rows(case) if _all(limits.TECHNICAL_BOUNDS, row)]
    return _hits(rows, _technical_score, _technical_confidence, _technical_thesis)


@policy("screener_fundamental")
def fundamental(case: Case) -> Call | Payload:
    """Put forward names whose known company figures are sound; a company with too few of them is left out."""
    symbols = symbols_of(case.subject)
    plan = calls_of(first_calls.shard_companies(case.subject))
    # The second half is worth a call only when the source had any data for the first.
    rest = symbols[OVERVIEW_BATCH : 2 * OVERVIEW_BATCH]
    if rest and case.has_data("company_get"):
        plan += calls_of([first_calls.companies(rest)])
    if call := case.next_call(plan):
        return call
    wanted = set(symbols)
    priced = [row for row in case.rows("company_get", "companies") if number(row, "lastClose") is not None]
    rows = [row for row in map(flat, priced) if row.get("symbol") in wanted and _sound(row)]
    return _hits(rows, _fundamental_score, _fundamental_confidence, _fundamental_thesis)


@policy("screener_catalyst")
def catalyst(case: Case) -> Call | Payload:
    """Put forward names with an event today: a gap up, a volume spike or a strong day, closed without a fall."""
    if call := case.next_call(calls_of(first_calls.shard_movers(case.subject))):
        return call
    moving = {row.get("symbol") for row in case.rows("sp500_movers", "movers")}
    rows = [{**row, "mover": row.get("symbol") in moving} for row in _rows(case)]
    rows = [row for row in rows if _triggers(row) and limits.CATALYST_CHANGE.holds(number(row, "change"))]
    return _hits(rows, _catalyst_score, _catalyst_confidence, _catalyst_thesis)


@policy("screener_options")
def options(case: Case) -> Call | Payload:
    """Put forward names calm enough to sell premium on, as equity under stock-only constraints. Realised volatility
    stands in for implied where that is missing, and the thesis names it so."""
    plan = _signals(case)
    rows = sorted((row for row in _rows(case) if _all(limits.OPTIONS_BOUNDS, row)), key=_by(_options_score))
    if rows:
        plan.append(Call("volatility_get", {"symbols": [row["symbol"] for row in rows[: limits.OPTIONS_BATCH]]}))
    if call := case.next_call(plan):
        return call
    volatilities = {row.get("symbol"): row for row in case.rows("volatility_get", "volatilities")}
    rows = [{**row, "implied": number(volatilities.get(row["symbol"], {}), "iv")} for row in rows]
    instrument = "option" if options_allowed(case.subject) else "equity"
    return _hits(rows, _options_score, _options_confidence, _options_thesis, instrument)


@policy("screener_unified")
def unified(case: Case) -> Call | Payload:
    """Put forward the names that the rules of most lenses hold for; company figures are looked up where prices fit."""
    plan = _signals(case)
    rows = sorted(({**row, "views": _price_views(row)} for row in _rows(case)), key=_by(_unified_score))
    rows = [row for row in rows if row["views"]][:OVERVIEW_BATCH]
    if rows:
        plan += calls_of([first_calls.companies([row["symbol"] for row in rows])])
    if call := case.next_call(plan):
        return call
    companies = {row.get("symbol"): flat(row) for row in case.rows("company_get", "companies")}
    rows = [_with_company(row, companies.get(row["symbol"], {})) for row in rows]
    return _hits(rows, _unified_score, _unified_confidence, _unified_thesis)


@policy("screener_*")
def own(case: Case) -> Call | Payload:
    """Put forward the names that the rule of a person's own lens holds for; without a rule none. `rank` compares the
    names of the shard."""
    if (rule := case.subject.get("rule")) is None:
        return {"candidates": []}
    if (passed := case.subject.get("passed")) is not None:
        # As of any turn, its answer rests on a tool's.
        if call := case.next_call(_signals(case)):
            return call
        return {"candidates": [_ruled(case, row) for row in passed[: rule["hits"]]]}
    # Screens of the desk's own lenses alone have no use for numpy.
    from chordesk.agents.rulebook.lens_rules import calls_of, ruled_rows

    if call := case.next_call(calls_of(case, rule)):
        return call
    return {"candidates": [_ruled(case, row) for row in ruled_rows(case, rule)]}


def _ruled(case: Case, row: Row) -> Payload:
    known = ", ".join(
        f"{name} missing" if value is None else f"{name} {value:.4g}" for name, value in row["figures"].items()
    )
    scored = "" if row.get("score") is None else f", score {row['score']:.4g}"
    thesis = f"{PREFIX} the rule of {case.subject.get('lens')} holds: {known}{scored}."
    return {"symbol": row["symbol"], "instrument": "equity", "confidence": row["confidence"], "thesis": thesis}


def options_allowed(subject: Payload) -> bool:
    constraints = subject.get("constraints")
    if not isinstance(constraints, dict) or constraints.get("stockOnly", True):
        return False
    return constraints.get("optionsMode") in ("options-only", "both")


def flat(row: Row) -> Row:
    figures: Row = {"symbol": row.get("symbol")}
    for section in ("fundamentals", "earnings", "ratings"):
        found = row.get(section)
        if isinstance(found, dict):
            figures.update({name: value for name, value in found.items() if name != "symbol"})
    return figures


def _signals(case: Case) -> list[Call]:
    return calls_of(first_calls.shard_signals(case.subject))


def _rows(case: Case) -> list[Row]:
    wanted = set(symbols_of(case.subject))
    return [row for row in case.signals() if row.get("symbol") in wanted and limits.UNSPLIT.holds(row["splitLike"])]


def _all(bounds: Iterable[limits.Bound], row: Row) -> bool:
    return all(bound.holds(number(row, bound.field)) for bound in bounds)


def _by(score: Score) -> Callable[[Row], tuple[float, str]]:
    return lambda row: (-score(row), str(row["symbol"]))


def _hits(
    rows: Iterable[Row],
    score: Score,
    confidence: Callable[[Row], str],
    thesis: Callable[[Row], str],
    instrument: str = "equity",
) -> Payload:
    best = sorted(rows, key=_by(score))[: limits.HITS_PER_LENS]
    hits = [
        {"symbol": row["symbol"], "instrument": instrument, "confidence": confidence(row), "thesis": thesis(row)}
        for row in best
    ]
    return {"candidates": hits}


def _value(row: Row, field: str) -> float:
    """Return a figure for a score, 0 when it is missing: rows were filtered on it, or its absence must add nothing."""
    return number(row, field) or 0.0


def _figures(row: Row, *fields: str) -> str:
    known = [(_TITLES[field], number(row, field)) for field in fields]
    return ", ".join(f"{title} missing" if it is None else f"{title} {shown(it, unit)}" for (title, unit), it in known)


def _technical_score(row: Row) -> float:
    return _value(row, "momentum20") + 0.5 * _value(row, "momentum60") + _value(row, "fromHigh")


def _technical_confidence(row: Row) -> str:
    held = sum(bound.holds(number(row, bound.field)) for bound in limits.TECHNICAL_STRONG)
    return "high" if held == len(limits.TECHNICAL_STRONG) else "medium" if held else "speculative"


def _technical_thesis(row: Row) -> str:
    figures = _figures(row, "momentum20", "rsi14", "volatility20", "fromHigh", "highSessions")
    return f"{PREFIX} it rises and is not overbought: {figures}."


def _sound(row: Row) -> bool:
    known = [bound for bound in limits.FUNDAMENTAL_BOUNDS if number(row, bound.field) is not None]
    return len(known) >= limits.FUNDAMENTAL_LEAST and _all(known, row)


def _fundamental_score(row: Row) -> float:
    price_earnings = number(row, "trailingPE")
    earnings_yield = 1 / price_earnings if price_earnings else 0.0
    return _value(row, "profitMargin") + _value(row, "revenueGrowth") + earnings_yield


def _fundamental_confidence(row: Row) -> str:
    known = sum(number(row, bound.field) is not None for bound in limits.FUNDAMENTAL_BOUNDS)
    return "high" if known == len(limits.FUNDAMENTAL_BOUNDS) else "medium" if known > 2 else "speculative"


def _fundamental_thesis(row: Row) -> str:
    figures = _figures(row, "trailingPE", "profitMargin", "revenueGrowth", "recommendationMean")
    return f"{PREFIX} its known company figures are sound: {figures}."


def _triggers(row: Row) -> int:
    return sum(bound.holds(number(row, bound.field)) for bound in limits.CATALYST_TRIGGERS)


def _catalyst_score(row: Row) -> float:
    # A volume of twice the mean weighs as much as a gap or a day of five per cent.
    spike = max(_value(row, "volumeRatio") - 1, 0.0)
    return _triggers(row) + abs(_value(row, "gap")) + _value(row, "change") + 0.05 * spike


def _catalyst_confidence(row: Row) -> str:
    met = _triggers(row)
    return "high" if met == len(limits.CATALYST_TRIGGERS) else "medium" if met == 2 or row["mover"] else "speculative"


def _catalyst_thesis(row: Row) -> str:
    figures = _figures(row, "gap", "change", "volumeRatio")
    where = " It is among the day's leading gainers." if row["mover"] else ""
    return f"{PREFIX} something moved it today: {figures}.{where} What it was is not known from prices."


def _options_score(row: Row) -> float:
    return _value(row, "volatility20") + _value(row, "momentum60") + _value(row, "drawdown60")


def _options_confidence(row: Row) -> str:
    if row["implied"] is None:
        return "speculative"
    return "high" if row["implied"] >= _value(row, "volatility20") else "medium"


def _options_thesis(row: Row) -> str:
    realised = shown(_value(row, "volatility20"), "percent")
    if row["implied"] is None:
        volatility = f"realised volatility {realised} stands in for implied volatility, which is missing"
    else:
        volatility = f"implied volatility {shown(row['implied'], 'percent')} against realised {realised}"
    trend = _figures(row, "momentum60", "drawdown60")
    return f"{PREFIX} premium on a name that does not fall: {volatility}; {trend}."


def _price_views(row: Row) -> list[str]:
    views = {
        "technical": _all(limits.TECHNICAL_BOUNDS, row),
        "catalyst": _triggers(row) > 0 and limits.CATALYST_CHANGE.holds(number(row, "change")),
        "options": _all(limits.OPTIONS_BOUNDS, row),
    }
    return [lens for lens, holds in views.items() if holds]


def _with_company(row: Row, company: Row) -> Row:
    return {**company, **row, "views": [*row["views"], *(["fundamental"] if _sound(company) else [])]}


def _unified_score(row: Row) -> float:
    return len(row["views"]) + _technical_score(row)


def _unified_confidence(row: Row) -> str:
    return "high" if len(row["views"]) > 2 else "medium" if len(row["views"]) > 1 else "speculative"


def _unified_thesis(row: Row) -> str:
    figures = _figures(row, "momentum20", "rsi14", "volatility20", "trailingPE")
    return f"{PREFIX} the views {', '.join(row['views'])} hold: {figures}."
