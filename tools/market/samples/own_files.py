"""The user's own files as they come: files, folders and zip archives; bars in the usual shapes of CSV, JSON and
Parquet, daily or within the day, become a table of daily bars for each symbol."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import stat
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from chordesk.models.answers import spelled
from chordesk.models.errors import UsageError
from chordesk.models.outside import (
    MOST_BYTES,
    MOST_FIELDS,
    MOST_MEMBERS,
    Oversized,
    copied,
    held,
    lines,
    require,
    require_ratio,
)
from chordesk.models.text import NEW_YORK, csv_cell
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.files.bars import BAR_COLUMNS
from chordesk.tools.market.files.data_folder import SET_ASIDE
from chordesk.tools.market.files.notation import Ambiguous, Survey, kinds_of
from chordesk.tools.market.files.tables import (
    CSV,
    JSON_LINES,
    PARQUET,
    Column,
    Problems,
    Unreadable,
    is_empty,
    moment_of,
    number_of,
    parts_of,
    plain,
)
from chordesk.tools.market.home import foreign
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

_SHOWN = 8
_SHOWN_OF_A_FILE = 4096  # characters


class Left(NamedTuple):
    """kind: the reason without its figures, by which rows are counted. row: None of a whole file."""

    file: str
    row: int | None
    kind: str
    reason: str


class SetAside:
    def __init__(self) -> None:
        self.rows: list[Left] = []
        self.notes: list[Left] = []  # of what was read, and how
        self.sources: dict[str, str] = {}  # whose exports the files are

    def note(self, file: str, kind: str, detail: str) -> None:
        self.notes.append(Left(file, None, kind, f"{kind}: {detail}"))

    def add(self, file: str, row: int | None, kind: str, detail: str = "") -> None:
        self.rows.append(Left(file, row, kind, f"{kind}: {detail}" if detail else kind))

    def content(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("file", "row", "reason"))
        rows = ((one.file, "" if one.row is None else one.row, one.reason) for one in self.rows)
        writer.writerows([csv_cell(cell) for cell in row] for row in rows)
        return text.getvalue().encode()

    def lines(self, kept_in: str = f", each with its reason in {SET_ASIDE}") -> list[str]:
        """Return what was left out, the most frequent first, each with an example."""
        counts = Counter(one.kind for one in self.rows)
        if not counts:
            return []
        examples = {one.kind: one for one in reversed(self.rows)}
        found = [f"set aside: {len(self.rows):,} rows and files{kept_in}"]
        for kind, count in counts.most_common(_SHOWN):
            one = examples[kind]
            place = (one.file if one.row is None else f"{one.file} row {one.row}") + one.reason.removeprefix(kind)
            found.append(f"  {count:,} {kind} (such as {place})")
        rest = counts.most_common()[_SHOWN:]
        return [*found, *([f"  {sum(count for _, count in rest):,} for {len(rest)} other reasons"] if rest else [])]


JSON, TEXT, TABBED, ZIP = ".json", ".txt", ".tsv", ".zip"
READ = frozenset({CSV, TEXT, TABBED, JSON, JSON_LINES, PARQUET})
_NESTED = frozenset({ZIP, ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".zst", ".whl", ".jar"})


class Given(NamedTuple):
    """A file of the user. name: as they know it."""

    name: str
    path: Path


def gathered(sources: Iterable[Path], room: Path, aside: SetAside) -> list[Given]:
    """Return the files of files, folders and zip archives, which are unpacked in `room`. Raises UsageError for an
    archive that is unsafe."""
    found: list[Given] = []
    for source in sources:
        if source.is_dir():
            for path in sorted(source.rglob("*")):
                name = str(path.relative_to(source.parent))
                if path.is_symlink() and not path.resolve().is_relative_to(source.resolve()):
                    aside.add(name, None, "a link that leaves the folder")
                elif path.is_file() and not any(part.startswith(".") for part in path.relative_to(source).parts):
                    found += _one(Given(name, path), room, aside)
        else:
            found += _one(Given(source.name, source), room, aside)
    return found


def _one(given: Given, room: Path, aside: SetAside) -> Iterator[Given]:
    ending = given.path.suffix.lower()
    if ending == ZIP:
        yield from _unpacked(given, room / str(len(list(room.iterdir()))), aside)
    elif ending in READ:
        yield given
    else:
        aside.add(given.name, None, "a file of another kind", f"files end in {', '.join(sorted({*READ, ZIP}))}")


def _unpacked(archive: Given, room: Path, aside: SetAside) -> Iterator[Given]:
    room.mkdir(parents=True)
    try:
        with zipfile.ZipFile(archive.path) as opened:
            infos = [info for info in opened.infolist() if not info.is_dir()]
            _require_safe(archive.name, infos)
            for at, info in enumerate(infos):
                path = PurePosixPath(info.filename)
                if any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
                    continue
                if path.suffix.lower() not in READ:
                    aside.add(f"{archive.name}:{path}", None, "a file of another kind")
                    continue
                there = room / f"{at}{path.suffix.lower()}"
                with opened.open(info) as packed, there.open("wb") as plain_file:
                    copied(f"{archive.name}: {info.filename[:100]!r}", packed, plain_file, info.file_size)
                yield Given(f"{archive.name}:{path}", there)
    except Oversized as error:
        raise UsageError(str(error), remedy="leave it out, or unpack it yourself") from None
    except (zipfile.BadZipFile, NotImplementedError, OSError, EOFError) as error:
        raise UsageError(
            f"{archive.name} is no zip archive that can be read: {error}", remedy="pack it again"
        ) from None


def _require_safe(archive: str, infos: Sequence[zipfile.ZipInfo]) -> None:
    for info in infos:
        if (why := _unsafe(info)) is not None:
            raise UsageError(f"{archive}: {info.filename[:100]!r} {why}", remedy="leave it out, or unpack it yourself")
    try:
        require(archive, len(infos), MOST_MEMBERS, "files")
        require(archive, sum(info.file_size for info in infos), MOST_BYTES)
    except Oversized as error:
        raise UsageError(str(error), remedy="unpack it, and import a folder at a time") from None


def _unsafe(info: zipfile.ZipInfo) -> str | None:
    name = info.filename
    if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or ":" in name or "\\" in name:
        return "is a path that leaves the archive"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link"
    if info.flag_bits & 1:
        return "is encrypted"
    if PurePosixPath(name).suffix.lower() in _NESTED:
        return "is an archive within the archive"
    try:
        require_ratio("", info.file_size, info.compress_size)
    except Oversized as error:
        return str(error).strip()
    return None


# Bars

COLUMNS = {
    **{name: column for name, column in BAR_COLUMNS.items() if name not in ("day", "symbol")},
    "day": Column(
        (
            "datetime",
            "date",
            "day",
            "timestamp",
            "tradedate",
            "time",
            "t",
            "datum",
            "fecha",
            "indexlevel0",
            "unnamed0",
            "",
        ),
        kind="session",
    ),
    "clock": Column(("time", "hour")),
    "zone": Column(("timezone", "tz", "zone")),
    "symbol": Column(("symbol", "ticker", "sym", "name")),
}
FIGURES = ("open", "high", "low", "close", "adjusted", "volume", "adjopen", "adjhigh", "adjlow")
_NAMES = {"adjusted": "adj close", "adjopen": "adj open", "adjhigh": "adj high", "adjlow": "adj low"}
_NUMBERED = re.compile(r"^\d+[a-z]?\.\s*")  # Alpha Vantage's "1. open"
_TRADED = {"buyprice": "open", "sellprice": "close"}  # AI-Trader's names of an hour's open and close
_CLOCK = re.compile(r"(\d{1,2}):?(\d{2})(?::?(\d{2}))?(?:\.\d+)?")
_WORDS = re.compile(r"[_\s(),]+|-(?=[a-z])")
_NOISE = re.compile(
    r"daily|hourly|intraday|prices?|data|stocks?|histor(y|ical|icaldata)|ohlcv?|bars|candles|adjusted|full|compact|max|"
    r"time|series|us|usd|\d+(min|m|d|h|w)|h|d|\d+|download|exports?|table|quotes?|chart|nasdaq|nyse|amex|arca|bats|cboe|"
    r"[0-9a-f]{5}|historische|daten|historiques|donnees|cours|historicos|datos|storici|dati"
)
_NO_NAMES = frozenset(
    {"download", "export", "table", "quotes", "prices", "history", "stock", "stocks", "data", "chart"}
)


class Cells(NamedTuple):
    """A row of bars as it is written. row: of its file. zone: of its time, where the file names one beside it."""

    row: int
    symbol: str
    day: str
    clock: str
    zone: str
    figures: Mapping[str, str]


class Bar(NamedTuple):
    """A bar of a day. origin: file and row of its first row."""

    origin: tuple[str, int]
    day: str
    figures: Mapping[str, str]


def symbol_in(name: str) -> str | None:
    """Return the symbol of a file of bars by its name: AAPL.csv, aapl.us.txt, daily_prices_AAPL.json; else None."""
    stem = PurePosixPath(name.rpartition(":")[2]).stem
    if PurePosixPath(stem).suffix.lower() in READ:  # AAPL.csv.txt, as some programs save it
        stem = PurePosixPath(stem).stem
    whole = _symbol(stem)
    if is_symbol(whole) and stem not in _NO_NAMES:
        return whole
    words = [word for word in _WORDS.split(stem) if word and not _NOISE.fullmatch(word.lower())]
    return _symbol(words[0]) if len(words) == 1 and is_symbol(_symbol(words[0])) else None


def _symbol(text: str) -> str:
    """Return a symbol without the mark of its country or exchange: AAPL.US, NASDAQ:AAPL."""
    return spelled(text.strip().upper().removesuffix(".US").rpartition(":")[2])


def bars_of(given: Given, aside: SetAside) -> dict[str, list[Bar]]:
    """Return a file's daily bars by symbol; rows within a day are put together. What cannot be read is set aside. A
    symbol that the file states counts, and not that of its name."""
    named = symbol_in(given.name)
    found: dict[str, list[Cells]] = defaultdict(list)
    for cells in _rows(given, aside):
        symbol = _symbol(cells.symbol) or named or ""
        if (abroad := foreign(symbol, exchange=cells.symbol.rpartition(":")[0])) is not None:
            aside.add(given.name, cells.row, "no US dollars in New York", abroad)
        elif is_symbol(symbol):
            found[symbol].append(cells)
        elif cells.symbol:
            aside.add(given.name, cells.row, f"no symbol, which is {SYMBOL_RULE}", repr(cells.symbol[:40]))
        else:
            aside.add(given.name, None, "a file without a symbol, in a column or in its name", "such as AAPL.csv")
            return {}
    stated = {symbol for symbol, rows in found.items() if rows[0].symbol}
    if named is not None and len(stated) == 1 and named not in stated and PurePosixPath(given.name).stem.isupper():
        kind = "a file named after one symbol that states another: the stated one counts"
        aside.note(given.name, kind, f"{named} by its name, {min(stated)} by its content")
    if named in found and len(found) == 1 and not stated and _of_several(found[named]):
        kind = "several rows of a time, and no column of their symbols"
        aside.add(given.name, None, kind, "name it `symbol`, or write a file a symbol")
        return {}
    return {symbol: _days(given.name, rows, aside) for symbol, rows in found.items()}


_FEW = 0.1  # share of times with a second row that may be slips


def _of_several(rows: Sequence[Cells]) -> bool:
    """Return whether the rows are of more than one name: many times have rows with different figures."""
    by_time: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for one in rows:
        by_time[one.day, one.clock].add(tuple(one.figures.values()))
    again = sum(len(figures) > 1 for figures in by_time.values())
    return again > 2 and again > _FEW * len(by_time)


def found_in(path: Path) -> str:
    """Return what a file without the usual columns has instead, for people."""
    if path.suffix.lower() == PARQUET:
        return "a Parquet file with other columns, or a damaged one"
    text = _first_line(path)
    try:
        first = orjson.loads(text)
    except orjson.JSONDecodeError:
        return f"its first line is {text[:80]!r}" if text else "it has no first line of text"
    return _fields(first) if isinstance(first, dict) else f"its first line is {text[:80]!r}"


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return next((line.strip() for line in file.read(_SHOWN_OF_A_FILE).splitlines() if line.strip()), "")


def _fields(record: Mapping[str, Any]) -> str:
    names = [str(name)[:40] for name in record]
    told = f"it has {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return told + ("; logs of positions are for `desk benchmark trades`" if "positions" in record else "")


def _rows(given: Given, aside: SetAside) -> Iterator[Cells]:
    ending = given.path.suffix.lower()
    if ending in (JSON, JSON_LINES):
        yield from _json_rows(given, ending == JSON_LINES, aside)
        return
    problems = Problems(most=1 << 30)
    for part in parts_of(given.path, given.name, COLUMNS, problems):
        if part.source:
            aside.sources[given.name] = part.source
        has = [name for name in FIGURES if name in part.cells]
        for at in range(len(part)):
            figures = {name: part.text(name, at) for name in has}
            symbol, day, clock, zone = (part.text(name, at) for name in ("symbol", "day", "clock", "zone"))
            yield Cells(int(part.rows[at]), symbol, day, clock, zone, figures)
    for one in problems.of("error"):
        aside.add(one.file, one.row, "a row or file that cannot be read", one.message)
    for one in problems.of("warning"):
        aside.note(one.file, "read with a doubt", f"row {one.row}: {one.message}" if one.row else one.message)


def _json_rows(given: Given, by_line: bool, aside: SetAside) -> Iterator[Cells]:
    rows: list[Cells] = []
    first: Mapping[str, Any] | None = None
    try:
        with given.path.open("rb") as file:
            content = lines(given.name, file) if by_line else [held(given.name, file)]
            for line, text in enumerate(content, 1):
                if not text.strip():
                    continue
                try:
                    found = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
                except orjson.JSONDecodeError as error:
                    aside.add(given.name, line, "no JSON", error.msg)
                    continue
                for at, (symbol, record) in enumerate(_records(found), 1):
                    first = record if first is None else first
                    require(f"a record of {given.name}", len(record), MOST_FIELDS, "fields")
                    rows.append(_cells(line if by_line else at, symbol, record))
        rows = _plain(rows)
    except (Oversized, Ambiguous) as error:
        row = error.cell.row if isinstance(error, Ambiguous) else None
        aside.add(given.name, row, "a row or file that cannot be read", str(error))
        return
    if any(row.day and row.figures for row in rows):
        yield from rows
    else:
        aside.add(given.name, None, "no bar in the file", f"{_fields(first or {})}; a bar has a date and a close")


def _plain(rows: Sequence[Cells]) -> list[Cells]:
    """Return rows with days and figures in plain form, as all of them show that the file writes. Raises Ambiguous."""
    survey = Survey(kinds_of(COLUMNS))
    places = [one.row for one in rows]
    columns = {"day": [one.day for one in rows]}
    columns |= {name: [one.figures.get(name, "") for one in rows] for name in FIGURES}
    survey.see(columns, places)
    notation = survey.decided()
    columns = {name: [*notation.plain(name, COLUMNS[name].kind, cells)] for name, cells in columns.items()}
    return [
        one._replace(day=columns["day"][at], figures={name: columns[name][at] for name in one.figures})
        for at, one in enumerate(rows)
    ]


def _records(found: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (symbol, record) of a list of records, of an object that has one, of one record, or of Alpha Vantage's
    series by time."""
    if isinstance(found, list):
        yield from (("", one) for one in found if isinstance(one, dict))
        return
    if not isinstance(found, dict):
        return
    meta = next((one for name, one in found.items() if plain(name) == "metadata" and isinstance(one, dict)), found)
    named = {plain(_NUMBERED.sub("", name)): str(one) for name, one in meta.items() if not isinstance(one, dict | list)}
    symbol, zone = named.get("symbol", ""), {"timezone": named["timezone"]} if "timezone" in named else {}
    series = [one for name, one in found.items() if plain(name).startswith("timeseries") and isinstance(one, dict)]
    lists = [one for one in found.values() if isinstance(one, list)]
    named_lists = [
        (str(name), one)
        for held in found.values()
        if isinstance(held, dict)
        for name, one in held.items()
        if isinstance(one, list)
    ]
    if named_lists and not series and not lists:  # Alpaca's bars by symbol
        yield from ((name, one) for name, rows in named_lists for one in rows if isinstance(one, dict))
    elif series:
        rows = ({"date": day, **one} for by_day in series for day, one in by_day.items() if isinstance(one, dict))
        yield from ((symbol, {**zone, **row}) for row in rows)
    elif lists:
        yield from ((symbol, {**zone, **one}) for rows in lists for one in rows if isinstance(one, dict))
    else:
        yield symbol, found


