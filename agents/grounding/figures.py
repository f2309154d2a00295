"""The figures of a text: each number with its unit, sign and last digit; its dates; and digits that are not figures."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from chordesk.models.money import CODES, MONEY_WORDS, SIGNS

# Digits of a text that are not figures: identifiers, names and parameters.
#
# The rules, each a pattern below:
# - a URL, an OCC symbol, digits that are part of a name that has letters (S1, F61.8, SMA200, Q3, 10-K, FY2026),
# except
#   for a unit (1.2x, 3.4M, 25bps);
# - an indicator with its parameters (RSI-14, ATR(14), MACD (12, 26, 9), Bollinger 20, SMA 50);
# - an index (S&P 500), a form or a rule (Form 4, Rule 144);
# - a length before a noun (20-day, 52-week, 60 session), and "30-delta";
# - an ordinal (1st), the number of a list's item or a step, a time of day, 24/7, 50/50.
# The figure after a parameter is a figure: "a 52-week high of 210" has 210.

_INDICATOR = (
    r"rsi|atr|adx|macd|sma|ema|wma|vwap|cci|mfi|bollinger(?: bands?)?|stochastics?|hv|realised volatility"
    r"|yang-zhang|moving average|true range|cmf|obv|roc"
)
_LENGTH = r"(?:day|session|week|month|year|quarter|minute|hour|bar|period|point|delta|dte)s?"
_NAME = re.compile(
    "|".join(
        (
            r"https?://\S+",
            r"\b[A-Z]{1,6}\d{6}[CP]\d{8}\b",
            rf"\b(?i:{_INDICATOR})[ -]?\(\s?(?P<args>\d+(?:\.\d+)?(?:\s?,\s?\d+(?:\.\d+)?)*)\s?\)",
            rf"\b(?i:{_INDICATOR})-(?P<dashed>\d+)\b(?![.,]\d|%)",
            r"\b(?i:sma|ema|wma) (?P<spaced>5|9|10|12|20|21|26|30|50|60|100|200)\b(?![.,]\d|%)",
            r"\b(?i:sma|ema|wma|rsi|atr|adx|hv|momentum|volatility|roc)(?P<glued>\d{1,3})\b(?![.,]\d|%)",
            r"\b(?i:rsi|atr|adx) (?P<wilder>7|9|14|21)\b(?![.,]\d|%)",
            r"\b(?i:s&p|russell|nasdaq|dow|ftse|stoxx|csi|topix|fortune)[ -](?:1|3|4|5|6|10|20|30)000?\b",
            r"\b(?i:dow|dax|cac|ibex|nikkei|euro stoxx) (?:30|35|40|50|225)\b",
            r"\b(?i:form|rule|section|item|note|chapter|step|phase|schedule|tier|stage) \d+[A-Za-z]?\b(?![.,]\d|%)",
            r"\b(?:10|20|8|6|4|11|13|14|40|424)-?(?:K|Q|F|D|G|A|B\d)(?:/A)?\b",
            rf"(?<![\d.,$])(?P<length>\d{{1,4}})-(?i:(?P<unit>{_LENGTH}))\b",
            r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?(?i:am|pm))?\b|\b\d{1,2}\s?(?i:am|pm)\b",
            r"\b(?:24/7|50/50|9/11)\b",
            r"\b(?i:q[1-4]|h[12]|fy)[ -]?'?(?:\d{4}|\d{2})?\b(?![.,]\d)",
            r"(?<![A-Za-z0-9.])(?=[A-Za-z0-9&.-]*\d)[A-Za-z&]+(?:[.&-]?[A-Za-z]+)*-?\d[A-Za-z0-9]*(?:\.\d+)?\b",
        )
    )
)
_ITEM = re.compile(r"(?:^|(?<=[.;:] )|(?<=[\n\r]))\s*\(?\d{1,2}[.)](?=\s+[A-Za-z])")
_WEEKS, _MONTHS, _YEARS = 5, 21, 252


class Names(NamedTuple):
    """spans: of the text that no figure begins in. lengths: the parameters among them, as (place, sessions)."""

    spans: list[tuple[int, int]]
    lengths: list[tuple[int, float]]


def names_in(text: str, raw: str) -> Names:
    """Return the names and parameters of a text. raw: the same text with its line ends."""
    spans, lengths = [], []
    for found in _NAME.finditer(text):
        spans.append(found.span())
        if found["length"]:
            lengths.append((found.start(), _sessions(float(found["length"]), found["unit"].lower())))
        for given in (found["args"], found["dashed"], found["spaced"], found["wilder"], found["glued"]):
            if given:
                lengths.append((found.start(), float(given.split(",")[0])))
    spans += [found.span() for found in _ITEM.finditer(raw)]
    return Names(sorted(spans), lengths)


def _sessions(count: float, unit: str) -> float:
    scale = {"w": _WEEKS, "m": _MONTHS, "y": _YEARS}.get(unit[0], 1)
    return count * (1 if unit.startswith("minute") else scale) if count != 52 or scale != _WEEKS else _YEARS


_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DATE = re.compile(
    "|".join(
        (
            r"\b(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d)-(?P<d1>\d\d)(?:T[\d:.+-]+Z?)?",
            r"\b(?P<y5>(?:19|20)\d\d)-(?P<m5>0[1-9]|1[0-2])\b(?!-)",
            rf"\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -](?P<m2>{_MONTH})(?:,?[ -](?P<y2>(?:19|20)\d\d)\b)?",
            rf"\b(?P<m3>{_MONTH})[ -](?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?![.]\d|%)(?! ?(?i:put|call|strike)s?\b)"
            r"(?:,? (?P<y3>(?:19|20)\d\d)\b)?",
            rf"\b(?P<m4>{_MONTH}),? (?P<y4>(?:19|20)\d\d)\b",
            r"\b(?P<m6>\d{1,2})/(?P<d6>\d{1,2})/(?P<y6>(?:19|20)\d\d)\b",
            r"(?<![\d.,$])\b(?P<y7>(?:19|20)\d\d)\b(?![.,]\d|%|\s?(?:shares|contracts))",
        )
    )
)
_ANY_MONTH = re.compile(rf"\b{_MONTH}(?![a-z])")


class PartialDate(NamedTuple):
    """A date as far as it is given."""

    year: int | None
    month: int | None
    day: int | None

    def fits(self, other: PartialDate) -> bool:
        """Return True when no part that both have differs, and `other` has every part of this one."""
        pairs = zip(self, other, strict=True)
        return all(own is None or own == theirs for own, theirs in pairs)


def dates_in(text: str) -> Iterator[tuple[int, int, PartialDate]]:
    for found in _DATE.finditer(text):
        parts = {key[0]: value for key, value in found.groupdict().items() if value is not None}
        day, month = parts.get("d"), parts.get("m")
        number = None if month is None else int(month) if month.isdigit() else _MONTH_NAMES.index(month[:3].lower()) + 1
        if (day is None or 1 <= int(day) <= 31) and (number is None or 1 <= number <= 12):
            yield found.start(), found.end(), PartialDate(_number(parts.get("y")), number, _number(day))


def months_in(text: str) -> Iterator[int]:
    for found in _ANY_MONTH.finditer(text):
        yield _MONTH_NAMES.index(found[0][:3].lower()) + 1


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)


_ALIKE = str.maketrans(
    dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u00a0\u2007\u2009\u202f\u2002\u2003\t\n\r", " ")
    | {"\uff05": "%", "\u2019": "'", "\uff0e": ".", "\uff0c": ",", "\u00d7": "x"}
)


def plain(text: str) -> str:
    """Digits of every script as 0 to 9, dashes as hyphens, spaces and line ends as blanks. Offsets stay."""
    text = text.translate(_ALIKE)
    return text if text.isascii() else "".join(map(_digit, text))


def _digit(char: str) -> str:
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)


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
    rf"(?P<money>{SIGNS}|(?i:USD|EUR|GBP) |{CODES} )?\s?"
    r"(?P<late>(?<=\$)-)?"
    r"(?<![A-Za-z_])(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)(?P<power>\^\d+|[eE][+-]?\d+)?"
    r"(?:(?P<scale>[kKMBT]|[mM][nN]|[bB][nN]|tn)(?![A-Za-z])|\s(?P<scaled>(?i:thousand|million|billion|trillion))\b)?"
    r"(?P<unit>\s?%|\s?(?i:per ?cent(?:age points?)?|pct|pp)\b(?!-)|\s?(?i:bps|bp|basis points?)\b|x(?![A-Za-z])"
    r"|\s(?i:(?:vol(?:atility)? )?(?:points?|pts))\b(?!-)"
    r"|\s(?i:times)\b|\s(?i:cents?|pence)\b|[\s-](?i:(?:trading |calendar )?(?:days?|sessions?)|weeks?)\b"
    rf"|\s(?i:{MONEY_WORDS}|usd)\b|\s{CODES}\b)?"
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
    """Return the middle and the width of the interval that the terms around a number state. "Just over 40" is 40 to 44:
    a tenth of the value, at least half a last digit and at most the place of its last digit that is not 0, on the side
    of the term, and half a last digit on the other. "Low 50s" is 50 to 54, "mid" 53 to 57, "high" 56 to 60."""
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
    if name.startswith("cent") or name == "pence":
        return "cents", 1.0
    if name.startswith("week"):
        return "days", 7.0
    if "day" in name or "session" in name:
        return "days", 1.0
    return ("money" if money or name else "plain"), 1.0  # what is left of the names are currencies


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
