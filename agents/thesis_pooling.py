"""The conclusion of a candidate's theses: one pooled probability with its arithmetic, and the rating that follows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any, Literal, NamedTuple

from chordesk.agents.analysts import figure, levels_of, market_day, rows
from chordesk.agents.turn_answers import AnswerError, RecordedCall
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
# Fields that have a figure of their own in the kept thesis, and lists that may be empty.
_LISTS = ("catalysts", "points_for", "points_against")


def kept(stated: Thesis, subject: Mapping[str, Any], calls: Sequence[RecordedCall]) -> KeptThesis:
    """Return a thesis with the figures behind its ids, yet without its benchmark.

    Raises AnswerError with all faults, for there is one repair: a source that is no answer of this turn, a level that
    no answer has, an invalidation on the side of the close where the thesis is right, a catalyst or an event of the
    past.
    """
    symbol = str(subject["symbol"])
    today = market_day(calls, symbol)
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


# Of a kept thesis what a verdict has once for all of its roles, and what is seen by its absence.
_ELSEWHERE = ("close", "benchmark", "missing")


def told(theses: Mapping[str, Mapping[str, Any]], answers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return a candidate's theses for the trader, with the levels of its chart and its contract; nulls are left out.

    theses: kept ones, by role. answers: of completed reports, by role.
    """
    found: dict[str, Any] = {
        role: {name: value for name, value in _known(thesis).items() if name not in _ELSEWHERE}
        for role, thesis in theses.items()
    }
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
# Standard deviations in log odds; .35 is nine points at one half. SPREAD: of the chances of shares around their base
# rates, so that 95 % lie within 33 and 67 % where that is one half. ERROR: of one role's statement around its share's
# chance. SHARED: the part of the variance of errors that roles share, for they read the same bars, often by one model.
SPREAD, ERROR, SHARED = 0.35, 0.35, 0.5
OWN_DEGREES = 4  # that ERROR has against the distances that roles show
Z95 = 1.9599639845400545
EVEN = 0.5


class StatedThesis(NamedTuple):
    """A role's thesis; None of a report without data, or whose figures may not be believed. forecasts: False of a role
    that says what a share may cost and not which way it goes, whose probability is not pooled."""

    role: str
    thesis: KeptThesis | None
    forecasts: bool = True


class Basis(NamedTuple):
    """What code knows of a share before any role speaks. chance: its base rate, that it beats the median; move: its
    expected return, both None without one; cost: of buying and selling it again, a share of its price."""

    chance: float | None = None
    move: float | None = None
    cost: float = 0.0


class _Chance(NamedTuple):
    role: str
    thesis: KeptThesis
    probability: float
    weight: float

    @property
    def odds(self) -> float:
        return log_odds(self.probability)


class _Posterior(NamedTuple):
    """Of a share's chance in log odds. weight: of the roles against the base rate."""

    odds: float
    error: float
    weight: float


def pool(
    theses: Sequence[StatedThesis], weights: Mapping[str, float] | None = None, basis: Basis | None = None
) -> Pooled:
    """Return the conclusion of theses, whatever their order.

    The theory, all in log odds. A share has a chance t, normal around its base rate b with SPREAD; without a base rate
    b is 0, since of all names half beat their median. A role states t + c + e: c is an error that all roles share, e
    its own, of variance SHARED ERROR^2 and (1 - SHARED) ERROR^2. The weighted mean m of k statements has the error
    v = ERROR^2 (SHARED + (1 - SHARED) sum(w^2)), so the best estimate of t is b + g (m - b) with
    g = SPREAD^2 / (SPREAD^2 + v): a role moves the base rate, one more that agrees moves it less, and no number of
    roles is certain (Winkler, 1981; Clemen and Winkler, 1985). Its error is that of g m and of (1 - g) b, with the own
    variance estimated anew by the distances that the statements show, beside ERROR with OWN_DEGREES: disagreement
    widens the interval, and moves nothing, so that a higher probability of one role lowers none.

    SPREAD, ERROR and SHARED are bounds, not estimates: `tests/agents/test_pooling.py` has the coverage of the interval
    where they hold, and where they do not. A report that states none, of a role that could, adds nothing and widens: v
    grows by their number over that of the statements.

    weights: by role, above 0; a role without one has 1.
    """
    given, basis = weights or {}, basis or Basis()
    bearing = [one for one in theses if one.forecasts]
    stated = [
        _Chance(one.role, one.thesis, one.thesis.probability, given.get(one.role, 1.0))
        for one in sorted(bearing, key=lambda one: one.role)
        if one.thesis is not None and one.thesis.probability is not None
    ]
    known = {"base": None if basis.chance is None else round(basis.chance, 4), "cost": round(basis.cost, 6)}
    asked = sorted((one.role, one.forecasts) for one in theses)
    if not stated:
        return Pooled(**known, rows=[PooledRow(role=role, forecasts=forecasts) for role, forecasts in asked])
    total = math.fsum(one.weight for one in stated)
    share = {one.role: one.weight / total for one in stated}
    found = _posterior(stated, share, log_odds(EVEN if basis.chance is None else basis.chance), len(bearing))
    chances = [one.probability for one in stated]
    said = {one.role: one.probability for one in stated}
    horizons = [one.thesis.horizon for one in stated if one.thesis.horizon is not None]
    price, source = _invalidation(theses, found.odds >= 0)
    move, move_low, move_high = _moves(stated, theses, basis.move, found.weight)
    return Pooled(
        probability=round(probability_of(found.odds), 4),
        low=round(probability_of(found.odds - Z95 * found.error), 4),
        high=round(probability_of(found.odds + Z95 * found.error), 4),
        above=round((1 + math.erf(found.odds / found.error / math.sqrt(2))) / 2, 4),
        **known,
        spread=round(max(chances) - min(chances), 4),
        horizon=median_low(horizons) if horizons else None,
        move=move,
        move_low=move_low,
        move_high=move_high,
        invalidation_price=price,
        invalidation_source=source,
        theses=len(stated),
        rows=[_row(role, forecasts, said, share, given) for role, forecasts in asked],
    )