def _cells(row: int, symbol: str, record: Mapping[str, Any]) -> Cells:
    written = {plain(_NUMBERED.sub("", name)): "" if value is None else str(value) for name, value in record.items()}
    written = {_TRADED.get(name, name): value for name, value in written.items()}
    held = {
        ours: written[name]
        for ours, column in COLUMNS.items()
        if (name := next((one for one in column.names if one in written), None)) is not None
    }
    figures = {name: held[name] for name in FIGURES if name in held}
    clock = held.get("clock", "") if held.get("clock") != held.get("day") else ""
    return Cells(row, held.get("symbol", symbol), held.get("day", ""), clock, held.get("zone", ""), figures)


# A bar of a Monday whose time is of another zone's night: those of the other days would be a day early without a sign.
_SUNDAY, _EVENING = 6, 18


def _days(name: str, rows: Sequence[Cells], aside: SetAside) -> list[Bar]:
    moments: list[tuple[dt.datetime | dt.date, Cells]] = []
    for cells in rows:
        try:
            moments.append((_moment(cells), cells))
        except Unreadable as error:
            aside.add(name, cells.row, "a day or time that cannot be read", str(error))
    times: dict[dt.date, set[dt.datetime]] = defaultdict(set)
    for moment, _ in moments:
        if isinstance(moment, dt.datetime):
            times[moment.date()].add(moment)
    if any(len(one) > 1 for one in times.values()):
        aside.add(name, None, "of rows within a day the daily bars are kept, and not their parts")
        return _of_parts(name, moments, aside)
    for moment, cells in moments:
        if isinstance(moment, dt.datetime) and moment.weekday() == _SUNDAY and moment.hour >= _EVENING:
            shown = f"{cells.day[:40]} is {moment:%A, %H:%M} in New York: its bar would be of the day before it"
            aside.add(name, cells.row, "times of a zone whose days are not New York's", f"{shown}; write YYYY-MM-DD")
            return []
    return [Bar((name, cells.row), str(_day(moment)), cells.figures) for moment, cells in moments]


