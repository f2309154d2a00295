"""The match of one figure of a text to a figure of the sources, or to plain arithmetic on two of them."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from typing import Any, NamedTuple

from chordesk.agents.grounding.figure_sources import PART_OF, Datum, Index, NamedRows, Place, chain, stem
from chordesk.agents.grounding.figures import Figure

# Most probable chance fit, by what joins figure and field: terms beside the figure, terms of the sentence, or nothing.
NEAR_CHANCE = 0.35
SENTENCE_CHANCE = 0.08
FREE_CHANCE = 0.02
# Where terms beside the figure name fields that are there, and none of them fits, another field hardly is meant.
CONTRADICTED = 0.25
# Of a date among those of its field, and of a figure of a row that the text names, whatever its field.
DATE_CHANCE = 0.2
ROW_CHANCE = 0.15
# Different lengths of the lists that one term names.
MOST_COUNTS = 2
UNNAMED, NAMED = 1, 2
# A date is compared with those of so many days around it.
_DATE_SPAN = 90.0


class Fit(NamedTuple):
    """A figure's source, and the value that it was compared with, in the figure's unit."""

    datum: Datum
    value: float


@dataclass(slots=True)
class Matcher:
    """Matches the figures of one text after another against an index. subject: symbol that the texts are on."""

    index: Index
    subject: str | None
    _pools: dict[tuple[Any, ...], list[Fit]] = field(default_factory=dict)

    def match(self, place: Place, known: NamedRows, carried: NamedRows) -> list[Datum]:
        """Return the sources that fit a figure, the best first; none where it has none. known: what the terms beside it
        and its sentence mention; carried: and the text before them."""
        if not math.isfinite(place.figure.value):
            return []
        near = [pool for concept in sorted(place.near) if (pool := self._pool(place, (concept,)))]
        for rows in (known, carried):
            found = [one for pool in near for one in self._near(place, pool, rows)]
            if found:
                return [one for _, _, one in sorted(found, key=lambda one: one[:2])]
        factor = CONTRADICTED if near else 1.0
        around = self.around(place)
        reference = [one for datum in self.reference() for one in comparable(datum, place, named=True)]
        return (
            self._counted(place)
            or fit(place.figure, reference, FREE_CHANCE)
            or self._fit_in_rows(place, around, known, NAMED, ROW_CHANCE)
            or self._fit_in_rows(
                place, self._pool(place, sorted(place.whole.concepts)), known, UNNAMED, SENTENCE_CHANCE * factor
            )
            or self._fit_in_rows(place, around, known, UNNAMED, FREE_CHANCE * factor)
        )

    def reference(self) -> list[Datum]:
        """Return the subject's price, which a text may name by no term; none of a history of prices."""
        data = (one for one in self.index.by_concept.get("close", ()) if one.kind == "price" and not one.step)
        return [one for one in data if self.subject is not None and one.row.names.get("symbol") == self.subject]

    def _near(
        self, place: Place, pool: Sequence[Fit], known: NamedRows
    ) -> list[tuple[int, tuple[bool, int, str], Datum]]:
        """Return the fits of one concept, to be ordered by how well the text names them. If the text names a row that
        has the concept, other rows are not meant. A term without a row means a field with a single row before a field
        with many: so each table is a pool of its own."""
        size, half = abs(place.figure.value), place.figure.tolerance
        fits = [one for one in pool if abs(one.value - size) <= half and known.level(one.datum.row)]
        if not fits:
            return []
        named = any(known.level(one.datum.row) == NAMED for one in fits)
        if not named and any(known.level(one.datum.row) == NAMED for one in pool):
            return []
        least = NAMED if named else UNNAMED
        tables: dict[str, list[Fit]] = {one.datum.row.table: [] for one in fits}
        for one in pool:
            if one.datum.row.table in tables and known.level(one.datum.row) >= least:
                tables[one.datum.row.table].append(one)
        found = (one for table in tables.values() for one in fit(place.figure, table, NEAR_CHANCE, alone=True))
        return [(-least, _preference(one), one) for one in found]

    def _fit_in_rows(self, place: Place, pool: Sequence[Fit], known: NamedRows, least: int, most: float) -> list[Datum]:
        size, half = abs(place.figure.value), place.figure.tolerance
        if not any(abs(one.value - size) <= half and known.level(one.datum.row) >= least for one in pool):
            return []
        return fit(place.figure, [one for one in pool if known.level(one.datum.row) >= least], most)

    def _counted(self, place: Place) -> list[Datum]:
        """Return the length of the list that the terms after a figure name (three headlines)."""
        if place.figure.unit != "plain" or place.figure.step != 1:
            return []
        for token in place.after.split()[:2]:
            data = [one for one in self.index.by_concept.get(stem(token.strip(".,;:")), ()) if one.kind == "size"]
            fitting = [one for one in data if one.value == place.figure.value]
            if fitting and len({one.value for one in data}) <= MOST_COUNTS:
                return sorted(fitting, key=_preference)
        return []

    def _pool(self, place: Place, concepts: Iterable[str]) -> Sequence[Fit]:
        found: dict[int, Fit] = {}
        for concept in concepts:
            for one in self._of_concept(place, concept):
                found.setdefault(id(one), one)
        return list(found.values())

    def _of_concept(self, place: Place, concept: str) -> Sequence[Fit]:
        key = (concept, place.figure.unit, place.figure.sign, place.direction, tuple(place.lengths))
        known = self._pools.get(key)
        if known is None:
            data = self.index.by_concept.get(concept, ())
            known = self._pools[key] = [one for datum in data for one in comparable(datum, place, named=True)]
        return known

    def names_a_field(self, place: Place) -> bool:
        return any(self._pool(place, (concept,)) for concept in place.near)

    def around(self, place: Place, *, idiom: bool = False) -> list[Fit]:
        figure = place.figure
        low, high = (abs(figure.value) - figure.tolerance) / 2, (abs(figure.value) + figure.tolerance) * 1.5
        data = [*self.index.between(low, high)]
        if figure.unit == "percent":
            data += self.index.between(low / 100, high / 100)
        elif figure.unit == "bps":
            data += self.index.between(low / 1e4, high / 1e4)
        return [one for datum in data for one in comparable(datum, place, named=False, idiom=idiom)]

    def date(self, place: Place, cited: Sequence[Datum]) -> Datum | None:
        """Return the source of a date: one in the row of a figure that its sentence cites, else one of a field that is
        named and has few dates, else any of few."""
        date = place.figure.date
        assert date is not None
        fitting = [one for one in self.index.dates if one.date is not None and date.fits(one.date)]
        rows = {row.number for one in cited for row in chain(one.row) if row.parent is not None}
        beside = [one for one in fitting if one.row.number in rows and one.row.parent is not None]
        if beside:
            return min(beside, key=_preference)
        for concepts in (place.near, place.whole.concepts, None):
            pool = {one.date for one in self.index.dates if concepts is None or one.concepts & concepts}
            named = [one for one in fitting if concepts is None or one.concepts & concepts]
            if named and (date.day is None or len(pool) / _DATE_SPAN <= DATE_CHANCE):
                return min(named, key=_preference)
        return None