def _row(
    role: str,
    forecasts: bool,
    said: Mapping[str, float],
    share: Mapping[str, float],
    given: Mapping[str, float],
) -> PooledRow:
    return PooledRow(
        role=role,
        forecasts=forecasts,
        probability=said.get(role),
        weight=round(share.get(role, 0.0), 4),
        earned=round(given[role], 4) if role in given else None,
    )


def _posterior(stated: Sequence[_Chance], share: Mapping[str, float], base: float, asked: int) -> _Posterior:
    """Return the chance after what was stated, as `pool` has it. asked: the reports that might have stated one."""
    mean = math.fsum(share[one.role] * one.odds for one in stated)
    squares = math.fsum(part**2 for part in share.values())
    more = asked / len(stated)
    weight = SPREAD**2 / (SPREAD**2 + more * ERROR**2 * (SHARED + (1 - SHARED) * squares))
    apart = math.fsum(share[one.role] * (one.odds - mean) ** 2 for one in stated) * len(stated)
    own = (OWN_DEGREES * (1 - SHARED) * ERROR**2 + apart) / (OWN_DEGREES + len(stated) - 1)
    # Who is far apart is likely to be as far off together.
    common = max(SHARED * ERROR**2, own * SHARED / (1 - SHARED))
    variance = weight**2 * more * (common + own * squares) + (1 - weight) ** 2 * SPREAD**2
    return _Posterior(base + weight * (mean - base), math.sqrt(variance), weight)


def log_odds(probability: float) -> float:
    inside = min(max(probability, LEAST), MOST)
    return math.log(inside / (1 - inside))