def _day(moment: dt.datetime | dt.date) -> dt.date:
    return moment.date() if isinstance(moment, dt.datetime) else moment


def _moment(cells: Cells) -> dt.datetime | dt.date:
    """Return a row's day, or its time in New York, which is that of one without a zone. Midnight names a day alone."""
    zone = NEW_YORK if is_empty(cells.zone) else _zone(cells.zone.strip())
    moment = moment_of(cells.day.strip(), zone)
    if isinstance(moment, dt.datetime):
        return moment.date() if moment.time() == dt.time() else moment.astimezone(NEW_YORK)
    clock = _CLOCK.fullmatch(cells.clock.strip().zfill(6) if cells.clock.strip().isdigit() else cells.clock.strip())
    if clock is None:
        if not is_empty(cells.clock):
            raise Unreadable(f"{cells.clock[:40]!r} is no time of day")
        return moment
    try:
        time = dt.time(int(clock[1]), int(clock[2]), int(clock[3] or 0))
    except ValueError:
        raise Unreadable(f"{cells.clock[:40]!r} is no time of day") from None
    return dt.datetime.combine(moment, time, zone).astimezone(NEW_YORK) if time != dt.time() else moment


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise Unreadable(f"{name[:40]!r} is no time zone, such as America/New_York or UTC") from None


