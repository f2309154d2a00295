"""Figures that follow from two others by plain arithmetic: a difference, a ratio, a change in per cent, a number of
days, a part of a count."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

from chordesk.agents.grounding.context import PART_OF, NamedRows, Place
from chordesk.agents.grounding.figures import Figure
from chordesk.agents.grounding.matching import NAMED, Fit, Matcher, chance, distinct
from chordesk.agents.grounding.sources import Datum

# Most probable chance fit of a result: of two figures that the sentence cites, and of others.
CITED_CHANCE, DERIVED_CHANCE = 0.2, 0.1
CHANGE = "- 1"
_MOST_OPERANDS = 16
_MOST_VALUES = 6  # of a field that stands for one operand
_MOST_OF_FIELD = 400
_FEW = 2  # results: of one pair of operands, a change on either base
_AS_SHARE = re.compile(r"\b(?:share|fraction|part|percentage|per cent) of\b")
_SHARE_OF = re.compile(r"\s?(?:of|as much)\b")


class Derived(NamedTuple):
    """A result with its two operands."""

    match: Fit
    other: Datum
    operation: str


def derive(matcher: Matcher, place: Place, cited: Sequence[Datum], known: NamedRows) -> Derived | None:
    """Return how a figure follows from two figures that its sentence cites or names, None if it does not.

    A comparing term must stand beside it. cited: sources of the sentence's other figures.
    """
    figure = place.figure
    if (
        figure.date is not None
        or not math.isfinite(figure.value)
        or not (place.relates or figure.unit in ("times", "points", "money"))
    ):
        return None
    size, shares = abs(figure.value), bool(_SHARE_OF.match(place.after) or _AS_SHARE.search(place.before))
    for pairs, most in _pairs(matcher, place, cited, known):
        results = [
            Derived(Fit(one, abs(value)), other, operation)
            for one, other in pairs
            for operation, value in _OPERATIONS.get(figure.unit, _none)(one, other)
            if math.isfinite(value) and (figure.unit != "percent" or shares is not operation.endswith(CHANGE))
        ]
        fitting = [one for one in results if abs(one.match.value - size) <= figure.tolerance]
        pool = [one.match for one in results]
        if fitting and (chance(size, figure.step, pool) <= most or few(figure, pool)):
            return min(fitting, key=lambda one: abs(one.match.value - size))
    return None


def few(figure: Figure, pool: Sequence[Fit]) -> bool:
    """Return whether a figure with a unit can be no other results than those of one pair of operands."""
    return figure.unit not in ("plain", "money", "times") and distinct(abs(figure.value), figure.step, pool) <= _FEW


def part_of(place: Place, following: Place | None, source: Datum | None) -> bool:
    """Return True for the first count of "3 of 4" where the second is the length of a list: the choice of the three is
    the model's own, that there can be so many is not."""
    if following is None or source is None or place.whole is not following.whole:
        return False
    counts = source.kind in ("count", "size") and place.figure.unit in ("plain", "days")
    return counts and bool(PART_OF.match(place.between(following))) and place.figure.value <= source.value


def _pairs(
    matcher: Matcher, place: Place, cited: Sequence[Datum], known: NamedRows
) -> Iterator[tuple[list[tuple[Datum, Datum]], float]]:
    """Yield the pairs of operands with the most probable chance fit, the closest to the text first.

    These are two figures that the sentence cites; one of them, or of a field that is named beside the figure, and the
    price of the subject; two such fields.
    """
    own = list({one.value: one for one in cited}.values())[:_MOST_OPERANDS]
    price = list({one.value: one for one in matcher.reference()}.values())[:_MOST_VALUES]
    terms = sorted(concept for concept in place.near if not concept.startswith("="))
    named = [one for concept in terms for one in _few(matcher, concept, known)]
    yield list(combinations(own, 2)), CITED_CHANCE
    if not place.relates:
        return
    yield list(product(own, price)), DERIVED_CHANCE
    yield list(product(named[:_MOST_OPERANDS], price)), DERIVED_CHANCE
    yield list(product(_of_levels(matcher, known), price)), DERIVED_CHANCE
    yield list(combinations(named[:_MOST_VALUES], 2)), DERIVED_CHANCE