def comparable(datum: Datum, place: Place, *, named: bool, idiom: bool = False) -> list[Fit]:
    """Return the values of a figure in the unit of the place, none where unit, sign or length do not fit. named: a term
    of the text names its field; without one a fraction needs its per cent sign. idiom: no term does, so a text without
    a term of direction may have meant either ("has bled 9.9%")."""
    figure = place.figure
    if datum.length is not None and place.lengths and datum.length not in place.lengths:
        return []
    if datum.kind in ("fraction", "any") and not _sign_fits(datum, place, idiom):
        return []
    if datum.signed and datum.kind not in ("fraction", "any") and figure.sign and figure.sign * datum.value < 0:
        return []
    return [Fit(datum, abs(value)) for value in _UNITS[figure.unit](datum, named)]


def _sign_fits(datum: Datum, place: Place, idiom: bool) -> bool:
    """Return whether the sign that the text gives a figure, or its direction, fits. An explicit sign must be the
    figure's own. A change that fell needs a term of its direction, except where the field is negative by its nature (a
    drawdown of 9%, a put's delta of 0.3)."""
    sign = place.figure.sign
    if sign:
        return sign * datum.value >= 0 or (sign < 0 and datum.falling)
    if not datum.signed or datum.falling or datum.value == 0:
        return True
    direction = place.direction
    if not direction and idiom:
        return True
    return direction * datum.value > 0 if direction else datum.value > 0


def _percent(datum: Datum, named: bool) -> list[float]:
    if datum.kind == "fraction":
        return [datum.value * 100]
    if datum.kind == "percent":
        return [datum.value]
    if datum.kind in ("any", "ratio", "number"):
        values = [datum.value * 100, datum.value] if named and datum.kind == "any" else [datum.value * 100]
        return [*values, (datum.value - 1) * 100] if datum.kind == "ratio" and not datum.step else values
    return []


def _points(datum: Datum, named: bool) -> list[float]:
    return [datum.value * 100] if datum.kind == "fraction" else []


def _bps(datum: Datum, named: bool) -> list[float]:
    return [datum.value * 1e4] if datum.kind in ("fraction", "any") else []


def _times(datum: Datum, named: bool) -> list[float]:
    return [datum.value] if datum.kind in ("ratio", "number", "any", "count", "size") else []


