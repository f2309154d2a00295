"""The conclusion of a candidate's theses: one pooled probability with its arithmetic, and the rating that follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any, Literal, NamedTuple

from chordesk.agents.analysts import figure, levels_of, market_day, rows
from chordesk.agents.answers import AnswerError, RecordedCall
from chordesk.models.answers import Rating
from chordesk.models.errors import SettingError
from chordesk.models.thesis import Direction, KeptThesis, Pooled, PooledRow, Thesis, day_of
from chordesk.tools.toolsets import CITE, shorten

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


# A probability of 0 or 1 counts as these: its log odds would outweigh every other thesis.
LEAST, MOST = 0.01, 0.99
ERROR = 0.5  # standard error of one thesis in log odds, before there is a record: 12 points at one half
Z80 = 1.2815515655446004  # quantile of a normal distribution: 10 % and 90 %
EVEN = 0.5


class StatedThesis(NamedTuple):
    """A role's thesis; None of a report without data, or whose figures may not be believed."""

    role: str
    thesis: KeptThesis | None


class _Chance(NamedTuple):
    role: str
    thesis: KeptThesis
    probability: float
    weight: float

    @property
    def odds(self) -> float:
        return log_odds(self.probability)


def pool(theses: Sequence[StatedThesis], weights: Mapping[str, float] | None = None) -> Pooled:
    """Return the conclusion of theses, whatever their order.

    The log odds of the stated probabilities are averaged by weight. The error of that is the error of one thesis
    together with how far they are apart, over their effective number, and larger by the share of the reports that state
    none: such a report adds nothing to the probability, widens the interval, and counts as even in the spread.

    weights: by role, above 0; a role without one has 1.
    """
    given = weights or {}
    stated = [
        _Chance(one.role, one.thesis, one.thesis.probability, given.get(one.role, 1.0))
        for one in sorted(theses, key=lambda one: one.role)
        if one.thesis is not None and one.thesis.probability is not None
    ]
    if not stated:
        return Pooled(rows=[PooledRow(role=role) for role in sorted(one.role for one in theses)])
    total = math.fsum(one.weight for one in stated)
    mean = math.fsum(one.weight * one.odds for one in stated) / total
    apart = math.fsum(one.weight * (one.odds - mean) ** 2 for one in stated) / total
    effective = total**2 / math.fsum(one.weight**2 for one in stated)
    error = math.sqrt((ERROR**2 + apart) / effective * len(theses) / len(stated))
    chances = [one.probability for one in stated] + [EVEN] * (len(theses) > len(stated))
    share = {one.role: one.weight / total for one in stated}
    said = {one.role: one.probability for one in stated}
    horizons = [one.thesis.horizon for one in stated if one.thesis.horizon is not None]
    price, source = _invalidation(stated, mean >= 0)
    move, move_low, move_high = _moves(stated)
    return Pooled(
        probability=round(probability_of(mean), 4),
        low=round(probability_of(mean - Z80 * error), 4),
        high=round(probability_of(mean + Z80 * error), 4),
        spread=round(max(chances) - min(chances), 4),
        horizon=median_low(horizons) if horizons else None,
        move=move,
        move_low=move_low,
        move_high=move_high,
        invalidation_price=price,
        invalidation_source=source,
        theses=len(stated),
        rows=[
            PooledRow(
                role=role,
                probability=said.get(role),
                weight=round(share.get(role, 0.0), 4),
                earned=round(given[role], 4) if role in given else None,
            )
            for role in sorted(one.role for one in theses)
        ],
    )


def log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST), MOST)
    return math.log(inside / (1 - inside))


