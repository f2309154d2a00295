"""The user's own files as they come: files, folders and zip archives; bars in the usual shapes of CSV, JSON and
Parquet, daily or within the day, become a table of daily bars for each symbol."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import re
import stat
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson

from chordesk.models.errors import UsageError
from chordesk.models.exchanges import CRYPTO, EXCHANGES, exchange_code, shown_exchange, zone_of
from chordesk.models.outside import (
    FREE_BYTES,
    MOST_BYTES,
    MOST_FIELDS,
    MOST_MEMBERS,
    MOST_RATIO,
    Oversized,
    copied,
    held,
    lines,
    require,
    require_ratio,
)
from chordesk.models.text import csv_cell
from chordesk.tools.market.clock import ExchangeHours, exchange_hours
from chordesk.tools.market.files.bars import BAR_COLUMNS, SYMBOL_NAMES
from chordesk.tools.market.files.data_folder import SET_ASIDE
from chordesk.tools.market.files.known_exports import plain
from chordesk.tools.market.files.layout import no_text
from chordesk.tools.market.files.notation import Ambiguous, Survey, kinds_of
from chordesk.tools.market.files.symbols import listed, symbol_in
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
)
from chordesk.tools.market.home import untraded
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol
from chordesk.tools.samples.json_records import records

_SHOWN = 8
_SHOWN_OF_A_FILE = 4096  # characters
_SHOWN_OF_A_LINE = 120


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
GZIP = ".gz"
NESTED = frozenset({ZIP, GZIP, ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".zst", ".whl", ".jar"})


WORKBOOKS = frozenset({".xlsx", ".xls", ".xlsm", ".xlsb", ".ods", ".numbers"})
_REFUSED = {
    **dict.fromkeys(WORKBOOKS, "a workbook: save it as CSV UTF-8"),
    **dict.fromkeys(NESTED, "packed: unpack it"),
}


def is_read(name: str) -> bool:
    path = PurePosixPath(name.lower())
    return path.suffix in {*READ, ZIP} or (path.suffix == GZIP and PurePosixPath(path.stem).suffix in READ)


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
    if given.path.exists() and not given.path.is_file():
        remedy = "write what it gives into a file, and import that"
        raise UsageError(f"{given.name} is a pipe or a device, and is read more than once", remedy=remedy)
    if ending == ZIP:
        yield from _unpacked(given, room / str(len(list(room.iterdir()))), aside)
    elif ending in READ:
        yield given
    elif is_read(given.name):
        yield Given(given.name, _unzipped(given, room))
    else:
        detail = _REFUSED.get(ending, f"files end in {', '.join(sorted({*READ, ZIP, GZIP}))}")
        aside.add(given.name, None, "a file of another kind", detail)


def _unzipped(given: Given, room: Path) -> Path:
    """Unpack a file of gzip, within the bounds of what is read from outside."""
    there = room / str(len(list(room.iterdir()))) / PurePosixPath(given.name).stem
    there.parent.mkdir(parents=True)
    packed = given.path.stat().st_size
    try:
        with gzip.open(given.path) as source, there.open("wb") as target:
            copied(given.name, cast("IO[bytes]", source), target, min(MOST_BYTES, max(FREE_BYTES, MOST_RATIO * packed)))
    except Oversized as error:
        why = f"{error}, {MOST_RATIO} times its size" if packed * MOST_RATIO < MOST_BYTES else str(error)
        raise UsageError(why, remedy="leave it out, or unpack it yourself") from None
    except (OSError, EOFError, zlib.error) as error:
        raise UsageError(f"{given.name} is no gzip file that can be read: {error}", remedy="pack it again") from None
    return there


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
    if PurePosixPath(name).suffix.lower() in NESTED:
        return "is an archive within the archive"
    try:
        require_ratio("", info.file_size, info.compress_size)
    except Oversized as error:
        return str(error).strip()
    return None


# Bars

_TIMES = ("datetime", "date", "day", "timestamp", "tradedate", "time", "t")
COLUMNS = {
    **{name: column for name, column in BAR_COLUMNS.items() if name not in ("day", "symbol")},
    "day": Column((*_TIMES, *(name for name in BAR_COLUMNS["day"].names if name not in _TIMES)), kind="session"),
    "clock": Column(("time", "hour")),
    "zone": Column(("timezone", "tz", "zone")),
    "symbol": Column(SYMBOL_NAMES),
    # of symbols, or of companies' names
    "called": Column(("name", "code", "instrument", "security", "stock", "asset", "underlying")),
}
FIGURES = ("open", "high", "low", "close", "adjusted", "volume", "adjopen", "adjhigh", "adjlow")
_NAMES = {"adjusted": "adj close", "adjopen": "adj open", "adjhigh": "adj high", "adjlow": "adj low"}
_TRADED = {"buyprice": "open", "sellprice": "close"}  # AI-Trader's names of an hour's open and close
_IN_UTC = re.compile(r"\b(?:UTC|GMT)\b", re.IGNORECASE)
_CLOCK = re.compile(r"(\d{1,2}):?(\d{2})(?::?(\d{2}))?(?:\.\d+)?")


class Cells(NamedTuple):
    """A row of bars as it is written. row: of its file. zone: of its time, where the file names one beside it. called:
    the symbol is of a column that may have companies' names."""

    row: int
    symbol: str
    day: str
    clock: str
    zone: str
    figures: Mapping[str, str]
    called: bool = False


