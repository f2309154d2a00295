"""Exchange rates of own files: `fx.csv` with date, pair and rate."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from chordesk.models.errors import UsageError
from chordesk.models.money import DOLLAR, STABLECOINS, pair_name, parse_pair
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.tables import Column, Problems, Unreadable, moment_of, number_of, rows_of
from chordesk.tools.market.rate_tables import RateTable

SOURCE = "fx.csv"
DAY_ENDS = dt.time(17)  # in New York, when the day of exchange rates ends
_JUMP = 20.0  # from one row of a pair to the next: another unit, such as pence, and no move of a day
# A rate that is near 1 / the one before, by a move of some days, and far from it, is more likely turned round.
_TURNED, _FAR = 0.05, 1.2
_OFF_PEG = 0.03  # of a dollar: what a stablecoin moves by in a quiet market is a tenth of it
_EASTMOST = dt.timedelta(hours=14)  # ahead of UTC: no day on Earth is later
_APART = 0.01  # of a rate and the inverse of its inverse of the same moment: spreads are smaller


def _known(text: str) -> dt.datetime:
    """Return from when on a rate was known: one of a day at that day's end, one with a time and a zone from then."""
    found = moment_of(text)
    return found if isinstance(found, dt.datetime) else dt.datetime.combine(found, DAY_ENDS, NEW_YORK)


def _pair(text: str) -> tuple[str, str]:
    try:
        return parse_pair(text)
    except UsageError as error:
        raise Unreadable(str(error)) from None


def _rate(text: str) -> float:
    found = number_of(text)
    if found is None:
        raise Unreadable("no rate; leave the row out")
    if found <= 0:
        raise Unreadable(f"a rate of {found:g} is not above 0; leave the row out, or put it right")
    return found


FX_COLUMNS = {
    "at": Column(("date", "day", "time", "at", "timestamp"), _known, required=True, kind="moment"),
    "pair": Column(("pair", "symbol", "currencypair", "currencies", "ccy"), _pair, required=True),
    "rate": Column(("rate", "close", "price", "value", "fx"), _rate, required=True, kind="number"),
}


def read_fx(path: Path, name: str, problems: Problems) -> RateTable:
    """Return the rates of a file. A rate that contradicts another one is an error, one that repeats it a warning."""
    found: defaultdict[tuple[str, str], dict[dt.datetime, tuple[float, int]]] = defaultdict(dict)
    for row, values, _ in rows_of(path, name, FX_COLUMNS, problems):
        pair, at, rate = values["pair"], values["at"], values["rate"]
        before = found[pair].setdefault(at, (rate, row))
        if before[1] != row:
            _note_double(pair, rate, before, row, name, problems)
    for pair, rows in found.items():
        _check_inverse(pair, rows, found.get(pair[::-1], {}), name, problems)
        _check_jumps(pair, rows, name, problems)
        _check_peg(pair, rows, name, problems)
        _check_days(pair, rows, name, problems)
    return RateTable(SOURCE, {pair: _sorted(rows) for pair, rows in found.items()})


def _sorted(rows: dict[dt.datetime, tuple[float, int]]) -> Any:
    moments = sorted(rows)
    return moments, [rows[at][0] for at in moments]


def _note_double(
    pair: tuple[str, str], rate: float, before: tuple[float, int], row: int, name: str, problems: Problems
) -> None:
    what = f"{pair_name(*pair)} has a rate of that moment in row {before[1]}"
    if rate == before[0]:
        problems.warn(name, f"{what} already: leave one of the two out", row=row)
    else:
        problems.error(name, f"{what}, {before[0]:g} and not {rate:g}: leave the wrong one out", row=row, column="rate")


def _check_inverse(
    pair: tuple[str, str],
    rows: dict[dt.datetime, tuple[float, int]],
    turned: dict[dt.datetime, tuple[float, int]],
    name: str,
    problems: Problems,
) -> None:
    for at in rows.keys() & turned.keys():
        (rate, row), (other, there) = rows[at], turned[at]
        if row > there and abs(rate * other - 1) > _APART:
            why = f"{pair_name(*pair)} of {rate:g} contradicts {pair_name(*pair[::-1])} of {other:g} in row {there}"
            problems.error(name, f"{why}: the one is 1 / the other; leave the wrong one out", row=row, column="rate")


def _check_jumps(
    pair: tuple[str, str], rows: dict[dt.datetime, tuple[float, int]], name: str, problems: Problems
) -> None:
    moments = sorted(rows)
    for before, at in pairwise(moments):
        (was, _), (rate, row) = rows[before], rows[at]
        if not 1 / _JUMP < rate / was < _JUMP:
            why = f"{pair_name(*pair)} goes from {was:g} to {rate:g}, as if in another unit or turned round"
            problems.error(name, f"{why}: give all rates of a pair alike", row=row, column="rate")
            return
        if abs(rate * was - 1) < _TURNED and max(rate / was, was / rate) > _FAR:
            why = f"{pair_name(*pair)} goes from {was:g} to {rate:g}, which is near 1 / {was:g}, as if turned round"
            problems.warn(name, f"{why}: give all rates of a pair alike", row=row, column="rate")
            return


def _check_peg(
    pair: tuple[str, str], rows: dict[dt.datetime, tuple[float, int]], name: str, problems: Problems
) -> None:
    """Warn once of rates at which a stablecoin is not worth the dollar that it is pegged to."""
    if not STABLECOINS & set(pair) or not STABLECOINS | {DOLLAR} >= set(pair):
        return
    off = [(at, *rows[at]) for at in sorted(rows) if abs(rows[at][0] - 1) > _OFF_PEG]
    if off:
        at, rate, row = max(off, key=lambda one: abs(math.log(one[1])))
        count = "" if len(off) == 1 else f", the furthest of {len(off)} rates that are"
        why = f"{pair_name(*pair)} of {rate:g} on {at:%Y-%m-%d} is {abs(rate - 1):.0%} off its peg of 1{count}"
        problems.warn(name, f"{why}: the desk counts by it; leave it out or put it right if it was not so", row, "rate")


def _check_days(
    pair: tuple[str, str], rows: dict[dt.datetime, tuple[float, int]], name: str, problems: Problems
) -> None:
    today = (dt.datetime.now(dt.UTC) + _EASTMOST).date()
    for at, (_, row) in rows.items():
        if (day := at.astimezone(NEW_YORK).date()) > today:
            why = f"{pair_name(*pair)} has a rate of {day}, which is after today"
            problems.error(name, f"{why}: leave the row out, or put its date right", row=row, column="date")
