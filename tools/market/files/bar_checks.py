"""Checks of daily rows: what makes a file unusable is an error, what a reader should know is a warning."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.rows import PRICES, Rows

Mask = npt.NDArray[np.bool_]
FEW_BARS = 61  # sessions that the figures of a screen look back
FLAT_SESSIONS = 10
_NAMED = 5
# A close-to-close move of a 2:1 split or of a reverse one.
_SPLIT_LIKE = (-0.45, 0.80)


def checked(rows: Rows, columns: Mapping[str, frozenset[str]], adjusted: Mask, problems: Problems) -> tuple[Rows, Mask]:
    """Return (the rows that have prices, by symbol and day, whether each is adjusted). Problems of single rows and of
    whole symbols are added to `problems`; low and high are widened to hold open and close."""
    rows, adjusted = _with_prices(rows, adjusted, problems)
    _order(rows, problems)
    sorted_by = np.lexsort((rows.day, rows.owner))
    rows, adjusted = rows.taken(sorted_by), adjusted[sorted_by]
    _prices(rows, columns, problems)
    _days(rows, problems)
    rows = _widened(rows, problems)
    if not problems.errors:
        _symbols(rows, adjusted, problems)
    return rows, adjusted


def _report(rows: Rows, mask: Mask, problems: Problems, message: str, column: str | None = None) -> None:
    for at in np.flatnonzero(mask).tolist():
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), column)


def _with_prices(rows: Rows, adjusted: Mask, problems: Problems) -> tuple[Rows, Mask]:
    empty = np.logical_and.reduce([np.isnan(getattr(rows, name)) for name in PRICES])
    for at in np.flatnonzero(empty).tolist():
        message = f"{_name(rows, at)} has no price on {rows.day_at(at)}: there is no bar of it"
        problems.warn(rows.files[rows.file[at]], message, int(rows.row[at]))
    return rows.taken(~empty), adjusted[~empty]


def _order(rows: Rows, problems: Problems) -> None:
    """Add a warning for each file of days that do not ascend, symbol by symbol; they are put in order."""
    later = np.lexsort((np.arange(len(rows.day)), rows.owner))
    owner, day = rows.owner[later], rows.day[later]
    back = np.flatnonzero((owner[1:] == owner[:-1]) & (day[1:] < day[:-1])) + 1
    for place in np.unique(rows.file[later[back]]).tolist():
        first = int(later[back[rows.file[later[back]] == place][0]])
        message = f"days are out of order from here on ({rows.day_at(first)}); they are put in order"
        problems.warn(rows.files[place], message, int(rows.row[first]))


def _prices(rows: Rows, columns: Mapping[str, frozenset[str]], problems: Problems) -> None:
    ranged = rows.of_files_with("open", columns) & rows.of_files_with("close", columns)
    for name in PRICES:
        wanted = ranged if name != "close" else np.ones(len(ranged), dtype=bool)
        _report(rows, wanted & np.isnan(getattr(rows, name)), problems, "no price", name)
    for name in PRICES:
        values = getattr(rows, name)
        for at in np.flatnonzero(values <= 0).tolist():
            message = f"{values[at]:g} is no price: it must be above zero"
            problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), name)
    for at in np.flatnonzero((rows.high < rows.low) & np.isfinite(rows.low)).tolist():
        message = f"the high {rows.high[at]:g} is below the low {rows.low[at]:g}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "high")
    _report(rows, rows.volume < 0, problems, "a negative volume", "volume")


def _days(rows: Rows, problems: Problems) -> None:
    same = np.r_[False, (rows.owner[1:] == rows.owner[:-1]) & (rows.day[1:] == rows.day[:-1])]
    for at in np.flatnonzero(same).tolist():
        first = f"{rows.files[rows.file[at - 1]]} row {rows.row[at - 1]}"
        message = f"{_name(rows, at)} has a second bar of {rows.day_at(at)}; the first is in {first}"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")
    sessions = np.array([day.toordinal() for day in exchange_hours().sessions])
    for at in np.flatnonzero(~np.isin(rows.day, sessions)).tolist():
        message = f"{rows.day_at(at):%A}, {rows.day_at(at)}, is no session of the New York Stock Exchange"
        problems.error(rows.files[rows.file[at]], message, int(rows.row[at]), "date")


def _widened(rows: Rows, problems: Problems) -> Rows:
    low = np.fmin(rows.low, np.fmin(rows.open, rows.close))
    high = np.fmax(rows.high, np.fmax(rows.open, rows.close))
    ranged = ~np.isnan(rows.open)
    # A ten-thousandth of the price is what rounding and adjustment leave between them.
    slack = 1e-4 * rows.close
    with np.errstate(invalid="ignore"):  # of cells that are problems already
        odd = ranged & ((rows.low - low > slack) | (high - rows.high > slack))
    for place in np.unique(rows.file[odd]).tolist():
        which = np.flatnonzero(odd & (rows.file == place))
        message = f"{len(which)} rows have an open or close outside low to high, which are widened"
        problems.warn(rows.files[place], f"{message}; the first is here", int(rows.row[which[0]]))
    return rows._replace(low=np.where(ranged, low, np.nan), high=np.where(ranged, high, np.nan))


def _symbols(rows: Rows, adjusted: Mask, problems: Problems) -> None:
    starts = np.flatnonzero(np.r_[True, rows.owner[1:] != rows.owner[:-1]]) if len(rows.day) else np.empty(0, int)
    sessions = np.array([day.toordinal() for day in exchange_hours().sessions])
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(rows.day)], strict=True):
        _symbol(rows.taken(np.arange(start, end)), bool(adjusted[start]), sessions, problems)


def _symbol(rows: Rows, adjusted: bool, sessions: npt.NDArray[np.int64], problems: Problems) -> None:
    name, file = _name(rows, 0), rows.files[rows.file[0]]
    if len(rows.day) < FEW_BARS:
        problems.warn(file, f"{name} has {len(rows.day)} bars; some figures need {FEW_BARS}")
    first, end = np.searchsorted(sessions, [rows.day[0], rows.day[-1] + 1])
    if (holes := np.setdiff1d(sessions[first:end], rows.day)).size:
        shown = ", ".join(str(dt.date.fromordinal(day)) for day in holes[:_NAMED].tolist())
        more = f" and {holes.size - _NAMED} more" if holes.size > _NAMED else ""
        problems.warn(file, f"{name} has no bar of {holes.size} sessions within its days: {shown}{more}")
    moves = rows.close[1:] / rows.close[:-1] - 1
    jumps = np.flatnonzero((moves <= _SPLIT_LIKE[0]) | (moves >= _SPLIT_LIKE[1])) + 1
    if len(jumps) and not adjusted:
        at = int(jumps[0])
        message = f"{name} moved {moves[at - 1]:+.0%} on {rows.day_at(at)}, as in a split; raw prices are not adjusted"
        problems.warn(file, f"{message}{f'; {len(jumps)} such moves' if len(jumps) > 1 else ''}", int(rows.row[at]))
    _flat(rows, name, file, problems)


def _flat(rows: Rows, name: str, file: str, problems: Problems) -> None:
    changed = np.flatnonzero(np.r_[True, rows.close[1:] != rows.close[:-1], True])
    lengths = np.diff(changed)
    if len(lengths) and lengths.max() >= FLAT_SESSIONS:
        at = int(changed[int(lengths.argmax())])
        message = f"{name} closed at {rows.close[at]:g} for {lengths.max()} sessions in a row"
        problems.warn(file, f"{message} from {rows.day_at(at)}", int(rows.row[at]))


def _name(rows: Rows, at: int) -> str:
    return rows.symbols[int(rows.owner[at])]
