"""The figures that a report may rest on, and the text around a figure: its sentence, terms and rows."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

from chordesk.agents.grounding.figures import RANGE, Figure, PartialDate, Reading, dates_in, months_in, read

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
    signed: bool  # the sign is part of what it states
    falling: bool  # it is negative by its nature, and is named without a sign


# Each concept with its class, the names of its fields, and its terms. +: it is signed; -: falling.
_CONCEPTS = r"""rsi number rsi rsi|relative strength
momentum fraction+ momentum momentum|returns?|gain(?:ed|s)?|performance|moved?|rose|up|down|fell|lost
high fraction+- fromhigh from (?:its |the |a |their )?(?:[\w-]+ )?(?:high|peak|top)
    |(?:below|off|under|beneath) (?:its |the |a )?(?:[\w-]+ )?(?:high|peak|top)
    |distance (?:from|to) (?:its |the )?(?:[\w-]+ )?high|from the high
drawdown fraction+- drawdown draw-?downs?|peak[- ]to[- ]trough|decline|setback|pullback
gap fraction+ gap gap(?:ped|s)?|open(?:ed|ing)?
change fraction+ change change[ds]?|day|session|today|rose|fell|gain(?:ed|s)?|lost|up|down|move[ds]?|closed|slid
    |added|shed|dropp?(?:ed|s)?|advance[ds]?|rallied
realised fraction volatility|hv|yangzhang|volatilityannual reali[sz]ed(?: volatility)?|historical volatility|hv
    |(?<!implied )volatility|yang-zhang|(?<!implied )vol
rank fraction hvrank|ivrank rank|percentile
implied fraction iv|impliedvolatility|atthemoney(?:call|put)iv implied(?: volatility)?|iv
    |(?<!reali[sz]ed )(?<!historical )(?<!zhang )volatility|(?<!reali[sz]ed )vol
impliedmove fraction impliedmove implied move|expected move|move|straddle
skew fraction+ putskew skew
term fraction+ termslope term[- ](?:structure|slope)
ratio ratio ivhvratio ratio|iv[/ -](?:to-)?hv|implied to reali[sz]ed|over reali[sz]ed|times|premium
volumeratio ratio volumeratio volume|turnover
volume count volume volume|traded|turnover|shares
interest count openinterest open interest|oi
spread fraction spread spread|wide|bid[-/ ]ask
delta fraction delta delta
gamma number gamma gamma
theta price theta theta|decay\w*|a day|per day
vega price vega vega|a point|per point
rho price rho rho
roc fraction roc roc|return on capital|yields?|returns?|premium|on collateral|on (?:the )?strike|pays
weekly fraction rocweekly weekly|a week|per week|each week
annual fraction rocannual annual\w*|a year|per year|yearly|per annum
pop fraction pop probability|pop|odds|chance|profitable|likelihood
breakeven price breakeven break-?\s?evens?|breaks even
premium price mid|bid|ask mid(?:point)?|premium|credit|collects?|pays?|price[ds]?|quoted?|costs?|sells? for
    |fetch\w*|worth|brings? in|earns?|receives?|takes? in|income
bid price bid bid
ask price ask ask(?:ed)?|offer(?:ed)?
strike price strike|putskewstrike strikes?|puts?|calls?|struck
expiry any expiry|expiries expir\w*|puts?|calls?|contracts?|matur\w*
dte days dte|dtemin|dtemax|daysto\w+ dte|days?|expir\w*|weeks?|to go
level price price|level|now levels?|zones?|supports?|resistances?|floors?|ceilings?|lines?|swings?|highs?|lows?|price
touches count touches touch(?:es|ed)?|test(?:s|ed)?|held|times
lasttouch any lasttouch touch(?:es|ed)?|test(?:s|ed)?|held
slope number+ slope slope\w*|a session|per session|a day|rising|falling
atr price atr atr|true ranges?
fit fraction r|rsquared|fit fit|r-?squared|r2|r²
adx number adx adx|directional|trend(?: strength)?
macd number+ macd|macdsignal|macdhistogram macd
signal number macdsignal signal
average any+ sma|ema sma|ema|(?:moving )?averages?|means?
band price bollinger(?:upper|lower|middle) bollinger|bands?
upper price bollingerupper upper
lower price bollingerlower lower
high price high highs?|peak|top
low price low lows?|trough|bottom
open price open open(?:s|ed|ing)?
close price close|lastclose|spot|marketprice clos(?:e[ds]?|ing)|last|spot|price[ds]?|trad(?:es|ed|ing)|stock|finished
valuation ratio (?:trailing|forward)?pe|pricetobook|pegratio p/?e|price[- ]to[- ]\w*\s?earnings|earnings|multiple
    |valuation