def probability_of(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def _moves(
    stated: Sequence[_Chance], theses: Sequence[StatedThesis], base: float | None, weight: float
) -> tuple[float | None, float | None, float | None]:
    """Return the expected return with its range: from the base rate's, or 0 without one, so much of the way to the
    mean of the stated ones as the probability goes. Of the range the widest ends that a role states, for it also says
    what may be lost: of roles of risk too."""
    moves = [(one.weight, one.thesis.move) for one in stated if one.thesis.move is not None]
    total = math.fsum(part for part, _ in moves)
    ranges = [one.thesis for one in theses if one.thesis is not None]
    lows = [one.move_low for one in ranges if one.move_low is not None]
    highs = [one.move_high for one in ranges if one.move_high is not None]
    expected = base
    if moves:
        mean = math.fsum(part * move for part, move in moves) / total
        expected = (base or 0.0) + weight * (mean - (base or 0.0))
    if expected is None:
        return None, None, None
    low, high = min([*lows, expected], default=expected), max([*highs, expected], default=expected)
    return round(expected, 4), round(low, 4) if lows else None, round(high, 4) if highs else None


def _invalidation(theses: Sequence[StatedThesis], is_long: bool) -> tuple[float | None, str | None]:
    """Return the price of the level nearest to the close where the position loses, and its role and id."""
    found = []
    for role, one, forecasts in theses:
        if one is None or (one.probability is None and forecasts):
            continue
        wrong, price, close = one.invalidation, one.invalidation_price, one.close
        if wrong and price is not None and close is not None and (price < close if is_long else price > close):
            found.append((abs(close - price), f"{role} {wrong.level}", price))
    if not found:
        return None, None
    _, source, price = min(found)
    return price, source


_FORM = "write stances, theses, or theses with thresholds, such as theses,buy=0.55,hold=0.5,caution=0.45,sure=0.8"


class Rule(NamedTuple):
    """How reports become a rating. by: their stances, or their theses. buy, hold, caution: the probabilities from which
    a pooled one is BUY, HOLD or CAUTION; below is PASS. sure: how likely a BUY's chance is above one half, by its
    interval: by default twice as likely as not."""

    by: Literal["stances", "theses"] = "theses"
    buy: float = 0.52
    hold: float = 0.50
    caution: float = 0.44
    sure: float = 0.67


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
        if name not in ("buy", "hold", "caution", "sure"):
            raise _wrong(f"{pair!r}, which is no threshold")
        try:
            given[name] = float(text)
        except ValueError:
            raise _wrong(f"{pair!r}, and {text!r} is no number") from None
    rule = Rule("theses", **given)
    if not (0 <= rule.caution <= rule.hold <= rule.buy <= 1 and 0 < rule.sure < 1):
        raise _wrong(f"caution={rule.caution:g}, hold={rule.hold:g}, buy={rule.buy:g}, sure={rule.sure:g}")
    return rule


def _wrong(what: str) -> SettingError:
    return SettingError(
        f"conclude (DESK_CONCLUDE) has {what}", remedy=f"{_FORM}; 0 <= caution <= hold <= buy <= 1, 0 < sure < 1"
    )


def rated(pooled: Pooled, rule: Rule, own: int, least: int) -> tuple[Rating, str]:
    """Return the rating of a conclusion, and the comparison that decided. own: its reports of the desk's own roles with
    data, of which `least` are needed; and as many theses with a probability for a BUY.

    A BUY gains by its expected move less what it costs to buy and to sell again, so it needs one above 0; and it is
    bought rather than another name, so its chance of beating the median is to be above one half, and surely so.
    """
    chance, above = pooled.probability, pooled.above
    if own < least:
        return Rating.INSUFFICIENT, f"{own} reports with data; fewer than {least} decide nothing"
    if chance is None or above is None:
        return Rating.INSUFFICIENT, "no thesis states a probability"
    if chance < rule.caution:
        return Rating.PASS, f"pooled {chance:.3f} is below {rule.caution:g}"
    if chance < rule.hold:
        return Rating.CAUTION, f"pooled {chance:.3f} is below {rule.hold:g}"
    if chance < rule.buy:
        return Rating.HOLD, f"pooled {chance:.3f} is below {rule.buy:g}"
    if pooled.theses < least:
        return Rating.HOLD, f"pooled {chance:.3f}, of {pooled.theses} thesis alone"
    if above < rule.sure:
        return Rating.HOLD, (
            f"pooled {chance:.3f}, of {pooled.low:.2f} to {pooled.high:.2f}, is above one half with {above:.2f}, "
            f"less than {rule.sure:g}"
        )
    if pooled.move is None:
        return Rating.HOLD, f"pooled {chance:.3f}, and no thesis or base rate states an expected move"
    if pooled.move <= pooled.cost:
        return Rating.HOLD, (
            f"the expected move of {pooled.move:+.2%} does not pay the {pooled.cost:.2%} that buying and selling cost"
        )
    return Rating.BUY, (
        f"pooled {chance:.3f} is at least {rule.buy:g}, above one half with {above:.2f}, and the expected move of "
        f"{pooled.move:+.2%} pays the cost of {pooled.cost:.2%}"
    )


def arithmetic(pooled: Pooled) -> str:
    """Return how a probability was pooled, in one line."""
    if pooled.probability is None:
        return f"No thesis of {', '.join(row.role for row in pooled.rows) or 'any role'} states a probability."
    stated = ", ".join(
        f"{row.role} {row.probability:.3f} x {row.weight:.2f}" for row in pooled.rows if row.probability is not None
    )
    silent = [row.role for row in pooled.rows if row.probability is None and row.forecasts]
    base = "one half" if pooled.base is None else f"{pooled.base:.3f}, the base rate"
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
        f"from {base}, and {stated}{records}{without}; spread {pooled.spread:.2f}{wrong}."
    )