def _of_levels(matcher: Matcher, known: NamedRows) -> list[Datum]:
    """Return the prices of the levels that the text names by their ids."""
    levels = (one for one in matcher.index.by_concept.get("level", ()) if one.kind == "price" and "id" in one.row.names)
    return list({one.value: one for one in levels if known.level(one.row) == NAMED}.values())[:_MOST_VALUES]


def _few(matcher: Matcher, concept: str, known: NamedRows) -> list[Datum]:
    """Return the figures of a field that agree with the text, none where they have many values."""
    data = matcher.index.by_concept.get(concept, ())
    if len(data) > _MOST_OF_FIELD:
        return []
    tables: dict[str, dict[float, Datum]] = {}
    for one in data:
        plain = one.origin.source == "tool" and one.kind != "size" and not one.step
        if plain and known.level(one.row):
            tables.setdefault(one.row.table, {})[one.value] = one
    few = [values for values in tables.values() if len(values) <= _MOST_VALUES]
    return list({one.value: one for values in few for one in values.values()}.values())


def _percent(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    a, b = one.value, other.value
    if _both(one, other, "price") or _both(one, other, "count"):
        if b:
            yield "a / b - 1", (a / b - 1) * 100
            yield "a / b", a / b * 100
        if a:
            yield "b / a - 1", (b / a - 1) * 100
            yield "b / a", b / a * 100
    elif _both(one, other, "fraction"):
        yield "a - b", (a - b) * 100


def _times(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if one.kind != other.kind and "any" not in (one.kind, other.kind):
        return
    if other.value:
        yield "a / b", one.value / other.value
    if one.value:
        yield "b / a", other.value / one.value


def _money(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "price"):
        yield "a - b", one.value - other.value
        yield "a + b", one.value + other.value


def _cents(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "price"):
        yield "100 (a - b)", (one.value - other.value) * 100


def _points(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "fraction"):
        yield "100 (a - b)", (one.value - other.value) * 100
    yield from _money(one, other)


def _worth(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from _money(one, other)
    if {one.kind, other.kind} == {"price", "fraction"}:
        yield "a b", one.value * other.value


def _plain(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from _money(one, other)
    if one.kind == other.kind and one.kind != "price":
        yield "a - b", one.value - other.value
        yield from _times(one, other)


def _none(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from ()


_OPERATIONS: dict[str, Callable[[Datum, Datum], Iterator[tuple[str, float]]]] = {
    "percent": _percent,
    "points": _points,
    "times": _times,
    "cents": _cents,
    "money": _worth,
    "plain": _plain,
}


def _both(one: Datum, other: Datum, kind: str) -> bool:
    return {one.kind, other.kind} <= {kind, "any"} and kind in (one.kind, other.kind)


def days_between(matcher: Matcher, place: Place) -> Datum | None:
    """Return the date from which a number of days runs to, or since, the answers' own time."""
    figure = place.figure
    if figure.unit != "days" or figure.step > 7:
        return None
    for one in matcher.index.dates:
        now = _now(matcher, one)
        if one.date is None or None in one.date or now is None or one.path.endswith("/asOf"):
            continue
        if not (one.concepts & place.near) - {"session"}:
            continue
        try:
            days = abs((dt.date(*one.date) - now).days)  # type: ignore[arg-type]
        except ValueError:
            continue
        if abs(days - figure.value) <= figure.tolerance:
            return one
    return None


def _now(matcher: Matcher, datum: Datum) -> dt.date | None:
    for one in matcher.index.dates:
        if one.path == "/asOf" and one.origin == datum.origin and one.date is not None and None not in one.date:
            return dt.date(*one.date)  # type: ignore[arg-type]
    return None