def probability_of(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def _moves(stated: Sequence[_Chance]) -> tuple[float | None, float | None, float | None]:
    """Return the means of the moves with their ranges, by weight; without any range, of the moves alone."""
    whole = [one for one in stated if None not in (one.thesis.move, one.thesis.move_low, one.thesis.move_high)]
    used = whole or [one for one in stated if one.thesis.move is not None]
    return (
        _mean(used, [one.thesis.move for one in used]),
        _mean(whole, [one.thesis.move_low for one in whole]),
        _mean(whole, [one.thesis.move_high for one in whole]),
    )


def _mean(stated: Sequence[_Chance], values: Sequence[float | None]) -> float | None:
    total = math.fsum(one.weight for one in stated)
    pairs = zip(stated, values, strict=True)
    return round(math.fsum(one.weight * (value or 0.0) for one, value in pairs) / total, 4) if stated else None


def _invalidation(stated: Sequence[_Chance], is_long: bool) -> tuple[float | None, str | None]:
    """Return the price of the level nearest to the close where the position loses, and its role and id."""
    found = []
    for one in stated:
        wrong, price, close = one.thesis.invalidation, one.thesis.invalidation_price, one.thesis.close
        if wrong and price is not None and close is not None and (price < close if is_long else price > close):
            found.append((abs(close - price), f"{one.role} {wrong.level}", price))
    if not found:
        return None, None
    _, source, price = min(found)
    return price, source


_FORM = "write stances, theses, or theses with thresholds, such as theses,buy=0.55,hold=0.5,caution=0.45,spread=0.25"


class Rule(NamedTuple):
    """How reports become a rating. by: their stances, or their theses. buy, hold, caution: the probabilities from which
    a pooled one is BUY, HOLD or CAUTION; below is PASS. spread: the widest of a BUY."""

    by: Literal["stances", "theses"] = "theses"
    buy: float = 0.53
    hold: float = 0.50
    caution: float = 0.40
    spread: float = 0.25


STANCES = Rule("stances")


def rule_of(setting: str) -> Rule:
    """Return the rule of DESK_CONCLUDE. Raises SettingError."""
    by, *pairs = (part.strip() for part in setting.split(","))
    if by == "stances" and not pairs:
        return STANCES
    if by != "theses":
        raise _wrong(repr(setting))
    given: dict[str, float] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name not in ("buy", "hold", "caution", "spread"):
            raise _wrong(f"{pair!r}, which is no threshold")
        try:
            given[name] = float(text)
        except ValueError:
            raise _wrong(f"{pair!r}, and {text!r} is no number") from None
    rule = Rule("theses", **given)
    if not (0 <= rule.caution <= rule.hold <= rule.buy <= 1 and 0 < rule.spread <= 1):
        raise _wrong(f"caution={rule.caution:g}, hold={rule.hold:g}, buy={rule.buy:g}, spread={rule.spread:g}")
    return rule


def _wrong(what: str) -> SettingError:
    return SettingError(f"conclude (DESK_CONCLUDE) has {what}", remedy=f"{_FORM}; 0 <= caution <= hold <= buy <= 1")


def rated(pooled: Pooled, rule: Rule, own: int, least: int) -> tuple[Rating, str]:
    """Return the rating of a conclusion, and the comparison that decided. own: its reports of the desk's own roles with
    data, of which `least` are needed; and as many theses with a probability for a BUY."""
    chance, spread = pooled.probability, pooled.spread
    if own < least:
        return Rating.INSUFFICIENT, f"{own} reports with data; fewer than {least} decide nothing"
    if chance is None or spread is None:
        return Rating.INSUFFICIENT, "no thesis states a probability"
    if chance < rule.caution:
        return Rating.PASS, f"pooled {chance:.3f} is below {rule.caution:g}"
    if chance < rule.hold:
        return Rating.CAUTION, f"pooled {chance:.3f} is below {rule.hold:g}"
    if chance < rule.buy:
        return Rating.HOLD, f"pooled {chance:.3f} is below {rule.buy:g}"
    if pooled.theses < least:
        return Rating.HOLD, f"pooled {chance:.3f}, of {pooled.theses} thesis alone"
    if spread > rule.spread:
        return Rating.HOLD, f"pooled {chance:.3f}, and the theses are {spread:.2f} apart, more than {rule.spread:g}"
    return (
        Rating.BUY,
        f"pooled {chance:.3f} is at least {rule.buy:g}, and the spread of {spread:.2f} at most {rule.spread:g}",
    )


def arithmetic(pooled: Pooled) -> str:
    """Return how a probability was pooled, in one line."""
    if pooled.probability is None:
        return f"No thesis of {', '.join(row.role for row in pooled.rows) or 'any role'} states a probability."
    stated = ", ".join(
        f"{row.role} {row.probability:.3f} x {row.weight:.2f}" for row in pooled.rows if row.probability is not None
    )
    silent = [row.role for row in pooled.rows if row.probability is None]
    earned = [f"{row.role} ({row.earned:.2f})" for row in pooled.rows if row.earned is not None]
    over = f" over {pooled.horizon} sessions" if pooled.horizon is not None else ""
    records = f"; weights by the records of {', '.join(earned)}" if earned else ""
    without = f"; none of {', '.join(silent)}" if silent else ""
    wrong = (
        f"; wrong at {pooled.invalidation_price:g} ({pooled.invalidation_source})"
        if pooled.invalidation_price is not None
        else ""
    )
    return (
        f"Theses: {pooled.probability:.3f} ({pooled.low:.2f} to {pooled.high:.2f}){over} "
        f"from {stated}{records}{without}; spread {pooled.spread:.2f}{wrong}."
    )
