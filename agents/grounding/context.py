"""The text around a figure: its sentence, the terms beside it, and the rows that it names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from chordesk.agents.grounding.concepts import concepts_in
from chordesk.agents.grounding.dates import PartialDate, months_in
from chordesk.agents.grounding.figures import RANGE, Figure, Reading
from chordesk.agents.grounding.sources import Index, Row

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
        """Return the text between this figure and a later one of the sentence."""
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
        """Return the parameters (20 of 20-day) beside the figure."""
        first, last = self.figure.start - len(self.before), self.figure.end + len(self.after)
        named = [value for at, value in self.whole.lengths if first <= at <= last]
        periods = (one for one in self.whole.figures if one.unit == "days" and one is not self.figure)
        return named + [one.value for one in periods if first <= one.start <= last]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence with its figures and parameters."""

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
        """Add what another stretch mentions."""
        self.names |= other.names
        self.dates += other.dates
        self.numbers |= other.numbers
        self.months |= other.months
        self._known.clear()

    def of(self, index: Index, table: str, name: str) -> frozenset[Any]:
        """Return the values of one identity of a table that are mentioned."""
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
    """Return each figure in its sentence, in order."""
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
    """Return the text after a figure up to the end of its clause; what stands in brackets at once belongs to it."""
    bracket = _BRACKETED.match(after)
    if bracket:
        return bracket[0]
    rest = after.lstrip(" ,")
    end = _CLAUSE.search(rest)
    return rest[: end.start()] if end else rest


def mentions(text: str, figures: Sequence[Figure]) -> Mentions:
    """Return what a stretch of text, with these figures, mentions."""
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
        """Return 0 when the text names other rows of the tables that a row is in, 2 when it names this one, else 1.

        The first stretch that names a row of a table decides on it. A row of a symbol that no text names is the
        subject's, and the subject's symbol alone names no row of several.
        """
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
    """Return the symbol that a question is on; None when it is on several."""
    found = question.get("symbol")
    return found.upper() if isinstance(found, str) else None
