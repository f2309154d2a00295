"""Headlines and earnings dates of own files, each with the time from which on it was known."""

from __future__ import annotations

import bisect
import datetime as dt
import html
import re
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from chordesk.models.answers import spelled
from chordesk.models.company import EarningsDate, Statement, Timing
from chordesk.models.exchanges import exchange_code
from chordesk.models.market import Headline
from chordesk.models.text import from_csv_cell
from chordesk.tools.market.clock import exchange_day, hours_of
from chordesk.tools.market.files.known_exports import plain
from chordesk.tools.market.files.tables import (
    UNREAD,
    Column,
    Parsed,
    Part,
    Problems,
    Unreadable,
    day_of,
    is_empty,
    moment_of,
    number_of,
    numbers,
    parts_of,
    placed,
    rows_of,
    stated_moment,
    symbol_of,
)


def _item(text: str) -> str:
    if is_empty(text):
        raise Unreadable("no item; name the figure, such as revenue or eps")
    return text


_NO_VALUE = "no value; leave out a figure that is not known"


STATEMENT_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "start": Column(
        ("start", "startdate", "periodstart"), lambda text: None if is_empty(text) else day_of(text), kind="day"
    ),
    "period": Column(("periodend", "end", "enddate", "period", "fiscalperiodend"), day_of, required=True, kind="day"),
    "known_at": Column(
        ("filed", "filingdate", "filedate", "firstseen", "seen", "accepted", "knownat"),
        stated_moment,
        required=True,
        kind="moment",
    ),
    "item": Column(("item", "tag", "concept", "figure"), _item, required=True),
    "value": Column(("value", "amount"), required=True, kind="number"),
}


class Statements(Mapping[str, Sequence[Statement]]):
    """The figures of a file by symbol, made when a symbol is asked for: of thousands of names they would fill the
    memory."""

    def __init__(
        self, symbols: Sequence[str], moments: Sequence[dt.datetime], items: Sequence[str], rows: Rows
    ) -> None:
        self._rows = rows
        self._moments, self._items = moments, items
        bounds = np.searchsorted(rows.symbol, np.arange(len(symbols) + 1)).tolist()
        self._places = {name: span for name, span in zip(symbols, pairwise(bounds), strict=True) if span[0] < span[1]}

    def __getitem__(self, symbol: str) -> Sequence[Statement]:
        rows = self._rows.taken(slice(*self._places[symbol]))
        return [
            Statement(
                symbol=symbol,
                start=dt.date.fromordinal(start) if start else None,
                period=dt.date.fromordinal(period),
                filed=dt.date.fromordinal(filed),
                item=self._items[item],
                value=value,
                known_at=self._moments[known],
            )
            for start, period, filed, item, value, known in zip(*(one.tolist() for one in rows[1:7]), strict=True)
        ]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    @property
    def figures(self) -> int:
        return len(self._rows.filed)

    @property
    def filed(self) -> tuple[dt.date, dt.date]:
        return dt.date.fromordinal(int(self._rows.filed.min())), dt.date.fromordinal(int(self._rows.filed.max()))


class Rows(NamedTuple):
    """Rows of statements, sorted by symbol. symbol, item, known: places in their lists; days are ordinals, 0 for none;
    line: of the file."""

    symbol: npt.NDArray[np.int32]
    start: npt.NDArray[np.int32]
    period: npt.NDArray[np.int32]
    filed: npt.NDArray[np.int32]
    item: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    known: npt.NDArray[np.int32]
    line: npt.NDArray[np.int32]

    def taken(self, which: Any) -> Rows:
        return Rows(*(one[which] for one in self))


def read_statements(path: Path, name: str, with_bars: Container[str], problems: Problems) -> Statements:
    """Return the figures of a file. A figure filed before its period has ended, or twice with two values in one filing,
    is an error."""
    reader = _Reader(problems)
    rows, written = reader.rows(path, name)
    for fault, column, why in (
        (
            rows.filed < rows.period,
            "known_at",
            "{item} of {symbol} was filed on {filed}, before its period ended on {period}",
        ),
        (rows.start > rows.period, "start", "the period of {symbol} begins on {start} and ends on {period}"),
    ):
        for at in np.flatnonzero(fault).tolist():
            problems.error(name, why.format(**reader.shown(rows, at)), int(rows.line[at]), written[column])
    rows = rows.taken((rows.filed >= rows.period) & (rows.start <= rows.period))
    rows = rows.taken(np.lexsort((rows.line, rows.item, rows.filed, rows.period, rows.start, rows.symbol)))
    keys = np.stack(rows[:5])
    again = np.r_[False, (keys[:, 1:] == keys[:, :-1]).all(axis=0)] if len(rows.line) else np.zeros(0, dtype=bool)
    first = np.maximum.accumulate(np.where(again, 0, np.arange(len(again))))
    for at in np.flatnonzero(again & (rows.value != rows.value[first])).tolist():
        shown, before = reader.shown(rows, at), int(first[at])
        why = f"{shown['item']} of {shown['symbol']} to {shown['period']} is {rows.value[before]:g} in row"
        problems.error(name, f"{why} {rows.line[before]} of the same filing", int(rows.line[at]), written["value"])
    rows = rows.taken(~again)
    symbols = list(reader.symbols)
    for place, count in zip(*np.unique(rows.symbol, return_counts=True), strict=True):
        if symbols[place] not in with_bars:
            problems.warn(name, f"{symbols[place]} has {count} figures and no bars", column="symbol")
    return Statements(symbols, reader.moments, list(reader.items), rows)