class Bar(NamedTuple):
    """A bar of a day. origin: file and row of its first row."""

    origin: tuple[str, int]
    day: str
    figures: Mapping[str, str]


def bars_of(given: Given, aside: SetAside) -> dict[str, list[Bar]]:
    """Return a file's daily bars by symbol; rows within a day are put together. What cannot be read is set aside. A
    symbol that the file states counts, and not that of its name."""
    named = symbol_in(given.name)
    rows = list(_rows(given, aside))
    stated = _stated_symbols(given, rows, named, aside)
    found: dict[str, list[Cells]] = defaultdict(list)
    for cells in rows:
        symbol = stated.get(cells.symbol)
        if symbol:
            found[symbol].append(cells)
        elif cells.symbol or symbol is None:
            aside.add(given.name, cells.row, *_no_symbol(cells.symbol))
    if len(stated) == 1 and _of_several(rows):
        kind = "several rows of a time, and no column that tells their symbols"
        aside.add(given.name, None, kind, "name it `symbol`, or write a file a symbol")
        return {}
    if stated.get("") == "":
        aside.add(given.name, None, "a file without a symbol, in a column or in its name", "such as AAPL.csv")
    return {symbol: _days(given.name, of_symbol, aside, exchange_code(symbol)) for symbol, of_symbol in found.items()}


def _stated_symbols(given: Given, rows: Sequence[Cells], named: str | None, aside: SetAside) -> dict[str, str | None]:
    """Return the symbol of each text in the column of symbols, of an empty one too: the file's only symbol, or that of
    its name; empty where it has none, and None of a text that is no symbol. A column of companies' names leaves the
    file its own name."""
    texts = {one.symbol: one.called for one in rows}
    found: dict[str, str | None] = {}
    for text in filter(None, texts):
        symbol = listed(text)
        foreigner = _abroad(text) is not None or untraded(symbol) is not None
        found[text] = symbol if is_symbol(symbol) and not foreigner else None
    if (
        len(found) == 1
        and named is not None
        and texts[text := next(iter(found))]
        and not (found[text] and text.isupper())
    ):
        if found[text] != named:
            aside.note(given.name, "a name that is no symbol: the file's name counts", f"{text[:40]!r} is {named}")
        found[text] = named
    known = {symbol for symbol in found.values() if symbol is not None}
    differs = len(known) == 1 and named is not None and named not in known
    if differs and PurePosixPath(given.name).stem.partition(".")[0].isupper():
        kind = "a file named after one symbol that states another: the stated one counts"
        aside.note(given.name, kind, f"{named} by its name, {min(known)} by its content")
    if "" in texts:
        found[""] = (min(known) if len(known) == 1 else None) if found else named or ""
    return found


def _abroad(text: str) -> str | None:
    return untraded(text.strip().upper(), exchange=text.rpartition(":")[0])


def _no_symbol(text: str) -> tuple[str, str]:
    if (abroad := _abroad(text)) is not None:
        return "no listing of an exchange that the desk knows", abroad
    return f"no symbol, which is {SYMBOL_RULE}", repr(text[:40])


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
    if (why := no_text(path)) is not None:
        return f"it {why}"
    text = _first_line(path)
    try:
        first = orjson.loads(text)
    except orjson.JSONDecodeError:
        return f"its first line is {text[:_SHOWN_OF_A_LINE]!r}" if text else "it has no first line of text"
    return _fields(first) if isinstance(first, dict) else f"its first line is {text[:_SHOWN_OF_A_LINE]!r}"


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return next((line.strip() for line in file.read(_SHOWN_OF_A_FILE).splitlines() if line.strip()), "")