def _of_parts(name: str, moments: Iterable[tuple[dt.datetime | dt.date, Cells]], aside: SetAside) -> list[Bar]:
    """Return the days that parts of regular sessions come to: the first open, the last close. A part counts that goes
    on after the open: it may begin up to its own length before it."""
    parts: dict[dt.date, dict[dt.datetime, tuple[int, dict[str, float | None]]]] = defaultdict(dict)
    for moment, cells in moments:
        try:
            figures = {one: number_of(text) for one, text in cells.figures.items()}
        except Unreadable as error:
            aside.add(name, cells.row, "a figure that is no number", str(error))
            continue
        if not isinstance(moment, dt.datetime):
            aside.add(name, cells.row, "a row without a time among rows with one", cells.day)
        elif (why := _fault(figures)) is not None:
            aside.add(name, cells.row, why, f"{cells.day} {cells.clock}".strip())
        elif moment in parts[moment.date()]:
            aside.add(name, cells.row, "a second row of a time", f"{moment:%Y-%m-%d %H:%M}")
        else:
            parts[moment.date()][moment] = cells.row, figures
    every = sorted(moment for day in parts.values() for moment in day)
    gaps = [later - earlier for earlier, later in pairwise(every)]
    length = min(gaps, default=dt.timedelta())
    days = []
    for day in sorted(parts):
        if not exchange_hours().is_session(day):
            rows = sorted(row for row, _ in parts[day].values())
            if rows:
                aside.add(name, rows[0], "a day that is no session of the New York Stock Exchange", str(day))
            continue
        opened, closed = exchange_hours().open_of(day), exchange_hours().close_of(day)
        inside = [parts[day][moment] for moment in sorted(parts[day]) if opened - length < moment < closed]
        if inside:
            days.append(Bar((name, inside[0][0]), str(day), _joined([figures for _, figures in inside])))
    return days