class _Reader:
    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self.symbols: dict[str, int] = {}
        self.items: dict[str, int] = {}
        self.moments: list[dt.datetime] = []
        self._filed: list[int] = []  # the day of each moment, where the symbol is listed
        self._places: dict[tuple[dt.datetime | dt.date, str], int] = {}
        parse = {name: column.parse for name, column in STATEMENT_COLUMNS.items()}
        self._columns = {
            "symbol": Parsed(lambda text: self.symbols.setdefault(parse["symbol"](text), len(self.symbols)), problems),
            "start": Parsed(lambda text: 0 if (day := parse["start"](text)) is None else day.toordinal(), problems),
            "period": Parsed(lambda text: parse["period"](text).toordinal(), problems),
            "known_at": Parsed(lambda text, symbol: self._moment(parse["known_at"](text), symbol), problems),
            "item": Parsed(lambda text: self.items.setdefault(parse["item"](text), len(self.items)), problems),
        }

    def _moment(self, moment: dt.datetime | dt.date, symbol: str) -> int:
        """Return the place of a filing's moment; one of a day is known from the beginning of that day on."""
        exchange = exchange_code(spelled(symbol))
        found = self._places.setdefault((moment, exchange), len(self.moments))
        if found == len(self.moments):
            at = placed(moment, exchange, dt.time())
            self.moments.append(at)
            self._filed.append(exchange_day(at, exchange).toordinal())
        return found

    def rows(self, path: Path, name: str) -> tuple[Rows, Mapping[str, str]]:
        """Return (the rows that can be read, the columns' names in the file)."""
        parts: list[Rows] = []
        written: Mapping[str, str] = {}
        needed = [ours for ours, column in STATEMENT_COLUMNS.items() if column.required]
        for part in parts_of(path, name, STATEMENT_COLUMNS, self._problems):
            written = part.written
            if not part.has((ours for ours in needed if ours not in part.cells), self._problems):
                break
            parts.append(self._rows(part))
        places, values = np.empty(0, np.int32), np.empty(0)
        empty = Rows(places, places, places, places, places, values, places, places)
        return Rows(*map(np.concatenate, zip(empty, *parts, strict=True))), written

    def _rows(self, part: Part) -> Rows:
        read = {name: (name, "symbol") if name == "known_at" else (name,) for name in self._columns}
        found = {name: column.read(part, *read[name]).astype(np.int32) for name, column in self._columns.items()}
        value = numbers(part, "value", self._problems)
        for at in np.flatnonzero(np.isnan(value)).tolist():
            part.unreadable(Unreadable(_NO_VALUE), at, "value", self._problems)
        known = found["known_at"]
        filed = np.array([*self._filed, UNREAD], dtype=np.int32)[known]
        days = found["start"], found["period"], filed
        rows = Rows(found["symbol"], *days, found["item"], value, known, part.rows.astype(np.int32))
        unread = np.any(np.stack(list(found.values())) == UNREAD, axis=0)
        return rows.taken(~unread & np.isfinite(value))

    def shown(self, rows: Rows, at: int) -> dict[str, str]:
        days = {name: int(getattr(rows, name)[at]) for name in ("start", "period", "filed")}
        shown = {name: str(dt.date.fromordinal(day)) if day else "" for name, day in days.items()}
        return {**shown, "symbol": list(self.symbols)[rows.symbol[at]], "item": list(self.items)[rows.item[at]]}


