"""The figures of a text: each number with its unit, its sign and the step of its last digit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from chordesk.agents.grounding.dates import PartialDate, dates_in
from chordesk.agents.grounding.names import names_in
from chordesk.agents.grounding.plain import plain

Unit = Literal["percent", "points", "bps", "times", "money", "cents", "days", "plain", "date"]
MOST_FIGURES = 500

_SCALES = {"k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6, "b": 1e9, "bn": 1e9, "billion": 1e9,
           "t": 1e12, "tn": 1e12, "trillion": 1e12}  # fmt: skip
_COUNTED = (
    r"(?:headlines?|stories|reports?|touch(?:es)?|tests?|sessions?|days?|weeks?|levels?|supports?|resistances?|swings?"
    r"|swing (?:highs?|lows?)|contracts?|strikes?|expir(?:y|ies)|names?|candidates?|verdicts?|positions?|holdings?"
    r"|symbols?|trendlines?|zones?|patterns?|analysts?|insiders?|filings?|retracements?|extensions?|puts?|calls?"
    r"|rows?|sources?|bars?|splits?|gainers?|decliners?|movers?|times|points?|members?|clusters?)"
)
_NUMBER_TERMS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_TERM = re.compile(
    rf"\b(?P<term>{'|'.join(_NUMBER_TERMS)})\b"
    rf"(?=(?: [a-z][a-z-]+)? {_COUNTED}\b| of (?:the |its )?(?:{'|'.join(_NUMBER_TERMS)}|\d+)\b)",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w.)%])[+-]\s?|(?i:\bminus |\bplus |\bnegative ))?"
    r"(?P<money>(?:US|C|A)?\$|€|£|¥|(?i:USD|EUR|GBP) )?\s?"
    r"(?P<late>(?<=\$)-)?"
    r"(?<![A-Za-z_])(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)(?P<power>\^\d+|[eE][+-]?\d+)?"
    r"(?:(?P<scale>[kKMBT]|[mM][nN]|[bB][nN]|tn)(?![A-Za-z])|\s(?P<scaled>(?i:thousand|million|billion|trillion))\b)?"
    r"(?P<unit>\s?%|\s?(?i:per ?cent(?:age points?)?|pct|pp)\b(?!-)|\s?(?i:bps|bp|basis points?)\b|x(?![A-Za-z])"
    r"|\s(?i:(?:vol(?:atility)? )?(?:points?|pts))\b(?!-)"
    r"|\s(?i:times)\b|\s(?i:cents?)\b|[\s-](?i:(?:trading |calendar )?(?:days?|sessions?)|weeks?)\b"
    r"|\s(?i:dollars|usd)\b)?"
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
_HEDGE = re.compile(r"(?i)(?:\b(?:about|around|roughly|approximately|approx\.?|some|nearly|almost|over|under)|~)\s?$")
# One-sided terms, and the third of a decade (low 50s): the interval that they state, as shares of the value or digits.
_MORE = re.compile(r"(?i)\b(?:(?:just|a little|slightly|a bit) over|more than|north of|upwards of|in excess of)\s?$")
_LESS = re.compile(r"(?i)\b(?:(?:just|a little|slightly|a bit) under|less than|south of|nearly|almost|shy of)\s?$")
_ONE_SIDED = 0.1
_DECADE = re.compile(r"(?i)\b(low|mid|middle|high|upper)[ -]$")
_DECADES = {"low": (0.0, 4.0), "mid": (3.0, 7.0), "middle": (3.0, 7.0), "high": (6.0, 10.0), "upper": (6.0, 10.0)}
RANGE = re.compile(r"^\s?(?:-|to|and|or)\s?$")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. value in `unit`, without its sign; step: that of the last digit shown; sign: -1 or 1 as written, 0
    without one; date: for the unit date, with value 0."""

    text: str
    start: int
    end: int
    value: float
    step: float
    unit: Unit
    sign: int = 0
    date: PartialDate | None = None

    @property
    def tolerance(self) -> float:
        """Half a step, and what the representation of numbers loses."""
        return self.step / 2 * (1 + 1e-9) + abs(self.value) * 1e-12


@dataclass(frozen=True, slots=True)
class Reading:
    """A text in plain characters with its figures in order, and its parameters as (place, sessions). more: number of
    figures beyond the bound, which were not looked at."""

    text: str
    figures: Sequence[Figure]
    lengths: Sequence[tuple[int, float]]
    more: int = 0