margin fraction \w*margins? margins?
growth fraction+ \w*growth growth|grew|growing|grows?|increase[ds]?
debt percent debttoequitypercent debt|leverage
rating number recommendationmean rating|recommendation|analysts?
history count sessions|highsessions|changesessions|hvranksessions|bars history|sessions?|bars?
rate fraction rate|dividendyield|yield rate|yield|dividend
share fraction \w*share share|weight|portfolio|equity|of (?:the )?(?:book|account)
money price cash|equity|buyingpower|capital|notional|maxordernotional|marketvalue|averagecost cash|equity
    |buying power|capital|notional|limit|value|cost|order
cap price marketcap\w* market cap\w*|capitali[sz]ation
extension any \w*extension\w*|inatr|aboves\w+ exten\w*|stretched|above|from
compared count compared|count names|compared|symbols
session any asof|date|session|from|to|confirmed|quotedat|publishedat|previoussession|pricedate as of|session|on
    |since|from|to|dated|clos\w*|high|low|swing|published|reported|confirmed|until|by"""
CONCEPTS = tuple(
    Concept(name, kind.rstrip("+-"), fields, terms, "+" in kind, "-" in kind)  # type: ignore[arg-type]
    for name, kind, fields, terms in (row.split(" ", 3) for row in _CONCEPTS.replace("\n    ", "").split("\n"))
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


Source = Literal["tool", "question"]
# Fields that name a row. Two rows of a table are told apart by them.
IDENTITIES = ("symbol", "id", "contract", "strike", "expiry", "date", "kind")
_MOST_DATA = 100_000
_DEEPEST = 12
_LONGEST_TEXT = 4_000
_MOST_LABELS = 8
_LEVEL = re.compile(r"[A-Z](\d{1,3}\.\d)")


class Row(NamedTuple):
    """One object of an answer."""

    number: int
    table: str  # path of its list, without ordinals
    names: Mapping[str, Any]  # its identities
    parent: Row | None  # the object that holds it


class Origin(NamedTuple):
    """Place of an answer. call: ordinal of the tool call, None of the question."""

    source: Source
    call: int | None
    tool: str | None


class Datum(NamedTuple):
    """One figure of an answer."""

    value: float  # as it stands there, a date for `date`
    origin: Origin
    path: str
    row: Row
    # concepts, kind, length: of its field; unit: of a figure inside a text
    concepts: frozenset[str]
    kind: Class
    length: float | None = None
    signed: bool = False
    falling: bool = False
    date: PartialDate | None = None
    step: float = 0.0


@dataclass(slots=True)
class Index:
    """All figures, to be found by concept and by value; built once a turn in n log n."""

    data: list[Datum] = field(default_factory=list)
    dates: list[Datum] = field(default_factory=list)
    by_concept: dict[str, list[Datum]] = field(default_factory=lambda: defaultdict(list))
    tables: dict[str, dict[str, set[Any]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))
    by_row: dict[int, list[Datum]] = field(default_factory=lambda: defaultdict(list))
    siblings: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    rows: int = 0
    _sizes: list[float] = field(default_factory=list)

    def close(self) -> Index:
        self.data.sort(key=lambda one: abs(one.value))
        self._sizes = [abs(one.value) for one in self.data]
        for one in self.data:
            self.by_row[one.row.number].append(one)
            for concept in one.concepts:
                self.by_concept[concept].append(one)
        return self

    def single(self, row: Row) -> bool:
        """Return True for a row that is the only one of its symbol in its table, as are those that hold it."""
        return all(self.siblings[family(one)] == 1 for one in chain(row))

    def between(self, low: float, high: float) -> Sequence[Datum]:
        return self.data[bisect_left(self._sizes, low) : bisect_right(self._sizes, high)]


def index_of(calls: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any]]], question: Mapping[str, Any]) -> Index:
    """Return the index of a turn. calls: tool, arguments and answer of each; question: the subject of the turn."""
    index = Index()
    _Walk(index, Origin("question", None, None)).value("", question)
    for ordinal, (tool, arguments, answer) in enumerate(calls):
        _Walk(index, Origin("question", ordinal, tool)).value("/arguments", arguments)
        _Walk(index, Origin("tool", ordinal, tool)).value("", answer)
    return index.close()


class _Walk:
    """Enters the figures of one answer into an index."""

    def __init__(self, index: Index, origin: Origin) -> None:
        self._index = index
        self._origin = origin
        self._columns: Sequence[str] = ()
        self._root = self._row("", {}, None)

    def value(self, path: str, value: Any) -> None:
        self._enter(path, "", path.rsplit("/", 1)[-1], value, self._root, frozenset(), 0)

    def _row(self, table: str, names: Mapping[str, Any], parent: Row | None) -> Row:
        self._index.rows += 1
        row = Row(self._index.rows, f"{self._origin.call}{self._origin.source}{table}", names, parent)
        self._index.siblings[family(row)] += 1
        for name, value in names.items():
            self._index.tables[row.table][name].add(value)
        return row

    def _enter(self, path: str, table: str, key: str, value: Any, row: Row, above: frozenset[str], depth: int) -> None:
        """key: name of the field; above: concepts of the lists and objects that hold it."""
        if depth > _DEEPEST or len(self._index.data) >= _MOST_DATA or isinstance(value, bool) or value is None:
            return
        if isinstance(value, int | float):
            self._number(path, key, value, row, above)
        elif isinstance(value, str):
            self._text(path, key, value, row, above)
        elif isinstance(value, Mapping):
            self._object(path, table, key, value, row, above, depth)
        elif isinstance(value, Sequence):
            self._list(path, table, key, value, row, above, depth)

    def _object(
        self, path: str, table: str, key: str, value: Mapping[str, Any], row: Row, above: frozenset[str], depth: int
    ) -> None:
        own = self._row(table, identities(value), row)
        kind = value.get("kind")
        if kind in ("high", "low"):
            above = above | {kind}
        self._level(path, value, own, above)
        columns = value.get("columns")
        if isinstance(columns, list | tuple):
            self._columns = [str(one) for one in columns]
        for name, item in value.items():
            within = above | field_of(str(name)).concepts if isinstance(item, Mapping | list | tuple) else above
            where = f"{path}/{escaped(str(name))}"
            self._enter(where, f"{table}/{name}", str(name), item, own, within, depth + 1)

    def _level(self, path: str, value: Mapping[str, Any], row: Row, above: frozenset[str]) -> None:
        """Enter the share that the id of a Fibonacci level has, such as 61.8 of F61.8."""
        name = value.get("id")
        found = _LEVEL.fullmatch(name) if isinstance(name, str) else None
        if found:
            self._add(float(found[1]), f"{path}/id", row, above, "percent")

    def _list(
        self, path: str, table: str, key: str, value: Sequence[Any], row: Row, above: frozenset[str], depth: int
    ) -> None:
        self._counted(path, key, value, row, above)
        columns = self._columns_of(value)
        for at, item in enumerate(value):
            where = f"{path}/{at}"
            if columns:
                own = self._row(table, identities(dict(zip(columns, item, strict=True))), row)
                for place, (name, cell) in enumerate(zip(columns, item, strict=True)):
                    self._enter(f"{where}/{place}", f"{table}/{name}", name, cell, own, above, depth + 2)
            else:
                self._enter(where, table, key, item, row, above, depth + 1)

    def _columns_of(self, value: Sequence[Any]) -> Sequence[str]:
        first = value[0] if value else None
        fits = isinstance(first, list | tuple) and all(
            isinstance(one, list | tuple) and len(one) == len(self._columns) for one in value
        )
        return self._columns if fits else ()

    def _counted(self, path: str, key: str, value: Sequence[Any], row: Row, above: frozenset[str]) -> None:
        own = above | field_of(key).concepts
        self._add(float(len(value)), path, row, own, "size")
        labels: dict[str, Counter[str]] = defaultdict(Counter)
        for item in value:
            if isinstance(item, Mapping):
                for name, text in item.items():
                    if isinstance(text, str) and len(text) <= 30 and len(labels[name]) <= _MOST_LABELS:
                        labels[name][text] += 1
        for name, counts in labels.items():
            if name not in IDENTITIES[:4] and len(counts) <= _MOST_LABELS:
                for text, count in counts.items():
                    self._add(float(count), path, row, concepts_in(text), "size")

    def _number(self, path: str, key: str, value: float, row: Row, above: frozenset[str]) -> None:
        try:
            number = float(value)
        except OverflowError:
            return
        if math.isfinite(number):
            of = field_of(key)
            # An extension is in units of what its field names (average true ranges), and no price.
            kind: Class = "any" if "extension" in above else of.kind
            self._add(number, path, row, _named(of, above), kind, of.length, of.signed, of.falling)

    def _text(self, path: str, key: str, value: str, row: Row, above: frozenset[str]) -> None:
        if not any(char.isdigit() for char in value):
            return
        of = field_of(key)
        if len(value) <= 40 and " " not in value:
            for _start, _end, date in dates_in(value):
                self._index.dates.append(Datum(0.0, self._origin, path, row, _named(of, above), "any", date=date))
            return
        named = concepts_in(value[:_LONGEST_TEXT]) | above
        for one in read(value[:_LONGEST_TEXT]).figures:
            if one.date is not None:
                self._index.dates.append(Datum(0.0, self._origin, path, row, named, "any", date=one.date))
                continue
            kind: Class = {"percent": "percent", "days": "days", "times": "ratio", "money": "price"}.get(
                one.unit, "any"
            )  # type: ignore[assignment]
            scale = {"bps": 1e-4, "cents": 1e-2}.get(one.unit, 1.0)
            signed = -one.value if one.sign < 0 else one.value
            self._add(signed * scale, path, row, named, kind, step=one.step * scale)

    def _add(
        self, value: float, path: str, row: Row, concepts: frozenset[str], kind: Class, length: float | None = None,
        signed: bool = False, falling: bool = False, step: float = 0.0,
    ) -> None:  # fmt: skip
        datum = Datum(value, self._origin, path, row, concepts, kind, length, signed, falling, None, step)
        self._index.data.append(datum)


def _named(of: Field, above: frozenset[str]) -> frozenset[str]:
    """Return the concepts of a field; those of what holds it only where its own name is a general one."""
    known = any(not concept.startswith("=") for concept in of.concepts)
    return of.concepts if known and "level" not in of.concepts and "session" not in of.concepts else of.concepts | above


def identities(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an object that name it; a date as its parts, a strike as a number."""
    found: dict[str, Any] = {}
    for name in IDENTITIES:
        given = value.get(name)
        if isinstance(given, str) and name in ("expiry", "date"):
            for _start, _end, date in dates_in(given):
                found[name] = date
        elif isinstance(given, str) and len(given) <= 40:
            found[name] = given.upper()
        elif name == "strike" and isinstance(given, int | float) and not isinstance(given, bool):
            found[name] = float(given)
    return found