HEADLINE_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), lambda text: spelled(text) if text.strip() else "", required=True),
    "time": Column(
        ("time", "publishedat", "published", "datetime", "timestamp", "date"), moment_of, required=True, kind="moment"
    ),
    "headline": Column(("headline", "title"), from_csv_cell, required=True),
    "source": Column(("source", "publisher", "provider")),
    "url": Column(("url", "link")),
}
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|&(?:[a-z]+|#\d+);")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

Headlines = dict[str, list[Headline]]


def read_headlines(path: Path, name: str, with_bars: Container[str], problems: Problems) -> Headlines:
    """Return the headlines of a file by symbol, the oldest first. Markup is taken out of them. A headline of a day, or
    of 00:00:00, was published at a time that is not known: it counts from the following session's open on."""
    found: Headlines = defaultdict(list)
    for row, values, written in rows_of(path, name, HEADLINE_COLUMNS, problems):
        symbol, text = values["symbol"], values["headline"]
        if not symbol or not text:
            problems.warn(name, f"no {'headline' if symbol else 'symbol'}, and is left out", row)
            continue
        if _MARKUP.search(text):
            problems.warn(name, "has markup, which is taken out", row, written["headline"])
            text = _TAG.sub("", html.unescape(_TAG.sub("", text)))
        at, source = _known_from(values["time"], symbol), values["source"] or "not stated"
        found[symbol].append(Headline(symbol=symbol, headline=text, source=source, published_at=at, url=values["url"]))
    for symbol in sorted(symbol for symbol in found if symbol not in with_bars):
        problems.warn(name, f"{symbol} has {len(found[symbol])} headlines and no bars", column="symbol")
    for rows in found.values():
        rows.sort(key=lambda row: row.published_at)
    return dict(found)


def latest(rows: list[Headline], now: dt.datetime, limit: int) -> list[Headline]:
    end = bisect.bisect_right(rows, now, key=lambda row: row.published_at)
    return rows[max(end - limit, 0) : end][::-1]


def _known_from(moment: dt.datetime | dt.date, symbol: str) -> dt.datetime:
    if isinstance(moment, dt.datetime) and moment.time() != dt.time():
        return moment
    day = moment.date() if isinstance(moment, dt.datetime) else moment
    hours = hours_of(symbol)
    after = bisect.bisect_right(hours.sessions, day)
    if after == len(hours.sessions):  # beyond the exchange's calendar, so beyond any day that can be replayed
        return dt.datetime.combine(day + dt.timedelta(days=1), dt.time(), dt.UTC)
    return hours.open_of(hours.sessions[after])


_TIMINGS: dict[str, Timing] = {
    **{plain(name): name for name in get_args(Timing)},
    **dict.fromkeys(("bmo", "beforemarketopen", "beforemarket", "premarket", "am"), "beforeOpen"),
    **dict.fromkeys(("amc", "aftermarketclose", "aftermarket", "postmarket", "pm"), "afterClose"),
    **dict.fromkeys(("dmh", "during", "duringmarket"), "duringSession"),
}
_END_OF_DAY = dt.time(23, 59)


def _timing(text: str) -> Timing | None:
    if not is_empty(text) and plain(text) not in _TIMINGS:
        raise Unreadable(f"{text[:40]!r} is no time of day: write bmo, amc or during, or leave it empty")
    return _TIMINGS.get(plain(text))


def _announced(text: str) -> dt.datetime | dt.date | None:
    return None if is_empty(text) else stated_moment(text)


EARNINGS_COLUMNS = {
    "symbol": Column(("symbol", "ticker", "sym"), symbol_of, required=True),
    "date": Column(("date", "earningsdate", "reportdate", "day"), day_of, required=True, kind="day"),
    "timing": Column(("timing", "timeofday", "time", "when", "session", "hour"), _timing),
    "known_at": Column(("announced", "announcedat", "knownat", "known", "announcementdate"), _announced, kind="moment"),
    "eps_estimate": Column(("epsestimate", "estimate", "epsestimated"), number_of, kind="number"),
    "eps_actual": Column(("epsactual", "eps", "actual", "reportedeps"), number_of, kind="number"),
}


def read_earnings(path: Path, name: str, problems: Problems) -> dict[str, list[EarningsDate]]:
    """Return the dates of a file by symbol. An announcement of a day is known at its end, and a date without one at the
    end of its own day: a replay does not know it before."""
    found: dict[str, list[EarningsDate]] = defaultdict(list)
    seen: dict[tuple[str, dt.date], int] = {}
    for row, values, _ in rows_of(path, name, EARNINGS_COLUMNS, problems):
        symbol, day = values["symbol"], values["date"]
        if (first := seen.setdefault((symbol, day), row)) != row:
            problems.error(name, f"{symbol} has a second row of {day}; the first is row {first}", row)
        known_at = placed(values["known_at"] or day, exchange_code(symbol), _END_OF_DAY)
        found[symbol].append(EarningsDate(**{**values, "known_at": known_at}))
    return dict(found)
