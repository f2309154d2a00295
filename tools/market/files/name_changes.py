"""Changes of a symbol in own files: those that changes.csv states, and those that one company's two names show."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.clock import hours_of
from chordesk.tools.market.files.bars import Rows
from chordesk.tools.market.files.tables import Column, Problems, day_of, symbol_of
from chordesk.tools.market.fx import traded_in
from chordesk.tools.market.replay.market import NameChange

CHANGE_COLUMNS = {
    "old": Column(("old", "from", "oldsymbol", "before"), symbol_of, required=True),
    "new": Column(("new", "to", "newsymbol", "after"), symbol_of, required=True),
    "day": Column(("date", "day", "effective", "effectivedate"), day_of, required=True, kind="day"),
}
_MOST_GAP = 5  # sessions from the last bar of a name to the first of the next, where only the company links them
_MOST_MOVE = 1.3  # and between their closes: an exchange of shares at another ratio is a merger, and no change of name


class Stated(NamedTuple):
    """A row of changes.csv."""

    change: NameChange
    file: str
    row: int


class Span(NamedTuple):
    """The bars of a symbol: places of its rows."""

    first: int
    end: int


def name_changes(
    rows: Rows,
    stated: Sequence[Stated],
    companies: Mapping[str, str],
    problems: Problems,
    currency_of: Callable[[str], str] = traded_in,
) -> list[NameChange]:
    """Return the changes in ascending order of their days. A stated one that the bars contradict is an error, one
    without bars of both names a warning. companies: an identifier, such as a CIK, by symbol. What is held, its cost and
    its stops do not follow into another currency: such a stated change is an error, and none is inferred."""
    spans = _spans(rows)
    found: list[NameChange] = []
    for change, file, row in stated:
        missing = [symbol for symbol in change[:2] if symbol not in spans]
        if change.old == change.new:
            problems.error(file, f"{change.old} becomes itself", row)
        elif missing:
            problems.warn(file, f"{' and '.join(missing)} has no bars: {change.old} ends, and nothing is carried", row)
        elif (early := rows.day_at(spans[change.new].first)) < change.day:
            why = f"{change.new} has a bar of {early}, before {change.day}: a name follows where the other ends"
            problems.error(file, why, row, "date")
        elif (own := currency_of(change.old)) != (other := currency_of(change.new)):
            why = f"{change.old} is priced in {own} and {change.new} in {other}: what is held cannot follow"
            problems.error(file, f"{why}; leave the row out, and sell the one before it ends", row, "new")
        elif any(change.old == one.old or change.new == one.new for one in found):
            problems.error(file, f"{change.old} or {change.new} has a second change: a name follows one name", row)
        else:
            found.append(change)
    known = {symbol for change in found for symbol in change[:2]}
    inferred = (one for one in _by_company(rows, spans, companies) if currency_of(one.old) == currency_of(one.new))
    found += [one for one in inferred if not known & {one.old, one.new}]
    return sorted(found, key=lambda one: (one.day, one.old))


def _spans(rows: Rows) -> dict[str, Span]:
    if not len(rows.owner):
        return {}
    first = np.flatnonzero(np.r_[True, rows.owner[1:] != rows.owner[:-1]]).tolist()
    ends = [*first[1:], len(rows.owner)]
    return {rows.symbols[rows.owner[at]]: Span(at, end) for at, end in zip(first, ends, strict=True)}


def _by_company(rows: Rows, spans: Mapping[str, Span], companies: Mapping[str, str]) -> list[NameChange]:
    """Return where one name of a company ends and another begins within some sessions, at a price like the last."""
    groups: dict[str, list[str]] = defaultdict(list)
    for symbol in sorted(spans.keys() & companies.keys()):
        groups[companies[symbol]].append(symbol)
    found: list[NameChange] = []
    for symbols in (names for names in groups.values() if len(names) > 1):
        by_first = sorted(symbols, key=lambda symbol: int(rows.day[spans[symbol].first]))
        for at, new in enumerate(by_first):
            start, taken = spans[new].first, {one.old for one in found}
            ended = [old for old in by_first[:at] if old not in taken and _follows(rows, spans[old].end - 1, start)]
            if ended:
                old = max(ended, key=lambda symbol: int(rows.day[spans[symbol].end - 1]))
                found.append(NameChange(old, new, rows.day_at(start)))
    return found


def _follows(rows: Rows, last: int, start: int) -> bool:
    if rows.day[last] >= rows.day[start]:
        return False
    between = hours_of(rows.symbols[int(rows.owner[start])]).between(rows.day_at(last), rows.day_at(start))
    move = abs(math.log(rows.close[start] / rows.close[last]))
    return len(between) <= _MOST_GAP + 1 and move <= math.log(_MOST_MOVE)


def carried(
    rows: Rows, adjusted: npt.NDArray[np.bool_], changes: Sequence[NameChange]
) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """Return the rows with those of an old name before those of the new one too: its figures go back as far."""
    for change in changes:
        spans = _spans(rows)
        old, new = spans[change.old], spans[change.new]
        before = np.arange(old.first, old.end)
        before = before[rows.day[before] < change.day.toordinal()]
        order = np.r_[np.arange(new.first), before, np.arange(new.first, len(rows.owner))]
        owner = rows.owner[new.first]
        rows, adjusted = rows.taken(order), adjusted[order]
        rows.owner[new.first : new.first + len(before)] = owner
    return rows, adjusted