def family(row: Row) -> tuple[Any, ...]:
    return row.table, row.parent.number if row.parent else None, row.names.get("symbol")


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def chain(row: Row) -> Iterator[Row]:
    at: Row | None = row
    while at is not None:
        yield at
        at = at.parent


_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9(\"'$])|;\s+|\s-\s(?=[A-Z])")
_CLAUSE = re.compile(r"[,;:()]|\b(?:and|but|while|with|against|versus|vs\.?|whereas|though|although|or)\b")
_BRACKETED = re.compile(r"\s?\(([^()]{0,60})\)")
PART_OF = re.compile(r"\s?(?:of|out of|/)(?: the| its| all)?\s?$")
_NAME = re.compile(r"\b[A-Za-z]{0,6}\d*[A-Za-z]?\d*(?:\.[A-Z0-9]{1,2})?\b")
_DOWN = re.compile(
    r"\b(?:down|fell|falls?|falling|fallen|below|under|beneath|off|lost|loses?|losing|loss|declin\w+|dropp?\w*|lower"
    r"|negative|slid|slipp?\w*|shed|sank|dipp?\w*|retreat\w*|weak\w*|minus|shrank|shrunk|contract(?:ed|ing)|cut)\b",
    re.IGNORECASE,
)
_UP = re.compile(
    r"\b(?:up|rose|rises?|rising|risen|gain\w*|above|over|higher|climb\w*|rall\w+|advanc\w*|added|positive|grew|grow\w*"
    r"|jump\w*|plus|increas\w*|surg\w*)\b",
    re.IGNORECASE,
)
_RELATION = re.compile(
    r"\b(?:above|below|over|under|from|away|of|than|premium|discount|cushion|higher|lower|up|down|between|against|versus"
    r"|vs|times|gap|difference|wider?|room|upside|downside|distance|beneath|beyond|ratio|spread|points?|off|width"
    r"|more|less|rise|fall|rose|fell|to|percent|margin|half|buffer|clear)\b",
    re.IGNORECASE,
)


