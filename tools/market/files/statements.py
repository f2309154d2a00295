"""Statements of own files: each figure with the day on which it was filed, from which on it is known."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Container
from pathlib import Path

from chordesk.models.company import Statement
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.tables import (
    Column,
    Problems,
    Unreadable,
    day_of,
    is_empty,
    moment_of,
    number_of,
    rows_of,
    symbol_of,
)


def _filed(text: str) -> dt.datetime:
    """Return the moment of a filing; one of a day is known from the beginning of that day on."""
    moment = moment_of(text, NEW_YORK)
    return moment if isinstance(moment, dt.datetime) else dt.datetime.combine(moment, dt.time(), NEW_YORK)


def _item(text: str) -> str:
    if is_empty(text):
        raise Unreadable("no item; name the figure, such as revenue or eps")
    return text


def _value(text: str) -> float:
    value = number_of(text)
    if value is None:
        raise Unreadable("no value; leave out a figure that is not known")
    return value


STATEMENT_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "start": Column(("start", "startdate", "periodstart"), lambda text: None if is_empty(text) else day_of(text)),
    "period": Column(("periodend", "end", "enddate", "period", "fiscalperiodend"), day_of, required=True),
    "known_at": Column(
        ("filed", "filingdate", "filedate", "firstseen", "seen", "accepted", "knownat"), _filed, required=True
    ),
    "item": Column(("item", "tag", "concept", "figure"), _item, required=True),
    "value": Column(("value", "amount"), _value, required=True),
}


def read_statements(path: Path, name: str, with_bars: Container[str], problems: Problems) -> dict[str, list[Statement]]:
    """Return the figures of a file by symbol. A figure filed before its period has ended, or twice with two values in
    one filing, is an error."""
    found: dict[str, list[Statement]] = defaultdict(list)
    seen: dict[tuple[object, ...], tuple[float, int]] = {}
    for row, values, written in rows_of(path, name, STATEMENT_COLUMNS, problems):
        symbol, period, start, known_at = (values[one] for one in ("symbol", "period", "start", "known_at"))
        filed = known_at.astimezone(NEW_YORK).date()
        if filed < period:
            why = f"{values['item']} of {symbol} was filed on {filed}, before its period ended on {period}"
            problems.error(name, why, row, written["known_at"])
        elif start is not None and start > period:
            problems.error(
                name, f"the period of {symbol} begins on {start} and ends on {period}", row, written["start"]
            )
        else:
            key = symbol, start, period, filed, values["item"]
            value, first = seen.setdefault(key, (values["value"], row))
            if value != values["value"]:
                why = f"{values['item']} of {symbol} to {period} is {value:g} in row {first} of the same filing"
                problems.error(name, why, row, written["value"])
            elif first == row:
                found[symbol].append(Statement(**values, filed=filed))
    for symbol in sorted(symbol for symbol in found if symbol not in with_bars):
        problems.warn(name, f"{symbol} has {len(found[symbol])} figures and no bars", column="symbol")
    return dict(found)
