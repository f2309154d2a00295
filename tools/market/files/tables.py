"""Tables of own files, from CSV, JSON lines or Parquet: their columns and cells, and their problems, each with its
place."""

from __future__ import annotations

import csv
import datetime as dt
import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import orjson

from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.exchanges import currency_of, zone_of
from chordesk.models.outside import (
    MOST_BYTES,
    MOST_CELL,
    MOST_FIELDS,
    MOST_ROWS,
    Oversized,
    lines,
    require,
)
from chordesk.models.text import from_csv_cell
from chordesk.tools.market.files.known_exports import PRICES, Wide, flat_header, meant, plain, source_of, unit_of
from chordesk.tools.market.files.layout import CURRENCY, Form, csv_lines, encoding_of, first_lines, form_of, no_text
from chordesk.tools.market.files.notation import DAYS, EMPTY, Ambiguous, Kind, Survey, kinds_of
from chordesk.tools.market.files.symbols import listed
from chordesk.tools.market.home import TRADED_REMEDY, foreign, major_of, untraded
from chordesk.tools.market.units import has_parts
from chordesk.tools.market.universe import SYMBOL_RULE, is_symbol

T = TypeVar("T")

Level = Literal["error", "warning"]
SHOWN_A_FILE = 5


@dataclass(frozen=True, slots=True)
class FileProblem:
    """One problem. row: line of a text file, or row of a Parquet file, the header being the first."""

    level: Level
    file: str
    message: str
    row: int | None = None
    column: str | None = None

    def __str__(self) -> str:
        place = [self.file]
        if self.row is not None:
            place.append(f"row {self.row}")
        if self.column is not None:
            place.append(f"column {self.column}")
        return f"{', '.join(place)}: {self.message}"


@dataclass(slots=True)
class Problems:
    """Collector of problems, the first few of each file and level; the others are counted. most: so many a file."""

    most: int = SHOWN_A_FILE
    found: list[FileProblem] = field(default_factory=list)
    counts: Counter[tuple[str, Level]] = field(default_factory=Counter)

    def error(self, file: str, message: str, row: int | None = None, column: str | None = None) -> None:
        self._add(FileProblem("error", file, message, row, column))

    def warn(self, file: str, message: str, row: int | None = None, column: str | None = None) -> None:
        self._add(FileProblem("warning", file, message, row, column))

    @property
    def errors(self) -> int:
        return self._total("error")

    @property
    def warnings(self) -> int:
        return self._total("warning")

    def of(self, level: Level) -> list[FileProblem]:
        return [problem for problem in self.found if problem.level == level]

    def left_out(self) -> dict[tuple[str, Level], int]:
        """Return the number of problems that were not kept, by file and level."""
        kept = Counter((problem.file, problem.level) for problem in self.found)
        return {key: count - kept[key] for key, count in self.counts.items() if count > kept[key]}

    def _add(self, problem: FileProblem) -> None:
        key = (problem.file, problem.level)
        self.counts[key] += 1
        if self.counts[key] <= self.most:
            self.found.append(problem)

    def _total(self, level: Level) -> int:
        return sum(count for (_, kind), count in self.counts.items() if kind == level)


CSV, PARQUET, JSON_LINES = ".csv", ".parquet", ".jsonl"
ENDINGS = (CSV, PARQUET)
PART = 100_000

Cells = Sequence[str] | npt.NDArray[np.generic]