def _fields(record: Mapping[str, Any]) -> str:
    names = [str(name)[:40] for name in record]
    if len(record) == 1 and isinstance(text := next(iter(record.values())), str):
        return f"it says {text[:_SHOWN_OF_A_LINE]!r}"  # what a service answers in place of bars
    told = f"it has {', '.join(names[:8])}" + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return told + ("; logs of positions are for `desk benchmark trades`" if "positions" in record else "")


def _rows(given: Given, aside: SetAside) -> Iterator[Cells]:
    ending = given.path.suffix.lower()
    if ending in (JSON, JSON_LINES):
        yield from _json_rows(given, ending == JSON_LINES, aside)
        return
    problems = Problems(most=1 << 30)
    unread: dict[str, None] = {}
    for part in parts_of(given.path, given.name, COLUMNS, problems):
        unread |= dict.fromkeys(part.unread)
        if part.source:
            aside.sources[given.name] = part.source
        symbols = "symbol" if "symbol" in part.cells else "called"
        called = symbols == "called" and "called" in part.cells
        of_heading = "UTC" if _IN_UTC.search(part.written.get("day", "")) else ""
        has = [name for name in FIGURES if name in part.cells]
        for at in range(len(part)):
            figures = {name: part.text(name, at) for name in has}
            symbol, day, clock, zone = (part.text(name, at) for name in (symbols, "day", "clock", "zone"))
            yield Cells(int(part.rows[at]), symbol.strip(), day, clock, zone or of_heading, figures, called)
    if unread:
        names = f"{', '.join(one[:40] for one in list(unread)[:6])}{' ...' if len(unread) > 6 else ''}"
        aside.note(given.name, "columns that are not read", names)
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
                for at, (symbol, record) in enumerate(records(found), 1):
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
    survey = Survey(kinds_of(COLUMNS), delimiter="")
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


def _cells(row: int, symbol: str, record: Mapping[str, Any]) -> Cells:
    if "T" in record:  # Polygon's ticker, beside its t, which is the time
        record = {"ticker": record["T"], **{name: value for name, value in record.items() if name != "T"}}
    written = {plain(name): "" if value is None else str(value) for name, value in record.items()}
    written = {_TRADED.get(name, name): value for name, value in written.items()}
    held = {
        ours: written[name]
        for ours, column in COLUMNS.items()
        if (name := next((one for one in column.names if one in written), None)) is not None
    }
    figures = {name: held[name] for name in FIGURES if name in held}
    clock = held.get("clock", "") if held.get("clock") != held.get("day") else ""
    called = "symbol" not in held and "called" in held and not symbol
    symbol = held.get("symbol", held["called"] if called else symbol)
    return Cells(row, symbol, held.get("day", ""), clock, held.get("zone", ""), figures, called)


_PRICES = tuple(one for one in FIGURES if one != "volume")
# A bar of a Monday whose time is of another zone's night: those of the other days would be a day early without a sign.
_SUNDAY, _EVENING = 6, 18


def _days(name: str, rows: Sequence[Cells], aside: SetAside, exchange: str) -> list[Bar]:
    moments: list[tuple[dt.datetime | dt.date, Cells]] = []
    for cells in rows:
        if all(is_empty(cells.figures.get(one, "")) for one in _PRICES):
            aside.note(name, "rows without any price, which are no bars", f"row {cells.row}")
            continue
        try:
            moments.append((_moment(cells, zone_of(exchange)), cells))
        except Unreadable as error:
            aside.add(name, cells.row, "a day or time that cannot be read", str(error))
    times: dict[dt.date, set[dt.datetime]] = defaultdict(set)
    for moment, _ in moments:
        if isinstance(moment, dt.datetime):
            times[moment.date()].add(moment)
    if any(len(one) > 1 for one in times.values()):
        if joined := _of_parts(name, moments, aside, exchange):
            aside.add(name, None, "of rows within a day the daily bars are kept, and not their parts")
        return joined
    place = EXCHANGES[exchange].place
    for moment, cells in moments:
        if (
            exchange != CRYPTO
            and isinstance(moment, dt.datetime)
            and moment.weekday() == _SUNDAY
            and moment.hour >= _EVENING
        ):
            shown = f"{cells.day[:40]} is {moment:%A, %H:%M} in {place}: its bar would be of the day before it"
            aside.add(name, cells.row, f"times of a zone whose days are not {place}'s", f"{shown}; write YYYY-MM-DD")
            return []
    return [Bar((name, cells.row), str(_day(moment)), _on_one_line(cells.figures)) for moment, cells in moments]


