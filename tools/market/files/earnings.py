"""Earnings dates of own files: `earnings.csv` with symbol and date, and the time of day, the day on which the date was
announced, and earnings per share where they are known."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from pathlib import Path
from typing import get_args

from chordesk.models.company import EarningsDate, Timing
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.files.reading.cells import day_of, is_empty, moment_of, number_of
from chordesk.tools.market.files.reading.parts import parts_of
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import Part, plain
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

NAMES = {
    "symbol": ("symbol", "ticker", "sym"),
    "date": ("date", "earningsdate", "reportdate", "day"),
    "timing": ("timing", "timeofday", "time", "when", "session", "hour"),
    "announced": ("announced", "announcedat", "knownat", "known", "announcementdate"),
    "eps_estimate": ("epsestimate", "estimate", "epsestimated"),
    "eps_actual": ("epsactual", "eps", "actual", "reportedeps"),
}
_TIMINGS: dict[str, Timing] = {
    **{plain(name): name for name in get_args(Timing)},
    **dict.fromkeys(("bmo", "beforemarketopen", "beforemarket", "premarket", "am"), "beforeOpen"),
    **dict.fromkeys(("amc", "aftermarketclose", "aftermarket", "postmarket", "pm"), "afterClose"),
    **dict.fromkeys(("dmh", "during", "duringmarket"), "duringSession"),
}
_END_OF_DAY = dt.time(23, 59)


def read_earnings(path: Path, name: str, problems: Problems) -> dict[str, list[EarningsDate]]:
    """Return the dates of a file by symbol. One without a day of announcement was known at the end of its own day: a
    replay does not know it before."""
    found: dict[str, list[EarningsDate]] = defaultdict(list)
    seen: dict[tuple[str, dt.date], int] = {}
    for part in parts_of(path, name, NAMES, problems):
        lacks = [column for column in ("symbol", "date") if column not in part.cells]
        if lacks:
            problems.error(name, f"has no column {', no column '.join(lacks)}", 1)
            return {}
        for at in range(len(part)):
            row = _date(part, at, problems)
            if row is None:
                continue
            line = int(part.rows[at])
            if (first := seen.setdefault((row.symbol, row.date), line)) != line:
                problems.error(name, f"{row.symbol} has a second row of {row.date}; the first is row {first}", line)
            found[row.symbol].append(row)
    return dict(found)


def _date(part: Part, at: int, problems: Problems) -> EarningsDate | None:
    cells = {name: str(part.cells[name][at]).strip() for name in NAMES if name in part.cells}
    row, wrong = int(part.rows[at]), False

    def fault(column: str, reason: str) -> None:
        nonlocal wrong
        wrong = True
        problems.error(part.file, reason, row, part.written[column])

    day = day_of(cells["date"])
    if isinstance(day, str):
        fault("date", day)
        return None
    if not is_symbol(cells["symbol"].upper()):
        fault("symbol", f"{cells['symbol'][:40]!r} is no symbol: {SYMBOL_RULE}")
    timing = cells.get("timing", "")
    if not is_empty(timing) and plain(timing) not in _TIMINGS:
        fault("timing", f"{timing[:40]!r} is no time of day: write bmo, amc or during, or leave it empty")
    figures = {}
    for name in ("eps_estimate", "eps_actual"):
        number = number_of(cells.get(name, ""))
        if isinstance(number, str):
            fault(name, number)
        else:
            figures[name] = None if number != number else number
    known_at = dt.datetime.combine(day, _END_OF_DAY, NEW_YORK)
    if not is_empty(cells.get("announced", "")):
        moment = moment_of(cells["announced"], NEW_YORK)
        if isinstance(moment, str):
            fault("announced", moment)
        elif isinstance(moment, dt.datetime):
            known_at = moment
        else:
            known_at = dt.datetime.combine(moment, _END_OF_DAY, NEW_YORK)
    if wrong:
        return None
    return EarningsDate(
        symbol=cells["symbol"].upper(),
        date=day,
        timing=None if is_empty(timing) else _TIMINGS[plain(timing)],
        known_at=known_at,
        **figures,
    )
