"""A lens's rule on the figures of a day: which names pass, in what order, and for how many it cannot be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chordesk.models.answers import ScreenConfidence
from chordesk.models.errors import DeskError, UsageError
from chordesk.tools.lenses.expressions import Numbers
from chordesk.tools.lenses.figures import Panel, read_panel, shown
from chordesk.tools.lenses.files import SCORE, Lens
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import NAMED
from chordesk.tools.registry import ToolContext


@dataclass(frozen=True, slots=True)
class Passed:
    """A name that passes the rule. score: None in a lens without one."""

    symbol: str
    confidence: ScreenConfidence
    score: float | None
    figures: dict[str, float | None]

    def reason(self, lens: str) -> str:
        known = [shown(name, np.nan if value is None else value) for name, value in self.figures.items()]
        scored = [] if self.score is None else [f"score {self.score:.4g}"]
        return f"the rule of {lens} holds: {', '.join([*known, *scored])}."

    def row(self) -> dict[str, Any]:
        """As a model and the rulebook read it."""
        found = {name: None if value is None else float(f"{value:.6g}") for name, value in self.figures.items()}
        scored = {} if self.score is None else {"score": float(f"{self.score:.6g}")}
        return {"symbol": self.symbol, "confidence": self.confidence.value, **scored, "figures": found}


@dataclass(frozen=True, slots=True)
class Ruled:
    """What a rule says of the names of its universe, and of those that may be in it. passed: all that pass, the best
    first, more than the lens's hits perhaps; undecided: names of which a figure that decides is unknown; unknown: such
    names by figure; doubtful: those of them of which it is unknown whether they are in the universe."""

    compared: int
    passed: tuple[Passed, ...]
    undecided: int
    unknown: dict[str, int]
    doubtful: int = 0

    def notes(self, lens: Lens) -> list[str]:
        if not self.compared:
            return [f"{lens.title}: no name is in its universe"]
        found = [f"{self.undecided} of {self.compared} names are undecided"] if self.undecided else []
        if self.doubtful:
            found.append(f"of {self.doubtful} it is unknown whether they are in its universe")
        if lacking := {name: count for name, count in self.unknown.items() if count}:
            told = ", ".join(f"{name} of {count}" for name, count in lacking.items())
            found.append(f"unknown of {self.compared} names: {told}")
        return [f"{lens.title}: {'; '.join(found)}"] if found else []


class Members(NamedTuple):
    """The names that a lens looks at, and those of which it is unknown whether it does."""

    names: Panel
    doubtful: Panel


def members(lens: Lens, panel: Panel, own: Mapping[str, str | None]) -> Members:
    """Part a panel by the universe of a lens. own: the sectors of the names, where the lens is of sectors."""
    if lens.sectors:
        wanted, given = {one.lower() for one in lens.sectors}, [own.get(symbol) for symbol in panel.symbols]
        return Members(panel.only([(one or "").lower() in wanted for one in given]), panel.only([not x for x in given]))
    if (within := lens.within) is not None:
        truth = within.truth(panel.columns, len(panel))
        return Members(panel.only(truth.true.tolist()), panel.only(truth.unknown.tolist()))
    return Members(panel, panel.only([False] * len(panel)))


def sectors(market: MarketData, symbols: Sequence[str]) -> dict[str, str | None]:
    """Return the sectors of the named universe by symbol, and of further names where the market lists them."""
    try:
        found = {one.symbol: one.sector for one in market.universe(NAMED[0])}
    except DeskError:
        found = {}
    for symbol in symbols:
        if symbol not in found:
            try:
                found[symbol] = market.listing(symbol).sector
            except DeskError:
                found[symbol] = None
    return found


def sectors_for(lens: Lens, market: MarketData, symbols: Sequence[str]) -> dict[str, str | None]:
    """Return the sectors of the names where the lens is of sectors. Raises UsageError for a sector that no name has."""
    if not lens.sectors:
        return {}
    found = sectors(market, symbols)
    known = sorted({sector for sector in found.values() if sector})
    if lacking := [one for one in lens.sectors if one.lower() not in map(str.lower, known)]:
        reason = f"the lens {lens.name}: no name of the {market.name} market is of the sector {lacking[0][:40]!r}"
        remedy = f"choose among {', '.join(known)}" if known else "the sector column of a data folder's universe.csv"
        raise UsageError(reason, remedy=remedy if known else f"its source has no sectors: {remedy} gives them")
    return found


def ruled(lens: Lens, panel: Panel, most: int | None = None, doubtful: Panel | None = None) -> Ruled:
    """Return what the rule says of the names of a panel, which `rank` compares with each other. most: names of those
    that pass, by default all; doubtful: names that may be in the universe, of which nothing can be told."""
    assert lens.rule is not None, f"{lens.name} has no rule"
    size, columns = len(panel), panel.columns
    holds = lens.rule.truth(columns, size)
    scores = lens.scoring.numbers(columns, size) if lens.scoring is not None else np.zeros(size)
    # A name without a score has no place in the order.
    passing, undecided = holds.true & ~np.isnan(scores), holds.unknown | (holds.true & np.isnan(scores))
    strong = np.zeros(size, dtype=bool)
    if lens.strong is not None:
        strong = lens.strong.truth({**columns, SCORE: scores}, size).true
    order = sorted(np.flatnonzero(passing).tolist(), key=lambda at: (-scores[at], panel.symbols[at]))
    found = tuple(_passed(lens, panel, at, scores, bool(strong[at])) for at in order[:most])
    lacking, more = _lacking(lens, panel), len(doubtful) if doubtful is not None else 0
    if doubtful is not None and more:
        lacking = {name: count + _lacking(lens, doubtful)[name] for name, count in lacking.items()}
        lacking |= {"sector": more} if lens.sectors else {}
    return Ruled(size + more, found, int(undecided.sum()) + more, lacking, more)


def _lacking(lens: Lens, panel: Panel) -> dict[str, int]:
    return {name: int(np.isnan(panel.columns[name]).sum()) for name in lens.used if name in panel.columns}


def _passed(lens: Lens, panel: Panel, at: int, scores: Numbers, strong: bool) -> Passed:
    named = {name: float(panel.columns[name][at]) for name in lens.figures or lens.used}
    figures = {name: None if np.isnan(value) else value for name, value in named.items()}
    confidence = ScreenConfidence.HIGH if strong else ScreenConfidence.MEDIUM
    if any(figures[name] is None for name in lens.figures):
        confidence = ScreenConfidence.SPECULATIVE
    score = float(scores[at]) if lens.scoring is not None else None
    return Passed(panel.symbols[at], confidence, score, figures)


def ruled_today(lens: Lens, context: ToolContext, symbols: Sequence[str]) -> Ruled:
    """Return what the rule says of names on the context's day. Raises UsageError for a figure that its market does not
    have."""
    own = sectors_for(lens, context.market, symbols)
    names, doubtful = members(lens, read_panel(context, symbols, lens.used), own)
    return ruled(lens, names, doubtful=doubtful)
