"""What an import is about to write: first and last bar and largest move of each name, and how files were read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from chordesk.tools.market.files.known_exports import SOURCES
from chordesk.tools.market.files.tables import Unreadable, number_of
from chordesk.tools.samples.own_files import Bar, SetAside

SHOWN = 12


class NamePreview(NamedTuple):
    """One symbol's bars. first, last: (day, close); move: the largest from one close to the next, as a fraction."""

    symbol: str
    bars: int
    first: tuple[str, float]
    last: tuple[str, float]
    move: float
    moved: str  # the day of that move, empty with one bar
    source: str  # whose export it is, empty where it is not known

    def __str__(self) -> str:
        span = f"{self.first[0]} at {self.first[1]:,g} to {self.last[0]} at {self.last[1]:,g}"
        moved = f", largest move {self.move:+.1%} on {self.moved}" if self.moved else ""
        return f"{self.symbol}: {self.bars:,} bars, {span}{moved}{f' ({self.source})' if self.source else ''}"


class Preview(NamedTuple):
    names: list[NamePreview]
    others: Mapping[str, str]  # further files of the folder, and the files that they are
    aside: SetAside

    def lines(self) -> list[str]:
        """Return the preview for people; of many names those with the largest moves, which show a mistake first."""
        kept = sorted(self.names, key=lambda one: (-abs(one.move), one.symbol))[:SHOWN]
        found = [str(one) for one in sorted(kept, key=lambda one: one.symbol)]
        if rest := len(self.names) - len(kept):
            found.append(f"and {rest} more names, each with smaller moves")
        found += [f"{name}: {given}" for name, given in self.others.items()]
        notes = Counter(one.kind for one in self.aside.notes)
        for kind, count in notes.items():
            example = next(one for one in self.aside.notes if one.kind == kind)
            what = f"{example.file}{example.reason.removeprefix(kind)}"
            found.append(f"{kind}: {what}" + (f", and {count - 1} more" if count > 1 else ""))
        return [*found, *self.aside.lines("")]


def preview_of(bars: Mapping[str, Sequence[Bar]], others: Mapping[str, str], aside: SetAside) -> Preview:
    """bars: by symbol, in the order of their days."""
    names = [found for symbol, rows in sorted(bars.items()) if (found := _name(symbol, rows, aside)) is not None]
    return Preview(names, others, aside)


def _name(symbol: str, rows: Sequence[Bar], aside: SetAside) -> NamePreview | None:
    closes = [(bar.day, close) for bar in rows if (close := close_of(bar)) is not None]
    if not closes:
        return None
    moves = [(after[1] / before[1] - 1, after[0]) for before, after in pairwise(closes) if before[1]]
    move, day = max(moves, key=lambda one: abs(one[0]), default=(0.0, ""))
    source = aside.sources.get(rows[0].origin[0], "")
    if note := next((one.note for one in SOURCES if one.name == source), ""):
        source = f"{source}: {note}"
    return NamePreview(symbol, len(rows), closes[0], closes[-1], move, day, source)


def figure_of(bar: Bar, name: str) -> float | None:
    try:
        return number_of(bar.figures.get(name, ""))
    except Unreadable:
        return None


def close_of(bar: Bar) -> float | None:
    close = figure_of(bar, "close")
    return figure_of(bar, "adjusted") if close is None else close
