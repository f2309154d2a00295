"""The conclusion of a candidate's theses: one pooled probability with its arithmetic, and the rating that follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import median_low
from typing import Literal, NamedTuple

from chordesk.models.answers import Rating
from chordesk.models.errors import SettingError
from chordesk.models.thesis import KeptThesis, Pooled, PooledRow

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
