"""The figures of a claim that its signal's data does not have."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import combinations
from typing import Any

from chordesk.agents.grounding import ground
from chordesk.agents.grounding.context import Place, places
from chordesk.agents.grounding.figures import Figure, Reading, read
from chordesk.agents.grounding.matching import comparable
from chordesk.agents.grounding.sources import Datum, Index, index_of
from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import BoardSignal

MOST_FIGURES = 24  # of a claim
MOST_DERIVED = 3  # figures for which arithmetic on two others is tried, which costs by the square of them
# Further readings of a field whose class its name does not give: a change of 0.08 as 8 points.
_SCALES = {"points": (1.0, 100.0), "cents": (1.0, 100.0), "percent": (100.0,), "bps": (1e4,)}

_BASELINE = re.compile(r"(?i)\b(?:baseline|base rate|market|prior|odds|even|priced?|prices)\b")
_FORECAST = re.compile(r"\b(?:I|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|forecast|estimate|probability)\b")


def unsupported(
    claim: str, signal: BoardSignal, question: BoardQuestion, probability: float, labels: Iterable[str]
) -> list[str]:
    """Return the figures of a claim that are neither in its signal nor in its question, as the claim writes them.

    A figure is in the signal when a value of its data, its headline, its confidence or its time equals it within half
    of the last digit shown, or when it follows from two of them by plain arithmetic. The question's text and closing
    count too, since a claim relates a signal to it, and so do its baseline and the forecast's own probability where a
    term beside the figure names them. labels: of the board, whose digits are names.
    """
    text = _without(claim, labels)
    reading = _read(text)
    if reading.more:
        return [f"more than {MOST_FIGURES} figures"]
    found = places(reading)
    if not found:
        return []
    answer, asked = _answer(signal), {"text": question.text, "closes": question.closes_at.isoformat()}
    indexes = _index(signal.tool, _text(answer)), _index("", _text(asked))
    own = ((_BASELINE, question.baseline), (_FORECAST, probability))
    standing = [
        place.figure
        for place in found
        if any(_stands(place, index) for index in indexes) or any(_named(place, *one) for one in own)
    ]
    lacking = [place.figure for place in found if place.figure not in standing]
    lacking = [one for one in lacking if not _difference(one, standing)]
    if not lacking or len(lacking) > MOST_DERIVED:
        return [one.text for one in lacking]
    # What is left may be a difference or a ratio, by the rules for the reports of roles.
    grounding = ground({"claim": text}, [(signal.tool, {}, answer)], asked)
    derived = {(one.start, one.end) for one in grounding.citations if one.source == "derived"}
    return [one.text for one in lacking if (one.start, one.end) not in derived]


def has_one_of(claim: str, signal: BoardSignal, labels: Iterable[str]) -> bool:
    """Return whether a figure of a claim is in its signal itself."""
    found = places(_read(_without(claim, labels)))
    index = _index(signal.tool, _text(_answer(signal))) if found else Index()
    return any(_stands(place, index) for place in found)


@lru_cache(maxsize=1024)
def _index(tool: str, text: str) -> Index:
    """Return the index of an object in JSON. Each voice cites the same few signals in each round."""
    return index_of([(tool, {}, json.loads(text))], {})


@lru_cache(maxsize=1024)
def _read(text: str) -> Reading:
    """Return the figures of a claim. A sentence that is given for several signals or in both rounds is read once."""
    return read(text, MOST_FIGURES)


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, default=str)


def _answer(signal: BoardSignal) -> dict[str, Any]:
    return {
        "headline": signal.headline,
        "confidence": signal.confidence,
        "probability": signal.probability,
        "asOf": signal.as_of.isoformat(),
        "basis": signal.basis,
        "data": signal.data,
    }


def _stands(place: Place, index: Index) -> bool:
    figure = place.figure
    if figure.date is not None:
        return any(one.date is not None and figure.date.fits(one.date) for one in index.dates)
    # Without the terms around it no field is asked for: a signal has few figures, and the sign is checked as written.
    bare = replace(place, before="", after="")
    return any(_fits(figure, datum, bare) for datum in index.data)


def _named(place: Place, terms: re.Pattern[str], probability: float | None) -> bool:
    """Return whether a figure is a probability that the text beside it names."""
    figure = place.figure
    if probability is None or figure.unit not in ("percent", "plain"):
        return False
    value = probability if figure.unit == "plain" else 100 * probability
    named = terms.search(place.before) or terms.search(place.after)
    return bool(named) and abs(value - figure.value) <= figure.tolerance


def _difference(figure: Figure, standing: Sequence[Figure]) -> bool:
    """Return whether a figure is the difference of two figures of one unit that its claim takes from the signal."""
    if figure.unit not in ("points", "percent", "money", "plain"):
        return False
    units = ("percent", "points") if figure.unit in ("percent", "points") else (figure.unit,)
    known = [one for one in standing if one.unit in units]
    return any(
        abs(abs(_value(one) - _value(other)) - figure.value) <= max(figure.tolerance, 1e-9)
        for one, other in combinations(known, 2)
    )


def _value(figure: Figure) -> float:
    return -figure.value if figure.sign < 0 else figure.value


def _fits(figure: Figure, datum: Datum, bare: Place) -> bool:
    if not math.isfinite(figure.value):
        return False
    # "Negative 6 of 8" is a count, and no figure below 0.
    sign = 0 if figure.text[:3].lower() == "neg" else figure.sign
    if sign * datum.value < 0 and not (sign < 0 and datum.falling):
        return False
    values = [one.value for one in comparable(datum, bare, named=True, idiom=True)]
    if datum.kind in ("any", "ratio", "number"):
        values += [abs(datum.value) * scale for scale in _scales(figure)]
    # A whole number is no rounding of a share: 1 of 0.87.
    counted = figure.step >= 1 and figure.unit in ("plain", "days", "times", "money")
    known = [value for value in values if not counted or value >= 1 or value == figure.value]
    return any(abs(value - abs(figure.value)) <= figure.tolerance for value in known)


def _scales(figure: Figure) -> Sequence[float]:
    return _SCALES.get(figure.unit, ())


def _without(claim: str, labels: Iterable[str]) -> str:
    """Return a claim with each label of the board as blanks, so that offsets stay."""
    pattern = _pattern(tuple(labels))
    return pattern.sub(lambda found: " " * len(found[0]), claim) if pattern is not None else claim


@lru_cache(maxsize=64)
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str] | None:
    """Return what finds the labels that have a digit, the longest first; None without any."""
    names = sorted((label for label in labels if any(char.isdigit() for char in label)), key=len, reverse=True)
    if not names:
        return None
    return re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names), re.IGNORECASE)