_MOST_BESIDE = 200  # characters


@dataclass(frozen=True)
class Place:
    """A figure in its sentence. near: the terms before it up to the last figure, and after it up to the end of the
    clause; whole: the sentence."""

    figure: Figure
    before: str
    after: str
    whole: Sentence

    @cached_property
    def near(self) -> frozenset[str]:
        return concepts_in(self.before) | concepts_in(self.after) | concepts_in(self.figure.text)

    def between(self, following: Place) -> str:
        length = following.figure.start - self.figure.end
        return following.before[-length:] if length > 0 else ""

    @cached_property
    def relates(self) -> bool:
        """True where a term beside the figure compares two things."""
        return bool(_RELATION.search(self.before) or _RELATION.search(self.after))

    @cached_property
    def direction(self) -> int:
        """Return -1, 1 or 0 as the sign, or the nearest term of a direction, has it."""
        if self.figure.sign:
            return self.figure.sign
        after = " ".join(self.after.split()[:3])
        for text, last in ((after, False), (self.before, True)):
            down, up = list(_DOWN.finditer(text)), list(_UP.finditer(text))
            if down and up:
                at = -1 if last else 0
                later = down[at].start() > up[at].start()
                return -1 if later is last else 1
            if down or up:
                return -1 if down else 1
        return 0

    @cached_property
    def lengths(self) -> list[float]:
        first, last = self.figure.start - len(self.before), self.figure.end + len(self.after)
        named = [value for at, value in self.whole.lengths if first <= at <= last]
        periods = (one for one in self.whole.figures if one.unit == "days" and one is not self.figure)
        return named + [one.value for one in periods if first <= one.start <= last]


