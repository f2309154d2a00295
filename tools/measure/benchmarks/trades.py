"""Logged trades of others: each log's account at the closes of the bars beside it.

A folder has bars in any shape that `desk data import` reads, hourly ones too, and a log a model: JSON lines, of which
each has a time or day and the positions after it, with the cash (`{"date": ..., "positions": {"AAPL": 3, "CASH": 5}}`).
"""

from __future__ import annotations

import datetime as dt
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import orjson

from chordesk.models.benchmarks import Benchmark, Given, Measured, Row
from chordesk.models.errors import UsageError
from chordesk.models.outside import Oversized, lines
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.files.tables import JSON_LINES, Unreadable, moment_of, number_of
from chordesk.tools.measure.benchmarks.stockbench import daily_line, performance
from chordesk.tools.prices.close_table import CloseTable, buy_and_hold
from chordesk.tools.samples import own_files
from chordesk.tools.samples.own_files import SetAside

CASH, PASSIVE_CAPITAL = "CASH", 100_000.0
# Parts of a log's path that name no model.
_PLAIN = frozenset({"position", "positions", "trades", "log", "logs"})
_SLACK = 1e-4  # of a price: what rounding leaves


class Entry(NamedTuple):
    """A line of a log. action: what was traded, as far as the log says."""

    row: int
    moment: dt.datetime
    cash: float
    shares: Mapping[str, float]
    action: Mapping[str, Any]


class Day(NamedTuple):
    low: float
    high: float
    close: float


Bars = dict[str, dict[dt.date, Day]]


def measure(root: Path, given: Given) -> Measured:
    aside = SetAside()
    logs, bars = _read(root, aside)
    table = _closes(bars)
    first = min(entries[0].moment.date() for entries in logs.values())
    last = max(entries[-1].moment.date() for entries in logs.values())
    inside = [row for row, day in enumerate(table.days) if first <= day <= last]
    if not inside:
        raise UsageError(f"{root} has no bars from {first} to {last}, the days of its logs", remedy="add their bars")
    days = [table.days[row] for row in inside]
    courses = [performance(model, _values(model, entries, table, last)) for model, entries in sorted(logs.items())]
    held = buy_and_hold(CloseTable(days, table.symbols, table.carried()[inside]), PASSIVE_CAPITAL)
    passive = performance("all names, bought at the first close and held", held)
    counts = {model: _traded(entries) for model, entries in logs.items()}
    rows = [
        Row(
            one.who,
            {"return": one.returned, "drawdown": one.drawdown, "sortino": one.sortino, "trades": counts.get(one.who)},
            f"log, {one.n - 1} sessions" if one.who in logs else "this desk",
        )
        for one in (*courses, passive)
    ]
    odd = [text for model, entries in sorted(logs.items()) for text in _odd(model, entries, bars)]
    span = f"bars of {len(table.symbols)} names, {days[0]} to {days[-1]}"
    return Measured(rows, list(map(asdict, courses)), [span, *map(daily_line, courses), *odd, *aside.lines("")])


def _read(root: Path, aside: SetAside) -> tuple[dict[str, list[Entry]], Bars]:
    logs, bars = dict[str, list[Entry]](), Bars()
    with tempfile.TemporaryDirectory(prefix="desk-trades-") as room:
        for one in own_files.gathered([root], Path(room), aside):
            found = _log(one) if one.path.suffix.lower() == JSON_LINES else {}
            for model, entries in found.items():
                if model in logs:
                    raise UsageError(f"{root} has two logs of {model}", remedy="name a log's folder by its model")
                logs[model] = sorted(entries, key=lambda entry: entry.moment)
            for symbol, rows in own_files.bars_of(one, aside).items() if not found else ():
                for row in rows:
                    if (day := _day(row)) is None:
                        aside.add(*row.origin, "a bar without a close above zero")
                    else:
                        bars.setdefault(symbol, {}).setdefault(dt.date.fromisoformat(row.day), day)
    if not logs:
        remedy = 'write a log a model as JSON lines: {"date": ..., "positions": {"AAPL": 3, "CASH": 5}}'
        raise UsageError(f"{root} has no log of positions", remedy=remedy)
    return logs, bars


def _lines(given: own_files.Given) -> Iterator[bytes]:
    try:
        with given.path.open("rb") as file:
            yield from lines(given.name, file)
    except Oversized as error:
        raise UsageError(str(error), remedy="write a line a trade") from None


