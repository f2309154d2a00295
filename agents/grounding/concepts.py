"""The concepts that a text names, and those of a field's name with the class of its unit."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple

# The vocabulary that joins a text's terms to the names of fields: one concept for each thing that the tools measure.
#
# Two concepts may share a term ("volatility" is implied or realised). A new tool works without an entry: a field that
# no concept names is found by the parts of its own name.

Class = Literal["fraction", "percent", "price", "count", "days", "ratio", "number", "size", "any"]


class Concept(NamedTuple):
    name: str
    kind: Class  # class of the unit; size is the length of a list
    fields: str  # pattern of the names of fields, in lower case without their last digits
    terms: str  # pattern of the text
    signed: bool = False  # the sign is part of what it states
    falling: bool = False  # it is negative by its nature, and is named without a sign


CONCEPTS = (
    Concept("rsi", "number", r"rsi", r"rsi|relative strength"),
    Concept(
        "momentum",
        "fraction",
        r"momentum",
        r"momentum|returns?|gain(?:ed|s)?|performance|moved?|rose|up|down|fell|lost",
        signed=True,
    ),
    Concept(
        "high",
        "fraction",
        r"fromhigh",
        (
            r"from (?:its |the |a |their )?(?:[\w-]+ )?(?:high|peak|top)|(?:below|off|under|"
            r"beneath) (?:its |the |a )?(?:[\w-]+ )?(?:high|peak|top)|distance (?:from|to) (?:its |"
            r"the )?(?:[\w-]+ )?high|from the high"
        ),
        signed=True,
        falling=True,
    ),
    Concept(
        "drawdown",
        "fraction",
        r"drawdown",
        r"draw-?downs?|peak[- ]to[- ]trough|decline|setback|pullback",
        signed=True,
        falling=True,
    ),
    Concept("gap", "fraction", r"gap", r"gap(?:ped|s)?|open(?:ed|ing)?", signed=True),
    Concept(
        "change",
        "fraction",
        r"change",
        (
            r"change[ds]?|day|session|today|rose|fell|gain(?:ed|s)?|lost|up|down|move[ds]?|closed|slid|"
            r"added|shed|dropp?(?:ed|s)?|advance[ds]?|rallied"
        ),
        signed=True,
    ),
    Concept(
        "realised",
        "fraction",
        r"volatility|hv|yangzhang|volatilityannual",
        (
            r"reali[sz]ed(?: volatility)?|historical volatility|hv|(?<!implied )volatility|yang-zhang|"
            r"(?<!implied )vol"
        ),
    ),
    Concept("rank", "fraction", r"hvrank|ivrank", r"rank|percentile"),
    Concept(
        "implied",
        "fraction",
        r"iv|impliedvolatility|atthemoney(?:call|put)iv",
        (
            r"implied(?: volatility)?|iv|(?<!reali[sz]ed )(?<!historical )(?<!zhang )volatility|"
            r"(?<!reali[sz]ed )vol"
        ),
    ),
    Concept("impliedmove", "fraction", r"impliedmove", r"implied move|expected move|move|straddle"),
    Concept("skew", "fraction", r"putskew", r"skew", signed=True),
    Concept("term", "fraction", r"termslope", r"term[- ](?:structure|slope)", signed=True),
    Concept(
        "ratio", "ratio", r"ivhvratio", r"ratio|iv[/ -](?:to-)?hv|implied to reali[sz]ed|over reali[sz]ed|times|premium"
    ),
    Concept("volumeratio", "ratio", r"volumeratio", r"volume|turnover"),
    Concept("volume", "count", r"volume", r"volume|traded|turnover|shares"),
    Concept("interest", "count", r"openinterest", r"open interest|oi"),
    Concept("spread", "fraction", r"spread", r"spread|wide|bid[-/ ]ask"),
    Concept("delta", "fraction", r"delta", r"delta"),
    Concept("gamma", "number", r"gamma", r"gamma"),
    Concept("theta", "price", r"theta", r"theta|decay\w*|a day|per day"),
    Concept("vega", "price", r"vega", r"vega|a point|per point"),
    Concept("rho", "price", r"rho", r"rho"),
    Concept(
        "roc",
        "fraction",
        r"roc",
        r"roc|return on capital|yields?|returns?|premium|on collateral|on (?:the )?strike|pays",
    ),
    Concept("weekly", "fraction", r"rocweekly", r"weekly|a week|per week|each week"),
    Concept("annual", "fraction", r"rocannual", r"annual\w*|a year|per year|yearly|per annum"),
    Concept("pop", "fraction", r"pop", r"probability|pop|odds|chance|profitable|likelihood"),
    Concept("breakeven", "price", r"breakeven", r"break-?\s?evens?|breaks even"),
    Concept(
        "premium",
        "price",
        r"mid|bid|ask",
        (
            r"mid(?:point)?|premium|credit|collects?|pays?|price[ds]?|quoted?|costs?|sells? for|fetch\w*|"
            r"worth|brings? in|earns?|receives?|takes? in|income"
        ),
    ),
    Concept("bid", "price", r"bid", r"bid"),
    Concept("ask", "price", r"ask", r"ask(?:ed)?|offer(?:ed)?"),
    Concept("strike", "price", r"strike|putskewstrike", r"strikes?|puts?|calls?|struck"),
    Concept("expiry", "any", r"expiry|expiries", r"expir\w*|puts?|calls?|contracts?|matur\w*"),
    Concept("dte", "days", r"dte|dtemin|dtemax|daysto\w+", r"dte|days?|expir\w*|weeks?|to go"),
    Concept(
        "level",
        "price",
        r"price|level|now",
        r"levels?|zones?|supports?|resistances?|floors?|ceilings?|lines?|swings?|highs?|lows?|price",
    ),
    Concept("touches", "count", r"touches", r"touch(?:es|ed)?|test(?:s|ed)?|held|times"),
    Concept("lasttouch", "any", r"lasttouch", r"touch(?:es|ed)?|test(?:s|ed)?|held"),
    Concept("slope", "number", r"slope", r"slope\w*|a session|per session|a day|rising|falling", signed=True),
    Concept("atr", "price", r"atr", r"atr|true ranges?"),
    Concept("fit", "fraction", r"r|rsquared|fit", r"fit|r-?squared|r2|r²"),
    Concept("adx", "number", r"adx", r"adx|directional|trend(?: strength)?"),
    Concept("macd", "number", r"macd|macdsignal|macdhistogram", r"macd", signed=True),
    Concept("signal", "number", r"macdsignal", r"signal"),
    Concept("average", "any", r"sma|ema", r"sma|ema|(?:moving )?averages?|means?", signed=True),
    Concept("band", "price", r"bollinger(?:upper|lower|middle)", r"bollinger|bands?"),
    Concept("upper", "price", r"bollingerupper", r"upper"),
    Concept("lower", "price", r"bollingerlower", r"lower"),
    Concept("high", "price", r"high", r"highs?|peak|top"),
    Concept("low", "price", r"low", r"lows?|trough|bottom"),
    Concept("open", "price", r"open", r"open(?:s|ed|ing)?"),
    Concept(
        "close",
        "price",
        r"close|lastclose|spot|marketprice",
        r"clos(?:e[ds]?|ing)|last|spot|price[ds]?|trad(?:es|ed|ing)|stock|finished",
    ),
    Concept(
        "valuation",
        "ratio",
        r"(?:trailing|forward)?pe|pricetobook|pegratio",
        r"p/?e|price[- ]to[- ]\w*\s?earnings|earnings|multiple|valuation",
    ),
    Concept("margin", "fraction", r"\w*margins?", r"margins?"),
    Concept("growth", "fraction", r"\w*growth", r"growth|grew|growing|grows?|increase[ds]?", signed=True),
    Concept("debt", "percent", r"debttoequitypercent", r"debt|leverage"),
    Concept("rating", "number", r"recommendationmean", r"rating|recommendation|analysts?"),
    Concept(
        "history", "count", r"sessions|highsessions|changesessions|hvranksessions|bars", r"history|sessions?|bars?"
    ),
    Concept("rate", "fraction", r"rate|dividendyield|yield", r"rate|yield|dividend"),
    Concept("share", "fraction", r"\w*share", r"share|weight|portfolio|equity|of (?:the )?(?:book|account)"),
    Concept(
        "money",
        "price",
        r"cash|equity|buyingpower|capital|notional|maxordernotional|marketvalue|averagecost",
        r"cash|equity|buying power|capital|notional|limit|value|cost|order",
    ),
    Concept("cap", "price", r"marketcap\w*", r"market cap\w*|capitali[sz]ation"),
    Concept("extension", "any", r"\w*extension\w*|inatr|aboves\w+", r"exten\w*|stretched|above|from"),
    Concept("compared", "count", r"compared|count", r"names|compared|symbols"),
    Concept(
        "session",
        "any",
        r"asof|date|session|from|to|confirmed|quotedat|publishedat|previoussession|pricedate",
        r"as of|session|on|since|from|to|dated|clos\w*|high|low|swing|published|reported|confirmed|until|by",
    ),
)


_KINDS = (
    ("percent", re.compile(r"percent|pct")),
    ("days", re.compile(r"^(?:dte|days\w*|age\w*days)$|days$")),
    ("fraction", re.compile(r"(?:margin|growth|yield|share|ratio|fraction|return|probability|weekly|annual)s?$")),
    ("count", re.compile(r"(?:count|touches|sessions|bars|volume|interest|number|shares|quantity)$")),
    ("price", re.compile(r"price|cost|cash|equity|notional|capital|value|revenue|income|debt$")),
)
_FIELDS = [(concept, re.compile(concept.fields)) for concept in CONCEPTS]
_TERMS = [(concept.name, re.compile(rf"\b(?:{concept.terms})(?:\d*|s)\b", re.IGNORECASE)) for concept in CONCEPTS]
_PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_LAST_DIGITS = re.compile(r"\d+$")
_TOKEN = re.compile(r"[A-Za-z]{3,}")
_SHORTEST = 4


class Field(NamedTuple):
    """The meaning of a field's name: its concepts with parts of its name, the class of its unit, and the number of
    sessions that its name promises."""

    concepts: frozenset[str]
    kind: Class
    length: float | None
    signed: bool
    falling: bool


@lru_cache(maxsize=4096)
def field_of(key: str) -> Field:
    digits = _LAST_DIGITS.search(key)
    name = _LAST_DIGITS.sub("", key).lower().replace("_", "")
    fitting = [concept for concept, pattern in _FIELDS if pattern.fullmatch(name)]
    parts = {stem(part) for part in _PARTS.findall(key) if len(part) >= _SHORTEST}
    kind: Class = fitting[0].kind if fitting else next((k for k, p in _KINDS if p.search(name)), "any")  # type: ignore[misc]
    return Field(
        frozenset({concept.name for concept in fitting} | parts),
        kind,
        float(digits[0]) if digits and len(name) > 1 else None,
        any(concept.signed for concept in fitting),
        any(concept.falling for concept in fitting),
    )


@lru_cache(maxsize=4096)
def concepts_in(text: str) -> frozenset[str]:
    """Return the concepts that a text names, and the stems of its longer tokens."""
    named = {name for name, pattern in _TERMS if pattern.search(text)}
    return frozenset(named | {stem(token) for token in _TOKEN.findall(text) if len(token) >= _SHORTEST})


def stem(token: str) -> str:
    """Return a token in lower case without the ending of a plural or a participle, marked as no concept's name."""
    lower = token.lower()
    for ending in ("ing", "ies", "es", "ed", "s", "y"):
        if lower.endswith(ending) and len(lower) - len(ending) >= _SHORTEST - 1:
            lower = lower[: -len(ending)]
            break
    return f"={lower}"