@dataclass(frozen=True, slots=True)
class Sentence:
    text: str
    figures: Sequence[Figure]
    lengths: Sequence[tuple[int, float]]
    concepts: frozenset[str]


@dataclass(slots=True)
class Mentions:
    """The names, dates and strikes that a stretch of text has, by which it may name rows."""

    names: set[str] = field(default_factory=set)
    dates: list[PartialDate] = field(default_factory=list)
    numbers: set[float] = field(default_factory=set)
    shares: set[float] = field(default_factory=set)
    months: set[int] = field(default_factory=set)
    _known: dict[tuple[str, str], frozenset[Any]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.names or self.dates or self.numbers or self.shares or self.months)

    def add(self, other: Mentions) -> None:
        self.names |= other.names
        self.dates += other.dates
        self.numbers |= other.numbers
        self.months |= other.months
        self._known.clear()

    def of(self, index: Index, table: str, name: str) -> frozenset[Any]:
        known = self._known.get((table, name))
        if known is None:
            known = self._known[table, name] = frozenset(self._find(index.tables[table][name], name))
        return known

    def _find(self, values: set[Any], name: str) -> set[Any]:
        if name == "strike":
            return self.numbers & values
        if name in ("date", "expiry"):
            dated = {value for value in values if any(date.fits(value) for date in self.dates)}
            return dated or {value for value in values if name == "expiry" and value.month in self.months}
        if name == "kind":
            return {value for value in values if value in ("PUT", "CALL") and (value in self.names)}
        found = self.names & values
        if name == "id" and self.shares:
            found |= {value for value in values if value[1:] in {f"{share:.1f}" for share in self.shares}}
        return found