def _on_one_line(figures: Mapping[str, str]) -> Mapping[str, str]:
    """A line break within a cell would move the rows below it in the file that is written."""
    if any("\n" in text or "\r" in text for text in figures.values()):
        return {name: " ".join(text.split()) for name, text in figures.items()}
    return figures


def _day(moment: dt.datetime | dt.date) -> dt.date:
    return moment.date() if isinstance(moment, dt.datetime) else moment


def _moment(cells: Cells, own: ZoneInfo) -> dt.datetime | dt.date:
    """Return a row's day, or its time where it is listed, which is that of one without a zone. Midnight names a day
    alone."""
    zone = own if is_empty(cells.zone) else _zone(cells.zone.strip())
    moment = moment_of(cells.day.strip(), zone)
    if isinstance(moment, dt.datetime):
        return moment.date() if moment.time() == dt.time() else moment.astimezone(own)
    clock = _CLOCK.fullmatch(cells.clock.strip().zfill(6) if cells.clock.strip().isdigit() else cells.clock.strip())
    if clock is None:
        if not is_empty(cells.clock):
            raise Unreadable(f"{cells.clock[:40]!r} is no time of day")
        return moment
    try:
        time = dt.time(int(clock[1]), int(clock[2]), int(clock[3] or 0))
    except ValueError:
        raise Unreadable(f"{cells.clock[:40]!r} is no time of day") from None
    return dt.datetime.combine(moment, time, zone).astimezone(own) if time != dt.time() else moment


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise Unreadable(f"{name[:40]!r} is no time zone, such as America/New_York or UTC") from None


def _of_parts(
    name: str, moments: Iterable[tuple[dt.datetime | dt.date, Cells]], aside: SetAside, exchange: str
) -> list[Bar]:
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
    hours, place = exchange_hours(exchange), EXCHANGES[exchange].place
    if (why := _other_clock(parts, length, hours)) is not None:
        aside.add(name, None, f"times of another clock than {place}'s", why)
        return []
    days = []
    for day in sorted(parts):
        if not hours.is_session(day):
            rows = sorted(row for row, _ in parts[day].values())
            if rows:
                aside.add(name, rows[0], f"a day that is no session of {shown_exchange(exchange)}", str(day))
            continue
        opened, closed = hours.open_of(day), hours.close_of(day)
        inside = [parts[day][moment] for moment in sorted(parts[day]) if opened - length < moment < closed]
        if inside:
            days.append(Bar((name, inside[0][0]), str(day), _joined([figures for _, figures in inside])))
    return days


_MOST_DAYS = 0.8
_AN_HOUR = dt.timedelta(hours=1)


def _other_clock(
    parts: Mapping[dt.date, Iterable[dt.datetime]], length: dt.timedelta, hours: ExchangeHours
) -> str | None:
    """Return why times cannot be the exchange's: on most days nothing is there of the session's first hour and
    something after its close, or nothing of its last hour and something before its open."""
    days = [(day, sorted(times)) for day, times in parts.items() if hours.is_session(day)]
    late = early = 0
    for day, times in days:
        opened, closed = hours.open_of(day), hours.close_of(day)
        late += times[-1] >= closed and not any(opened - length < one < opened + _AN_HOUR for one in times)
        early += times[0] < opened - length and not any(closed - _AN_HOUR - length <= one < closed for one in times)
    if not days or max(late, early) < _MOST_DAYS * len(days):
        return None
    shown = f"{days[0][1][0]:%H:%M} to {days[0][1][-1]:%H:%M} on {days[0][0]}"
    place = EXCHANGES[hours.exchange].place
    return f"they go from {shown}, read as {place}'s; add a column timezone, such as UTC or Europe/Berlin"


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
