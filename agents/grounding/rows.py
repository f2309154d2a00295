"""Figures that a text names by their row and by no term: those of a row that its sentence cites or names, those of a
symbol's only row of a table, those that no other row has, and the money that a contract's row stands for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chordesk.agents.grounding.context import NamedRows, Place
from chordesk.agents.grounding.dates import PartialDate, months_in
from chordesk.agents.grounding.matching import (
    CONTRADICTED,
    NAMED,
    ROW_CHANCE,
    SENTENCE_CHANCE,
    Fit,
    Matcher,
    comparable,
    fit,
)
from chordesk.agents.grounding.sources import Datum, Row

# Most probable chance fit among the single rows of a symbol, and among all rows.
SINGLE_CHANCE, UNIQUE_CHANCE = 0.08, 0.02
# A figure of three digits is seldom in two rows by chance, one of four hardly ever.
THREE_DIGITS, FOUR_DIGITS = 100, 1000
# Shares of a listed option, by which its prices are quoted.
MULTIPLIER = 100.0
_MOST_NAMED = 2
_LONGEST_MONTH = 10
_MONTH_BEFORE = re.compile(r"[A-Z][a-z]{2,8}\.? ?$")
_OPTION_AFTER = re.compile(r"\s?(?:s|puts?|calls?|lines?|strikes?|contracts?|options?)\b")
_COUNTS = ("count", "size", "days")


def cited_rows(places: Sequence[Place], sources: Sequence[Sequence[Datum]]) -> list[Row]:
    """Return the rows of which a sentence cites a figure of three digits or more that no other row has."""
    found: dict[int, Row] = {}
    for place, data in zip(places, sources, strict=True):
        rows = {one.row.number: one.row for one in data if one.origin.source == "tool"}
        if len(rows) == 1 and _digits(place, THREE_DIGITS):
            found.update(rows)
    return list(found.values())


def by_row(matcher: Matcher, place: Place, cited: Sequence[Row], known: NamedRows) -> list[Datum]:
    """Return the sources of a figure by its row alone, the best first. cited: rows of its sentence."""
    expiring = _expiring(matcher, place)
    if expiring or place.figure.date is not None:
        return expiring
    rows = [*cited, *_contracts(matcher, known)]
    data = {id(datum): datum for row in rows for datum in matcher.index.by_row[row.number]}
    own = [one for datum in data.values() for one in comparable(datum, place, named=False, idiom=True)]
    most = SINGLE_CHANCE * (CONTRADICTED if matcher.names_a_field(place) else 1.0)
    countable = place.figure.unit == "plain" and place.figure.step >= 1
    long = _digits(place, FOUR_DIGITS) and place.figure.unit != "days"
    around = [one for one in matcher.around(place, idiom=True) if _read(one.datum) and known.level(one.datum.row)]
    single = [one for one in around if one.datum.kind not in _COUNTS and matcher.index.single(one.datum.row)]
    return (
        fit(place.figure, own, ROW_CHANCE, alone=True)
        or (fit(place.figure, single, most) if not countable else [])
        or (fit(place.figure, around, UNIQUE_CHANCE) if long else [])
    )


def product(matcher: Matcher, place: Place, cited: Sequence[Row], known: NamedRows) -> tuple[Datum, str] | None:
    """Return the price of which a sum of money is that of one contract, or of a hundred shares."""
    if place.figure.unit != "money":
        return None
    rows = [one for one in cited if "contract" in one.names] + _contracts(matcher, known, most=len(matcher.index.data))
    data = [datum for row in rows for datum in matcher.index.by_row[row.number]] + matcher.reference()
    pool = [Fit(datum, abs(datum.value) * MULTIPLIER) for datum in data if datum.kind == "price"]
    found = fit(place.figure, pool, SENTENCE_CHANCE)
    return (found[0], f"{MULTIPLIER:g} a") if found else None


def _contracts(matcher: Matcher, known: NamedRows, most: int = _MOST_NAMED) -> list[Row]:
    """Return the contracts that a text names by strike or symbol, none where these are more."""
    strikes = (one for one in matcher.index.by_concept.get("strike", ()) if "contract" in one.row.names)
    rows = {one.row.number: one.row for one in strikes if known.level(one.row) == NAMED and _struck(one.row, known)}
    return list(rows.values()) if len(rows) <= most else []


def _expiring(matcher: Matcher, place: Place) -> list[Datum]:
    """Return the expiry of "the Jul 16 put" that is no strike, or the strike of "the July 29 line" that is no date."""
    figure, date = place.figure, place.figure.date
    if date is not None:
        if figure.text[0].isdigit() or not _OPTION_AFTER.match(place.after):
            return []
        strikes = (one for one in matcher.index.by_concept.get("strike", ()) if "contract" in one.row.names)
        return [one for one in strikes if date.year is None and one.value == date.day and _month(one) == date.month]
    months = list(months_in(place.before[-_LONGEST_MONTH:])) if _MONTH_BEFORE.search(place.before) else []
    if not months or figure.unit != "plain" or figure.step != 1:
        return []
    day = PartialDate(None, months[-1], int(figure.value))
    return [one for one in matcher.index.dates if "expiry" in one.concepts and one.date and day.fits(one.date)]


def _month(datum: Datum) -> int | None:
    expiry = datum.row.names.get("expiry")
    return expiry.month if expiry else None


def _struck(row: Row, known: NamedRows) -> bool:
    names = ((name, row.names[name]) for name in ("strike", "contract") if name in row.names)
    return any(value in one.of(known.index, row.table, name) for name, value in names for one in known.stretches)


def _read(datum: Datum) -> bool:
    """Return True for a figure of a tool's answer that stands in no text."""
    return datum.origin.source == "tool" and not datum.step


def _digits(place: Place, cells: int) -> bool:
    return abs(place.figure.value) >= cells * place.figure.step