def _money(datum: Datum, named: bool) -> list[float]:
    return [datum.value] if datum.kind in ("price", "any", "number") else []


def _cents(datum: Datum, named: bool) -> list[float]:
    return [datum.value * 100] if datum.kind in ("price", "any") else []


def _days(datum: Datum, named: bool) -> list[float]:
    return [datum.value] if datum.kind in ("days", "count", "size", "any") else []


def _plain(datum: Datum, named: bool) -> list[float]:
    return [datum.value, datum.value * 100] if datum.kind == "fraction" and named else [datum.value]


_UNITS: dict[str, Callable[[Datum, bool], list[float]]] = {
    "percent": _percent,
    "points": _points,
    "bps": _bps,
    "times": _times,
    "money": _money,
    "cents": _cents,
    "days": _days,
    "plain": _plain,
}


def fit(figure: Figure, pool: Sequence[Fit], most: float, *, alone: bool = False) -> list[Datum]:
    """The best first; none if a chance fit is more probable than `most`. alone: a pool of one value."""
    size, half = abs(figure.value), figure.tolerance
    fitting = [one for one in pool if abs(one.value - size) <= half]
    if not fitting:
        return []
    if chance(size, figure.step, pool) > most and not (alone and distinct(size, figure.step, pool) == 1):
        return []
    return [one.datum for one in sorted(fitting, key=lambda one: (_preference(one.datum), abs(one.value - size)))]


def chance(size: float, step: float, pool: Sequence[Fit]) -> float:
    """Return the share of the numbers between half and one and a half of a size, at this step, that fit a pool."""
    cells = max(size / step, 1.0)
    return min(distinct(size, step, pool) / cells, 1.0)


def distinct(size: float, step: float, pool: Sequence[Fit]) -> int:
    low, high = size / 2 - step / 2, size * 1.5 + step / 2
    return len({round(one.value / step) for one in pool if low <= one.value <= high})


def _preference(datum: Datum) -> tuple[bool, int, str]:
    return datum.origin.source != "tool", len(datum.path), datum.path


# Figures that follow from two others by plain arithmetic: a difference, a ratio, a change in per cent, a number of
# days, a part of a count.

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
    """Return how a figure follows from two figures that its sentence cites or names, None if it does not. A comparing
    term must stand beside it. cited: sources of the sentence's other figures."""
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
    """True for the first count of "3 of 4" where the second is a list's length: the choice of three is the model's
    own."""
    if following is None or source is None or place.whole is not following.whole:
        return False
    counts = source.kind in ("count", "size") and place.figure.unit in ("plain", "days")
    return counts and bool(PART_OF.match(place.between(following))) and place.figure.value <= source.value


def _pairs(
    matcher: Matcher, place: Place, cited: Sequence[Datum], known: NamedRows
) -> Iterator[tuple[list[tuple[Datum, Datum]], float]]:
    """Yield the pairs of operands with the most probable chance fit, the closest to the text first. These are two
    figures that the sentence cites; one of them, or of a field that is named beside the figure, and the price of the
    subject; two such fields."""
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
    levels = (one for one in matcher.index.by_concept.get("level", ()) if one.kind == "price" and "id" in one.row.names)
    return list({one.value: one for one in levels if known.level(one.row) == NAMED}.values())[:_MOST_VALUES]


def _few(matcher: Matcher, concept: str, known: NamedRows) -> list[Datum]:
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


def _derived_percent(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
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


def _derived_times(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if one.kind != other.kind and "any" not in (one.kind, other.kind):
        return
    if other.value:
        yield "a / b", one.value / other.value
    if one.value:
        yield "b / a", other.value / one.value


def _derived_money(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "price"):
        yield "a - b", one.value - other.value
        yield "a + b", one.value + other.value


def _derived_cents(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "price"):
        yield "100 (a - b)", (one.value - other.value) * 100


def _derived_points(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    if _both(one, other, "fraction"):
        yield "100 (a - b)", (one.value - other.value) * 100
    yield from _derived_money(one, other)


def _worth(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from _derived_money(one, other)
    if {one.kind, other.kind} == {"price", "fraction"}:
        yield "a b", one.value * other.value


def _derived_plain(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from _derived_money(one, other)
    if one.kind == other.kind and one.kind != "price":
        yield "a - b", one.value - other.value
        yield from _derived_times(one, other)


def _none(one: Datum, other: Datum) -> Iterator[tuple[str, float]]:
    yield from ()


_OPERATIONS: dict[str, Callable[[Datum, Datum], Iterator[tuple[str, float]]]] = {
    "percent": _derived_percent,
    "points": _derived_points,
    "times": _derived_times,
    "cents": _derived_cents,
    "money": _worth,
    "plain": _derived_plain,
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
