"""Digits of a text that are no figures: identifiers, names and parameters.

The rules, each a pattern below:
- a URL, an OCC symbol, digits that are part of a name that has letters (S1, F61.8, SMA200, Q3, 10-K, FY2026), except
  for a unit (1.2x, 3.4M, 25bps);
- an indicator with its parameters (RSI-14, ATR(14), MACD (12, 26, 9), Bollinger 20, SMA 50);
- an index (S&P 500), a form or a rule (Form 4, Rule 144);
- a length before a noun (20-day, 52-week, 60 session), and "30-delta";
- an ordinal (1st), the number of a list's item or a step, a time of day, 24/7, 50/50.
The figure after a parameter is a figure: "a 52-week high of 210" has 210.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