class Unreadable(ValueError):
    """A cell that cannot be read, with the reason. column: our name of the column, where a value is made of several."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.column = column


_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(.*))?")
_PLAIN_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_SERIAL = re.compile(r"\d{5}(\.\d+)?")
_SECONDS = re.compile(r"\d{9,13}(\.\d+)?")
# Python reads 5_0 as fifty, and digits of other scripts.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_SERIAL_START = dt.date(1899, 12, 30)
# Beyond these years a day is a placeholder, and times near the calendar's ends cannot be brought to another zone.
_FIRST_YEAR, _LAST_YEAR = 1800, 2199
WRITE_DAYS, WRITE_TIMES = "write days as YYYY-MM-DD", "write times as YYYY-MM-DD HH:MM:SS-04:00"
UNREAD = -1
_ODD = re.compile(r"[^ -^`-~]")  # an underscore, or a letter that is not ASCII


def is_empty(text: str) -> bool:
    return text.strip().lower() in EMPTY


def text_of(text: str) -> str | None:
    return None if is_empty(text) else from_csv_cell(text.strip())


def symbol_of(text: str) -> str:
    symbol = listed(text)
    # What is written as of New York's exchanges is: AAPL US Equity, NASDAQ:AAPL.
    if (strange := untraded(text if foreign(symbol) is not None else symbol)) is not None:
        raise Unreadable(f"{strange}; {TRADED_REMEDY}")
    if not is_symbol(symbol):
        raise Unreadable(f"{text.strip()[:40]!r} is no symbol: {SYMBOL_RULE}")
    return symbol


def number_of(text: str) -> float | None:
    text = text.strip()
    if is_empty(text):
        return None
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if NUMBER.fullmatch(text) is None:
        if text.lower().lstrip("+-") in ("inf", "infinity"):
            raise Unreadable(f"{text[:40]!r} is no finite number")
        hint = "; write decimals with a point" if "," in text else ""
        raise Unreadable(f"{text[:40]!r} is no number{hint}")
    if not math.isfinite(found := float(text)):
        raise Unreadable(f"{text[:40]!r} is no finite number")
    return found


def day_of(text: str) -> dt.date:
    """Return the day that a cell names, whatever time of day it adds. Raises Unreadable, also for an empty cell."""
    text = text.strip()
    found = _DAY.fullmatch(text) or _PLAIN_DAY.fullmatch(text)
    if found is not None:
        try:
            day = dt.date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            raise Unreadable(f"{text[:40]!r} is no day of the calendar") from None
        if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
            raise Unreadable(f"{text[:40]!r} is no day of {_FIRST_YEAR} to {_LAST_YEAR}; leave out a row without a day")
        return day
    if _SERIAL.fullmatch(text):
        day = _SERIAL_START + dt.timedelta(days=int(float(text)))
        raise Unreadable(f"{text} is a spreadsheet's day number (perhaps {day}); {WRITE_DAYS}")
    if _SECONDS.fullmatch(text):
        raise Unreadable(f"{text} counts seconds or milliseconds; {WRITE_DAYS}")
    raise Unreadable(f"{'no day' if is_empty(text) else f'{text[:40]!r} cannot be read as a day'}; {WRITE_DAYS}")


def moment_of(text: str, zone: ZoneInfo | None = None) -> dt.datetime | dt.date:
    """Return the moment that a cell names, timezone-aware, or the day alone where it names no time. Raises Unreadable.
    zone: of a time that names none; None refuses such a time."""
    moment = stated_moment(text)
    if not isinstance(moment, dt.datetime) or moment.tzinfo is not None:
        return moment
    if zone is None:
        text = text.strip()
        raise Unreadable(f"{text[:40]!r} has no zone; write it as {text[:19]}-04:00, or Z for UTC")
    return moment.replace(tzinfo=zone)


def stated_moment(text: str) -> dt.datetime | dt.date:
    """Return the moment or the day that a cell names; a time without a zone is naive. Raises Unreadable."""
    text = text.strip()
    try:
        day = day_of(text)
    except Unreadable as error:
        raise Unreadable(str(error).replace(WRITE_DAYS, WRITE_TIMES)) from None
    if len(text) <= 10:
        return day
    try:
        return dt.datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        raise Unreadable(f"{text[:40]!r} cannot be read as a time; {WRITE_TIMES}") from None


def placed(moment: dt.datetime | dt.date, exchange: str, time: dt.time) -> dt.datetime:
    """Return a stated moment, timezone-aware: without a zone it is that of an exchange, and a day alone stands for this
    time of it there."""
    if not isinstance(moment, dt.datetime):
        moment = dt.datetime.combine(moment, time)
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone_of(exchange))


class Column(NamedTuple):
    """A column of a kind of file."""

    names: Sequence[str]  # in files, the preferred first, in plain small letters and digits
    parse: Callable[[str], Any] = text_of  # of one cell's text, raises Unreadable
    required: bool = False  # a file without the column is an error
    kind: Kind = "text"  # cells of another kind reach `parse` in plain form, as the whole file shows that it writes


Columns = Mapping[str, Column]  # by our names


class Row(NamedTuple):
    """A row's place in its file, its values by our names, and the names in the file of our columns."""

    row: int
    values: dict[str, Any]
    written: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a table."""

    file: str
    cells: Mapping[str, Cells]  # by our names; texts of a CSV file, arrays of a Parquet file
    rows: npt.NDArray[np.int64]  # of each line
    written: Mapping[str, str]  # the columns' names in the file
    delimiter: str = ""  # between the cells of a text file
    source: str = ""  # whose export it is, by its headings
    unread: tuple[str, ...] = ()  # headings of columns that are not ours

    def __len__(self) -> int:
        return len(self.rows)

    def text(self, column: str, at: int) -> str:
        """Return a cell as text: a whole number without a point, an empty text where the table lacks the column."""
        cell = self.cells[column][at] if column in self.cells else ""
        return cell if isinstance(cell, str) else f"{cell:.0f}" if float(cell).is_integer() else str(cell)

    def texts(self, column: str) -> Sequence[str]:
        cells = self.cells.get(column)
        if cells is None:
            return [""] * len(self)
        return [self.text(column, at) for at in range(len(self))] if isinstance(cells, np.ndarray) else cells

    def has(self, lacking: Iterable[str], problems: Problems) -> bool:
        if not (names := list(lacking)):
            return True
        known = ", ".join(self.written.values()) or "none that is known"
        problems.error(self.file, f"has no column {', no column '.join(names)}; its columns are {known}", 1)
        return False

    def unreadable(self, error: Unreadable, at: int, column: str, problems: Problems) -> None:
        problems.error(self.file, str(error), int(self.rows[at]), self.written[error.column or column])


def rows_of(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Row]:
    """Yield each row of a file; one with a cell that cannot be read is an error in `problems`, and left out."""
    for part in parts_of(path, name, columns, problems):
        needed = [ours for ours, column in columns.items() if column.required]
        if not part.has((ours for ours in needed if ours not in part.cells), problems):
            return
        for at in range(len(part)):
            values = {}
            for ours, column in columns.items():
                try:
                    values[ours] = column.parse(part.text(ours, at).strip())
                except Unreadable as error:
                    part.unreadable(error, at, ours, problems)
            if len(values) == len(columns):
                yield Row(int(part.rows[at]), values, part.written)


class Parsed:
    """Reader of the same columns of many parts, which parses each text once. parse: of the columns' texts."""

    def __init__(self, parse: Callable[..., int], problems: Problems) -> None:
        self._parse, self._problems = parse, problems
        self._known: dict[tuple[str, ...], int] = {}
        self._unreadable: dict[tuple[str, ...], Unreadable] = {}

    def read(self, part: Part, *columns: str) -> npt.NDArray[np.int64]:
        """Return a number for each row, -1 if the value is invalid, which is now a problem."""
        rows = list(zip(*(part.texts(column) for column in columns), strict=True))
        for texts in dict.fromkeys(rows):
            if texts not in self._known:
                try:
                    self._known[texts] = self._parse(*(text.strip() for text in texts))
                except Unreadable as error:
                    self._known[texts], self._unreadable[texts] = UNREAD, error
        found = np.fromiter(map(self._known.__getitem__, rows), np.int64, len(rows))
        for at in np.flatnonzero(found == UNREAD).tolist():
            part.unreadable(self._unreadable[rows[at]], at, columns[0], self._problems)
        return found