def _log(given: own_files.Given) -> dict[str, list[Entry]]:
    """Return a log's entries by model; nothing of a file whose first line has no positions."""
    found: dict[str, list[Entry]] = defaultdict(list)
    named = _model(given.name)
    for row, line in enumerate(_lines(given), 1):
        if not line.strip():
            continue
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            entry = None
            why = f"is no JSON: {error.msg}"
        else:
            why = "has no object `positions`"
        if not isinstance(entry, dict) or not isinstance(entry.get("positions"), dict):
            if not found:
                return {}
            raise UsageError(f"{given.name}, row {row} {why}", remedy="write the positions after each trade")
        found[str(entry.get("model") or entry.get("signature") or named)].append(_entry(given.name, row, entry))
    return found


def _entry(name: str, row: int, written: Mapping[str, Any]) -> Entry:
    text = str(next((written[key] for key in ("time", "datetime", "timestamp", "date") if key in written), ""))
    try:
        moment = moment_of(text, NEW_YORK)
        figures = {str(symbol).upper(): float(count) for symbol, count in written["positions"].items()}
        cash = figures.pop(CASH)
    except (Unreadable, TypeError, ValueError, KeyError) as error:
        why = "no CASH among its positions" if isinstance(error, KeyError) else str(error)
        remedy = "each line has a date or time, and numbers of shares with CASH"
        raise UsageError(f"{name}, row {row}: {why}", remedy=remedy) from None
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, dt.time(), NEW_YORK)
    action = written.get("this_action") or written.get("action")
    shares = {symbol: count for symbol, count in figures.items() if count}
    return Entry(row, moment.astimezone(NEW_YORK), cash, shares, action if isinstance(action, dict) else {})


def _model(name: str) -> str:
    path = PurePosixPath(name.rpartition(":")[2])
    parts = [path.stem, *reversed(path.parts[:-1])]
    return next((part for part in parts if part.lower() not in _PLAIN), path.stem)


def _day(bar: own_files.Bar) -> Day | None:
    try:
        names = ("open", "low", "high", "close")
        opened, low, high, close = (number_of(bar.figures.get(name, "")) for name in names)
        close = close or number_of(bar.figures.get("adjusted", ""))
    except Unreadable:
        return None
    if not close or close <= 0:
        return None
    return Day(low or min(opened or close, close), high or max(opened or close, close), close)


def _closes(bars: Bars) -> CloseTable:
    days, symbols = sorted({day for one in bars.values() for day in one}), sorted(bars)
    table = np.array([[bars[name][day].close if day in bars[name] else np.nan for name in symbols] for day in days])
    return CloseTable(days, symbols, table.reshape(len(days), len(symbols)))


def _values(model: str, entries: Sequence[Entry], closes: CloseTable, last: dt.date) -> list[float]:
    """Return what the first entry was worth, and the account at each close from its day to the last day of any log. A
    name without a bar of a day counts with its close before."""
    first, filled = entries[0].moment.date(), closes.carried()
    place = {symbol: at for at, symbol in enumerate(closes.symbols)}

    def worth(entry: Entry, row: int) -> float:
        lacking = [one for one in entry.shares if one not in place or np.isnan(filled[row, place[one]])]
        if lacking:
            reason = f"{model} holds {', '.join(lacking[:5])} on {closes.days[row]}, of which there is no bar by then"
            raise UsageError(reason, remedy="add the bars, or take the log out")
        return entry.cash + float(sum(count * filled[row, place[one]] for one, count in entry.shares.items()))

    rows = [row for row, day in enumerate(closes.days) if first <= day <= last]
    by_day = [[entry for entry in entries if entry.moment.date() <= closes.days[row]][-1] for row in rows]
    return [worth(entries[0], rows[0]), *map(worth, by_day, rows)]


def _traded(entries: Sequence[Entry]) -> int:
    return sum(before.shares != after.shares for before, after in pairwise(entries))


def _odd(model: str, entries: Sequence[Entry], bars: Bars) -> list[str]:
    """Return a line on trades whose price, the cash that moved by the shares that did, is none of its day."""
    odd = []
    for before, after in pairwise(entries):
        moved = {
            one: after.shares.get(one, 0.0) - before.shares.get(one, 0.0) for one in {*before.shares, *after.shares}
        }
        changed = {one: count for one, count in moved.items() if count}
        if len(changed) != 1:
            continue
        ((symbol, count),) = changed.items()
        price, day = (before.cash - after.cash) / count, bars.get(symbol, {}).get(after.moment.date())
        if day is None or not day.low * (1 - _SLACK) <= price <= day.high * (1 + _SLACK):
            odd.append(f"row {after.row}, {symbol} at {price:.2f} on {after.moment:%Y-%m-%d}")
    return [f"{model}: {len(odd)} trades at a price that no bar of their day has ({odd[0]})"] if odd else []


BENCHMARK = Benchmark(
    "Logged trades of others, valued at the closes of the bars beside them.",
    {"return": "+.2%", "drawdown": ".2%", "sortino": ".4f", "trades": ".0f"},
    (),
    measure,
    note="values at each session's close; no costs but those in the logged cash.",
)