def read(raw: str, most: int = MOST_FIGURES) -> Reading:
    """Return the figures of a text, at most so many. Linear in its length."""
    text = plain(raw)
    names = names_in(text, raw)
    taken = bytearray(len(text) + 1)
    found: list[Figure] = []
    for start, end in names.spans:
        taken[start:end] = b"\1" * (end - start)
    for start, end, date in dates_in(text):
        if not taken[start]:
            found.append(Figure(raw[start:end], start, end, 0.0, 1.0, "date", date=date))
            taken[start:end] = b"\1" * (end - start)
    found += _numbers(text, raw, taken)
    found.sort(key=lambda one: one.start)
    return Reading(text, _ranged(text, found[:most]), names.lengths, max(len(found) - most, 0))


def _numbers(text: str, raw: str, taken: bytearray) -> Iterator[Figure]:
    for found in _NUMBER.finditer(text):
        first, last = found.span("digits")
        if not any(taken[first:last]) and not _ORDINAL.match(text, last):
            yield _figure(found, text, raw)
    for found in _TERM.finditer(text):
        if not taken[found.start()]:
            value = _NUMBER_TERMS.index(found["term"].lower()) + 2.0
            yield Figure(raw[slice(*found.span())], *found.span(), value, 1.0, "plain")


def _figure(found: re.Match[str], text: str, raw: str) -> Figure:
    digits = found["digits"].replace(",", "")
    value = (
        float(digits) if not found["power"] else math.inf if "^" in found["power"] else float(digits + found["power"])
    )
    decimals = len(digits.partition(".")[2])
    step = 10.0 ** -min(decimals, 300)
    start = found.start() + len(found[0]) - len(found[0].lstrip())
    if not decimals and _HEDGE.search(text[max(0, start - 14) : start]):
        significant = digits.rstrip("0")
        step = 10.0 ** (len(digits) - max(len(significant), 2)) if len(digits) > 2 else step
    value, step = _stated(text, start, found.end("digits"), value, step)
    scale = _SCALES.get((found["scale"] or found["scaled"] or "").lower(), 1.0)
    unit, factor = _unit((found["unit"] or "").strip(" -").lower(), bool(found["money"]))
    sign = (found["sign"] or found["late"] or "").strip().lower()
    scale *= factor
    end = found.end() if (found["unit"] or found["scaled"] or found["scale"] or found["power"]) else found.end("digits")
    return Figure(
        raw[start:end], start, end, value * scale, step * scale, unit,
        -1 if sign in ("-", "minus", "negative") else 1 if sign in ("+", "plus") else 0,
    )  # fmt: skip


def _stated(text: str, start: int, end: int, value: float, step: float) -> tuple[float, float]:
    """Return the middle and the width of the interval that the terms around a number state.

    "Just over 40" is 40 to 44: a tenth of the value, at least half a last digit and at most the place of its last digit
    that is not 0, on the side of the term, and half a last digit on the other. "Low 50s" is 50 to 54, "mid" 53 to 57,
    "high" 56 to 60.
    """
    before = text[max(0, start - 20) : start]
    decade = _DECADE.search(before)
    if decade and text[end : end + 1] == "s" and value % 10 == 0:
        low, high = _DECADES[decade[1].lower()]
        return value + (low + high) / 2, high - low
    side = 1 if _MORE.search(before) else -1 if _LESS.search(before) else 0
    if not side or not math.isfinite(value):
        return value, step
    last = 10.0 ** -len(text[start:end].partition(".")[2])
    digits = text[start:end].replace(",", "")
    place = last * 10 ** (len(digits) - len(digits.rstrip("0"))) if "." not in digits else last
    width = min(place, max(_ONE_SIDED * value, last / 2))
    return value + side * (width - last / 2) / 2, width + last / 2


def _unit(name: str, money: bool) -> tuple[Unit, float]:
    if name == "%" or name.startswith(("per", "pct", "pp")):
        return "percent", 1.0
    if name.startswith(("bp", "basis")):
        return "bps", 1.0
    if name.endswith(("point", "points", "pts")):
        return "points", 1.0
    if name in ("x", "times"):
        return "times", 1.0
    if name.startswith("cent"):
        return "cents", 1.0
    if name.startswith("week"):
        return "days", 7.0
    if "day" in name or "session" in name:
        return "days", 1.0
    return ("money" if money or name in ("dollars", "usd") else "plain"), 1.0


def _ranged(text: str, found: list[Figure]) -> list[Figure]:
    """Return the figures, where the first of a range (2-3%, $130 to 140) has the unit of the other."""
    done = list(found)
    for at in range(len(done) - 2, -1, -1):
        one, other = done[at], done[at + 1]
        if "date" in (one.unit, other.unit) or not RANGE.match(text[one.end : other.start]):
            continue
        if one.unit == "plain" and other.unit in ("percent", "bps", "times", "cents", "days"):
            done[at] = replace(one, unit=other.unit)
        elif other.unit == "plain" and one.unit == "money":
            done[at + 1] = replace(other, unit="money")
    return done