def numbers(part: Part, column: str, problems: Problems) -> npt.NDArray[np.float64]:
    """Return a column as numbers, not a number for an empty cell and for a column that the table does not have,
    infinite for a cell that is a problem now."""
    cells = part.cells.get(column)
    if cells is None:
        return np.full(len(part), np.nan)
    try:
        found = np.array(cells if isinstance(cells, np.ndarray) else list(map(float, cells)), dtype=np.float64)
        if not np.isinf(found).any() and (isinstance(cells, np.ndarray) or not _ODD.search("".join(cells))):
            return found
    except ValueError:
        found = np.empty(len(part))
    for at, cell in enumerate(cells):
        try:
            number = number_of(str(cell))
            found[at] = np.nan if number is None else number
        except Unreadable as error:
            part.unreadable(error, at, column, problems)
            found[at] = np.inf
    return found


# A row of a dividend or split among the prices, as Yahoo's page has them.
_EVENT = re.compile(r"^[\d.,:/ $]+\s*(?:dividend|capital gain|(?:stock )?splits?)", re.IGNORECASE)


def _csv_parts(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    csv.field_size_limit(MOST_CELL)
    try:
        if (why := no_text(path)) is not None:
            problems.error(name, why)
            return
        encoding, doubt = encoding_of(path, name)
        if doubt is not None:
            problems.warn(name, doubt)
        form = form_of(first_lines(path, encoding), encoding, _headings(columns), path.stem)
        if form is None:
            problems.error(name, "is empty")
            return
        if form.wide is not None and form.wide.note:
            problems.warn(name, form.wide.note, form.skipped + 1)
        with path.open(encoding=form.encoding, newline="") as file:
            header, rows = csv_lines(file, form)
            require(f"the header of {name}", len(header), MOST_FIELDS, "cells")
            if (places := _places(header, columns, name, problems)) is None:
                return
            yield from _parts_of_lines(
                name, header, places, _whole(rows, len(header), form, name, problems), form, columns, problems
            )
    except (UnicodeDecodeError, UnicodeError):
        problems.error(name, "is no text in UTF-8, UTF-16 or Windows-1252; save it as CSV UTF-8")
    except csv.Error as error:
        problems.error(name, f"is no CSV: {error}")


def _headings(columns: Columns) -> set[str]:
    return {each for column in columns.values() for each in column.names if each}


class _Places(NamedTuple):
    """Where our columns stand in a header. again: further columns with the same heading. unread: other headings."""

    of: dict[str, int]
    again: dict[str, list[int]]
    unread: tuple[str, ...]


def _places(header: Sequence[str], columns: Columns, name: str, problems: Problems) -> _Places | None:
    """Return the place of each of our columns in the header; None, with an error, for prices in another currency."""
    written = meant([plain(column) for column in header])
    found, again = dict[str, int](), dict[str, list[int]]()
    for ours, column in columns.items():
        place = next((written.index(each) for each in column.names if each in written), None)
        if place is None or place in found.values():
            continue
        found[ours] = place
        if written[place] and (others := [at for at, one in enumerate(written) if one == written[place]][1:]):
            again[ours] = others
        unit = unit_of(header[place]) if column.kind == "number" else None
        if (
            unit is not None
            and (abroad := foreign(header[place].strip(), currency=unit.replace("€", "EUR"))) is not None
        ):
            problems.error(name, f"{abroad}; {_STATE_IT}", 1, header[place].strip())
            return None
    used = {*found.values(), *(at for others in again.values() for at in others)}
    unread = tuple(cell.strip() for at, cell in enumerate(header) if at not in used and cell.strip())
    return _Places(found, again, unread)


def _parts_of_lines(
    name: str,
    header: Sequence[str],
    places: _Places,
    wholes: Iterable[tuple[list[list[str]], npt.NDArray[np.int64]]],
    form: Form,
    columns: Columns,
    problems: Problems,
) -> Iterator[Part]:
    """Yield the parts of a text file. Two columns of one heading count as one where they are alike in every row."""
    written = {ours: header[at].strip() for ours, at in places.of.items()}
    known = source_of([plain(cell) for cell in header])
    stated = {ours: text for ours, text in form.stated.items() if ours in columns and ours not in places.of}
    for whole, at in wholes:
        columns_of = list(zip(*whole, strict=True)) if whole else [()] * len(header)
        for ours, others in places.again.items():
            for other in others:
                if (differs := _difference(columns_of[places.of[ours]], columns_of[other])) is not None:
                    first, second = (columns_of[one][differs] for one in (places.of[ours], other))
                    shown = f"has two columns {written[ours]} that differ, {first[:40]!r} and {second[:40]!r}"
                    problems.error(name, f"{shown}; keep one of them", int(at[differs]), written[ours])
                    return
        cells: dict[str, Cells] = {ours: columns_of[place] for ours, place in places.of.items()}
        cells |= {ours: [text] * len(at) for ours, text in stated.items()}
        all_written = written | dict.fromkeys(stated, "above the header")
        source = known.name if known is not None else ""
        part = Part(name, cells, at, all_written, form.delimiter, source, places.unread)
        yield _without_events(part, columns, problems)


def _difference(first: Sequence[str], second: Sequence[str]) -> int | None:
    if first == second:
        return None
    return next(at for at, pair in enumerate(zip(first, second, strict=True)) if pair[0] != pair[1])


def _whole(
    rows: Iterator[tuple[int, list[str]]], width: int, form: Form, name: str, problems: Problems
) -> Iterator[tuple[list[list[str]], npt.NDArray[np.int64]]]:
    """Yield (rows with a cell for each column, the line that each ends on), one part at least. Empty cells beyond the
    header are cut; words alone below the last row are a note, and no error."""
    part, odd, last = 0, list[tuple[int, list[str]]](), 0
    while True:
        some = list(islice(rows, PART))
        if not some and part:
            break
        kept = some
        if not all(len(row) == width for _, row in some):
            kept = []
            for line, row in some:
                if len(row) > width and not any(cell.strip() for cell in row[width:]):
                    row = row[:width]
                if len(row) == width:
                    kept.append((line, row))
                elif any(cell.strip() for cell in row):
                    odd.append((line, row))
        last = kept[-1][0] if kept else last
        yield [row for _, row in kept], np.array([line for line, _ in kept], dtype=np.int64)
        part += 1
        if len(some) < PART:
            break
    for line, row in odd:
        text = " ".join(row).strip()
        if any(_EVENT.match(cell.strip()) for cell in row):
            problems.warn(name, f"{text[:60]!r} is a dividend or split, and no bar", line)
        elif line > last and len(row) < 3 and text[:1].isalpha():
            problems.warn(name, f"{text[:60]!r} below the table is not read", line)
        else:
            why = (
                "; decimal commas need another delimiter or quotes"
                if len(row) > width and form.delimiter == ","
                else ""
            )
            problems.error(name, f"has {len(row)} cells, and the header {width}{why}", line)


def _without_events(part: Part, columns: Columns, problems: Problems) -> Part:
    """Return a part without the rows of dividends and splits among its prices, each of which is a warning."""
    drop = np.zeros(len(part), dtype=bool)
    for ours, column in columns.items():
        cells = part.cells.get(ours, ())
        if column.kind != "number" or isinstance(cells, np.ndarray):
            continue
        joined = "\n".join(cells).lower()
        if "dividend" not in joined and "split" not in joined and "gain" not in joined:
            continue
        for at, cell in enumerate(cells):
            if not drop[at] and _EVENT.match(cell.strip()):
                drop[at] = True
                message = f"{cell.strip()[:60]!r} is a dividend or split, and no bar"
                problems.warn(part.file, message, int(part.rows[at]))
    if not drop.any():
        return part
    kept = np.flatnonzero(~drop).tolist()
    return replace(
        part, cells={ours: [cells[at] for at in kept] for ours, cells in part.cells.items()}, rows=part.rows[kept]
    )


def _batches(rows: Iterator[T]) -> Iterator[list[T]]:
    yield (some := list(islice(rows, PART)))
    while len(some) == PART:
        if some := list(islice(rows, PART)):
            yield some


def _json_parts(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    with path.open("rb") as file:
        for some in _batches(_objects(lines(name, file), name, problems)):
            named = [_named(found, columns) for _, found in some]
            names = dict.fromkeys(key for line in named for key in line)
            cells = {column: [line.get(column, "") for line in named] for column in names}
            if some:
                yield Part(name, cells, np.array([row for row, _ in some]), {column: column for column in names})


def _objects(file: Iterable[bytes], name: str, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    for row, text in enumerate(file, 1):
        if not text.strip():
            continue
        try:
            found = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
        except orjson.JSONDecodeError as error:
            problems.error(name, f"is no JSON: {error.msg}", row)
            continue
        if isinstance(found, dict):
            require(f"row {row} of {name}", len(found), MOST_FIELDS, "fields")
            yield row, found
        else:
            problems.error(name, f"has a {type(found).__name__} where an object is wanted", row)


def _named(found: Mapping[str, Any], columns: Columns) -> dict[str, str]:
    """Return the values under our names; of several that mean the same, the preferred."""
    written = {plain(key): "" if value is None else str(value) for key, value in found.items()}
    places = {ours: next((each for each in one.names if each in written), None) for ours, one in columns.items()}
    return {ours: written[place] for ours, place in places.items() if place is not None}


_HEADER = 1  # rows are counted as in a text file, where the header is the first


def load_pyarrow() -> Any:
    """Return the module pyarrow.parquet. Raises NotConfigured where it is not installed."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        reason = "a Parquet file with `pip install 'chordesk[parquet]'` (pyarrow is not installed), or write CSV"
        raise NotConfigured(f"not available: configure {reason}") from None


def _parquet_parts(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    parquet = load_pyarrow()
    arrow = importlib.import_module("pyarrow")
    try:
        file = parquet.ParquetFile(path)
        require(name, file.metadata.num_columns, MOST_FIELDS, "columns")
        require(name, file.metadata.num_rows, MOST_ROWS, "rows")
        sizes = [file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups)]
        require(name, sum(sizes), MOST_BYTES)
        header = [str(column) for column in file.schema_arrow.names]
        if (wide := flat_header(header)) is not None:
            yield from _parquet_names(arrow, file, name, wide, columns)
            return
        if (places := _places(header, columns, name, problems)) is None:
            return
        if places.again:
            again = ", ".join(header[places.of[ours]] for ours in places.again)
            problems.error(name, f"has two columns {again}; keep one of them", 1)
            return
        written = {ours: header[at] for ours, at in places.of.items()}
        before = 0
        for batch in file.iter_batches(batch_size=PART, columns=list(written.values())):
            cells = {
                ours: _cells(arrow, batch.column(batch.schema.get_field_index(theirs)), columns[ours].kind)
                for ours, theirs in written.items()
            }
            rows = np.arange(before, before + batch.num_rows) + _HEADER + 1
            yield Part(name, cells, rows, written, unread=places.unread)
            before += batch.num_rows
        if not before:
            yield Part(name, {ours: [] for ours in places.of}, np.empty(0, dtype=np.int64), written)
    except (arrow.ArrowException, OSError) as error:
        problems.error(name, f"cannot be read as Parquet: {str(error).splitlines()[0][:200]}")


def _parquet_names(arrow: Any, file: Any, name: str, wide: Wide, columns: Columns) -> Iterator[Part]:
    """Yield the parts of a table with a column of each price of each ticker, one of each ticker's rows with a price."""
    prices = [price for price in dict.fromkeys(wide.prices) if PRICES.fullmatch(price)]
    header = [plain(one) for one in wide.header(prices)]
    ours = {one: next((our for our, column in columns.items() if one in column.names), None) for one in header}
    places, before = wide.places(prices), 0
    for batch in file.iter_batches(batch_size=PART):
        rows = np.arange(before, before + batch.num_rows) + _HEADER + 1
        for ticker, of_ticker in places.items():
            there = {
                at: heading for at, heading in zip([0, *of_ticker], header, strict=False) if at or heading == "date"
            }
            cells = {
                our: _cells(arrow, batch.column(at), columns[our].kind)
                for at, heading in there.items()
                if (our := ours[heading]) is not None
            }
            if (symbol := ours[header[-1]]) is not None:
                cells[symbol] = [ticker] * batch.num_rows
            yield Part(name, cells, rows, {our: our for our in cells})
        before += batch.num_rows


def _cells(arrow: Any, column: Any, kind: Kind) -> Cells:
    """Return a column as numbers where it has numbers, else as texts, and so days that are counted; missing ones are
    not a number, or empty."""
    types = arrow.types
    if kind in DAYS and types.is_integer(column.type):
        return ["" if each is None else str(each) for each in column.to_pylist()]
    if types.is_floating(column.type) or types.is_integer(column.type) or types.is_decimal(column.type):
        found: Cells = column.cast(arrow.float64()).to_numpy(zero_copy_only=False)
        return found
    if types.is_timestamp(column.type) and column.type.unit == "ns":  # what is below a microsecond is lost
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    return ["" if each is None else str(each) for each in column.to_pylist()]


_PARTS = {PARQUET: _parquet_parts, JSON_LINES: _json_parts}


_STATE_IT = "name the column without a currency, and state it in listings.csv"
# What a table may say of the market of its rows; where it says nothing it is as `listings.csv` and their symbols say.
_LISTED: Columns = {
    "stated_currency": Column(CURRENCY),
    "stated_exchange": Column(("exchange", "mic", "exchangecode", "primaryexchange", "stockexchange")),
}


def _at_home(part: Part, problems: Problems) -> Part:
    """Return the part without the columns that name its market, and without the rows of another currency or exchange
    than their symbol's, each of which is a problem: `listings.csv` states the unit of prices, once a symbol."""
    if not part.cells.keys() & _LISTED.keys():
        return part
    stated = (part.texts(column) for column in ("symbol", "stated_currency", "stated_exchange"))
    listed = list(zip(*stated, strict=True))
    faults = {one: found for one in set(listed) if (found := _fault(*one)) is not None}
    home = np.array([one not in faults for one in listed], dtype=bool)
    for at in np.flatnonzero(~home).tolist():
        column, why = faults[listed[at]]
        part.unreadable(Unreadable(f"{why}; leave the column out, and state it in listings.csv"), at, column, problems)
    cells = {
        ours: each[home] if isinstance(each, np.ndarray) else list(compress(each, home))
        for ours, each in part.cells.items()
        if ours not in _LISTED
    }
    written = {ours: theirs for ours, theirs in part.written.items() if ours not in _LISTED}
    return replace(part, cells=cells, rows=part.rows[home], written=written)


def _fault(symbol: str, currency: str, exchange: str) -> tuple[str, str] | None:
    """Return (column, reason) where a row says another currency or exchange than its symbol does."""
    name, money, place = symbol.strip().upper(), text_of(currency), text_of(exchange)
    shown = name or "the row"
    if not name or foreign(name) is None:
        found = foreign(shown, currency=money, exchange=place)
        column = "stated_currency" if foreign("", currency=money) else "stated_exchange"
        return (column, found) if found is not None else None
    try:
        own = currency_of(name)
    except MarketError:
        return None  # the symbol itself is a problem
    if money is not None and (major_of(money) != (own, 1) or has_parts(own)):
        return "stated_currency", f"{shown} is priced in {money[:12]}"
    why = untraded(name, exchange=place)
    return ("stated_exchange", why) if why is not None else None


def columns_in(path: Path, kinds: Sequence[Columns]) -> list[set[str]]:
    """Return which columns of each kind of file a file has, by its beginning; none of a file that cannot be read.
    Raises Oversized."""
    try:
        if (read := _PARTS.get(path.suffix.lower())) is not None:
            firsts = (next(read(path, path.name, columns, Problems()), None) for columns in kinds)
            return [set(first.cells) if first is not None else set() for first in firsts]
        if no_text(path) is not None:
            return [set() for _ in kinds]
        csv.field_size_limit(MOST_CELL)
        encoding, _ = encoding_of(path, path.name)
        first = first_lines(path, encoding)
        return [_columns_of_text(path, first, encoding, columns) for columns in kinds]
    except (OSError, UnicodeError, csv.Error):
        return [set() for _ in kinds]


def _columns_of_text(path: Path, first: Sequence[str], encoding: str, columns: Columns) -> set[str]:
    if (form := form_of(first, encoding, _headings(columns), path.stem)) is None:
        return set()
    with path.open(encoding=encoding, newline="") as file:
        header = csv_lines(file, form).header
    require(f"the header of {path.name}", len(header), MOST_FIELDS, "cells")
    written = set(meant([plain(cell) for cell in header]))
    return {ours for ours, column in columns.items() if written.intersection(column.names)}


def parts_of(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    """Yield the table's parts, numbers and days in plain form. A table that cannot be read is an error in `problems`,
    and so is one whose numbers or days have two meanings or contradict each other. Raises NotConfigured for a Parquet
    file without the library.

    A file is read twice where it has more than one part, since its last row may decide how its first is read."""
    read = _PARTS.get(path.suffix.lower(), _csv_parts)
    kinds, columns = kinds_of(columns), {**columns, **_LISTED}
    try:
        survey, first, count, written = Survey(kinds), None, 0, dict[str, str]()
        for part in read(path, name, columns, problems):
            survey.delimiter = part.delimiter
            written |= part.written
            texts = {ours: cells for ours, cells in part.cells.items() if not isinstance(cells, np.ndarray)}
            survey.see(texts, part.rows.tolist())
            first, count = first or part, count + 1
        try:
            notation = survey.decided()
        except Ambiguous as error:
            problems.error(name, str(error), error.cell.row, written.get(error.cell.column))
            return
        for cell, note in notation.notes:
            problems.warn(name, note, cell.row, written.get(cell.column))
        parts = (
            [first]
            if count == 1 and first is not None
            else read(path, name, columns, Problems(most=0))
            if count
            else ()
        )
        for part in parts:
            plain_cells = {
                ours: cells if isinstance(cells, np.ndarray) else notation.plain(ours, kinds.get(ours, "text"), cells)
                for ours, cells in part.cells.items()
            }
            yield _at_home(replace(part, cells=plain_cells), problems)
    except OSError as error:
        problems.error(name, f"cannot be read: {error.strerror}")
    except Oversized as error:
        problems.error(name, str(error))