def places(reading: Reading) -> list[Place]:
    found = []
    bounds = [0, *(match.end() for match in _SENTENCE.finditer(reading.text)), len(reading.text)]
    at = 0
    for start, end in pairwise(bounds):
        figures = []
        while at < len(reading.figures) and reading.figures[at].start < end:
            figures.append(reading.figures[at])
            at += 1
        if not figures:
            continue
        text = reading.text[start:end]
        lengths = [one for one in reading.lengths if start <= one[0] < end]
        sentence = Sentence(text, figures, lengths, concepts_in(text))
        edges = _edges(start, figures)
        for place, (one, other) in enumerate(pairwise(figures)):
            between = reading.text[one.end : other.start]
            if RANGE.match(between) or PART_OF.match(between):
                edges[place + 1] = edges[place]
        nexts = [*(one.start for one in figures[1:]), end]
        for one, first, last in zip(figures, edges, nexts, strict=False):
            before = reading.text[max(first, one.start - _MOST_BESIDE) : one.start]
            after = reading.text[one.end : min(max(last, one.end), one.end + _MOST_BESIDE)]
            found.append(Place(one, before, _clause(after), sentence))
    return found


def _edges(start: int, figures: Sequence[Figure]) -> list[int]:
    """Return for each figure where the text before it begins: after the last figure, but for a date or a period."""
    edges = [start]
    for one in figures:
        edges.append(edges[-1] if one.unit in ("date", "days") else one.end)
    return edges


def _clause(after: str) -> str:
    bracket = _BRACKETED.match(after)
    if bracket:
        return bracket[0]
    rest = after.lstrip(" ,")
    end = _CLAUSE.search(rest)
    return rest[: end.start()] if end else rest


def mentions(text: str, figures: Sequence[Figure]) -> Mentions:
    found = Mentions()
    for match in _NAME.finditer(text):
        name = match[0].upper()
        if name in ("PUTS", "CALLS"):
            name = name[:-1]
        if match[0] == name or name in ("PUT", "CALL"):
            found.names.add(name)
    found.months.update(months_in(text))
    for one in figures:
        if one.date is not None:
            found.dates.append(one.date)
        elif one.unit == "percent":
            found.shares.add(one.value)
        elif one.unit in ("plain", "money"):
            found.numbers.add(one.value)
    return found


@dataclass(slots=True)
class NamedRows:
    """Stretches of text, nearest to a figure first, by which rows are distinguished. subject: symbol of the texts."""

    index: Index
    stretches: Sequence[Mentions]
    subject: str | None
    _levels: dict[int, int] = field(default_factory=dict)

    def level(self, row: Row) -> int:
        """Return 0 when the text names other rows of the tables that a row is in, 2 when it names this one, else 1. The
        first stretch that names a row of a table decides on it. A row of a symbol that no text names is the subject's,
        and the subject's symbol alone names no row of several."""
        known = self._levels.get(row.number)
        if known is None:
            known = self._levels[row.number] = self._level(row)
        return known

    def _level(self, row: Row) -> int:
        level = 1 if row.parent is None else self.level(row.parent)
        for name, value in row.names.items() if level else ():
            named = next((found for one in self.stretches if (found := one.of(self.index, row.table, name))), None)
            if name == "symbol" and value == self.subject and not self.stretches[0].of(self.index, row.table, name):
                continue
            if named is None:
                if name == "symbol" and self.subject is not None and value != self.subject:
                    return 0
            elif value not in named:
                return 0
            elif name != "kind" and (name != "symbol" or value != self.subject):
                level = 2
        return level


def symbol_of(question: Mapping[str, Any]) -> str | None:
    found = question.get("symbol")
    return found.upper() if isinstance(found, str) else None