def _fault(figures: Mapping[str, float | None]) -> str | None:
    prices = [figures[one] for one in ("open", "high", "low", "close") if one in figures]
    if not prices or any(price is None or price <= 0 for price in prices):
        return "a price that is missing or not above zero"
    high, low, volume = figures.get("high"), figures.get("low"), figures.get("volume")
    if high is not None and low is not None and high < low:
        return "a high below the low"
    return "a negative volume" if volume is not None and volume < 0 else None


_JOINS: Mapping[str, Callable[[list[float]], float]] = {
    "open": lambda values: values[0], "high": max, "low": min, "volume": sum,
}  # fmt: skip


def _joined(parts: Sequence[Mapping[str, float | None]]) -> dict[str, str]:
    joined = {}
    for name in FIGURES:
        values = [value for part in parts if (value := part.get(name)) is not None]
        if values:
            join = _JOINS.get(name)
            joined[name] = f"{join(values) if join else values[-1]:.10g}"
    return joined


def table_of(bars: Sequence[Bar]) -> tuple[list[str], list[list[str]]]:
    """Return (header, rows) of a symbol's file of bars."""
    has = [name for name in FIGURES if any(name in bar.figures for bar in bars)]
    has = [name for name in has if not name.startswith("adj") or name == "adjusted" or "close" not in has]
    rows = [[bar.day, *(bar.figures.get(name, "") for name in has)] for bar in bars]
    return ["date", *(_NAMES.get(name, name) for name in has)], rows
