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
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import orjson

from chordesk.models.errors import NotConfigured
from chordesk.tools.market.home import HOME_REMEDY, foreign
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
_BETWEEN = re.compile(r"[^a-z0-9]+")

Cells = Sequence[str] | npt.NDArray[np.generic]


class Unreadable(ValueError):
    """A cell that cannot be read, with the reason. column: our name of the column, where a value is made of several."""

    def __init__(self, reason: str, column: str | None = None) -> None:
        super().__init__(reason)
        self.column = column


def plain(column: str) -> str:
    """Return a column's name as it is compared: small letters and digits alone."""
    return _BETWEEN.sub("", column.lower())


EMPTY = frozenset({"", "null", "none", "nan", "n/a", "na", "-"})
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
    return None if is_empty(text) else text.strip()


def symbol_of(text: str) -> str:
    symbol = text.strip().upper()
    if (abroad := foreign(symbol)) is not None:
        raise Unreadable(f"{abroad}; {HOME_REMEDY}")
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
    text = text.strip()
    try:
        day = day_of(text)
    except Unreadable as error:
        raise Unreadable(str(error).replace(WRITE_DAYS, WRITE_TIMES)) from None
    if len(text) <= 10:
        return day
    try:
        moment = dt.datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        raise Unreadable(f"{text[:40]!r} cannot be read as a time; {WRITE_TIMES}") from None
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        raise Unreadable(f"{text[:40]!r} has no zone; write it as {text[:19]}-04:00, or Z for UTC")
    return moment.replace(tzinfo=zone)


class Column(NamedTuple):
    """A column of a kind of file."""

    names: Sequence[str]  # in files, the preferred first, in plain small letters and digits
    parse: Callable[[str], Any] = text_of  # of one cell's text, raises Unreadable
    required: bool = False  # a file without the column is an error


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


_DELIMITERS = ",;\t|"
_LONGEST_CELL = 1 << 20


def _csv_parts(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            if not first.strip():
                problems.error(name, "is empty")
                return
            file.seek(0)
            reader = csv.reader(file, delimiter=max(_DELIMITERS, key=first.count), skipinitialspace=True)
            header = next(reader)
            if (places := _places(header, columns, name, problems)) is None:
                return
            written = {ours: header[at] for ours, at in places.items()}
            for rows, lines in _whole(reader, len(header), name, problems):
                columns_of = list(zip(*rows, strict=True)) if rows else [()] * len(header)
                cells = {ours: columns_of[at] for ours, at in places.items()}
                yield Part(name, cells, lines, written)
    except UnicodeDecodeError:
        problems.error(name, "is no UTF-8 text; save it as CSV UTF-8")
    except csv.Error as error:
        problems.error(name, f"is no CSV: {error}")


def _places(header: Sequence[str], columns: Columns, name: str, problems: Problems) -> dict[str, int] | None:
    """The place of each of our columns in the header; None, with an error, for a column that is there twice."""
    used = {each for column in columns.values() for each in column.names}
    written = [plain(column) for column in header]
    forms = [form if form in used else column.strip() for form, column in zip(written, header, strict=True)]
    again = {
        column.strip() for form, column in zip(forms, header, strict=True) if column.strip() and forms.count(form) > 1
    }
    if again:
        problems.error(name, f"has more than one column named {', '.join(sorted(again))}", 1)
        return None
    places: dict[str, int] = {}
    for ours, column in columns.items():
        place = next((written.index(each) for each in column.names if each in written), None)
        if place is not None and place not in places.values():
            places[ours] = place
    return places


def _whole(
    reader: Any, width: int, name: str, problems: Problems
) -> Iterator[tuple[list[list[str]], npt.NDArray[np.int64]]]:
    """Yield (rows with a cell for each column, the line that each ends on), one part at least."""
    part, rows = 0, list[list[str]]()
    while part == 0 or len(rows) == PART:
        before = reader.line_num
        rows = list(islice(reader, PART))
        if rows or not part:
            lines = np.arange(before + 1, before + len(rows) + 1)
            if reader.line_num - before != len(rows):  # some cells have several lines
                lines = before + np.cumsum([1 + sum(cell.count("\n") for cell in row) for row in rows], dtype=np.int64)
            whole = [len(row) == width for row in rows]
            for at in [] if all(whole) else np.flatnonzero(~np.array(whole)).tolist():
                if rows[at]:
                    problems.error(name, f"has {len(rows[at])} cells, and the header {width}", int(lines[at]))
            yield list(compress(rows, whole)), lines[np.array(whole, dtype=bool)]
        part += 1


def _batches(rows: Iterator[T]) -> Iterator[list[T]]:
    yield (some := list(islice(rows, PART)))
    while len(some) == PART:
        if some := list(islice(rows, PART)):
            yield some


def _json_parts(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    with path.open("rb") as file:
        for some in _batches(_objects(file, name, problems)):
            lines = [_named(found, columns) for _, found in some]
            names = dict.fromkeys(key for line in lines for key in line)
            cells = {column: [line.get(column, "") for line in lines] for column in names}
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
        header = [str(column) for column in file.schema_arrow.names]
        if (places := _places(header, columns, name, problems)) is None:
            return
        written = {ours: header[at] for ours, at in places.items()}
        before = 0
        for batch in file.iter_batches(batch_size=PART, columns=list(written.values())):
            cells = {
                ours: _cells(arrow, batch.column(batch.schema.get_field_index(theirs)))
                for ours, theirs in written.items()
            }
            yield Part(name, cells, np.arange(before, before + batch.num_rows) + _HEADER + 1, written)
            before += batch.num_rows
        if not before:
            yield Part(name, {ours: [] for ours in places}, np.empty(0, dtype=np.int64), written)
    except (arrow.ArrowException, OSError) as error:
        problems.error(name, f"cannot be read as Parquet: {str(error).splitlines()[0][:200]}")


def _cells(arrow: Any, column: Any) -> Cells:
    """Return a column as numbers where it has numbers, else as texts; missing ones are not a number, or empty."""
    types = arrow.types
    if types.is_floating(column.type) or types.is_integer(column.type) or types.is_decimal(column.type):
        found: Cells = column.cast(arrow.float64()).to_numpy(zero_copy_only=False)
        return found
    if types.is_timestamp(column.type) and column.type.unit == "ns":  # what is below a microsecond is lost
        column = column.cast(arrow.timestamp("us", column.type.tz), safe=False)
    return ["" if each is None else str(each) for each in column.to_pylist()]


_PARTS = {PARQUET: _parquet_parts, JSON_LINES: _json_parts}


# What a table may say of the market of its rows; where it says nothing they are US dollars in New York.
_LISTED: Columns = {
    "stated_currency": Column(("currency", "ccy", "currencycode")),
    "stated_exchange": Column(("exchange", "mic", "exchangecode", "primaryexchange", "stockexchange")),
}


def _at_home(part: Part, problems: Problems) -> Part:
    """Return the part without the columns that name its market, and without the rows of another currency or exchange,
    each of which is a problem."""
    if not part.cells.keys() & _LISTED.keys():
        return part
    symbols = part.texts("symbol")
    listed = list(zip(part.texts("stated_currency"), part.texts("stated_exchange"), strict=True))
    abroad = {one for one in set(listed) if foreign("", currency=text_of(one[0]), exchange=text_of(one[1]))}
    home = np.array([one not in abroad for one in listed], dtype=bool)
    for at in np.flatnonzero(~home).tolist():
        name, (currency, exchange) = symbols[at].strip().upper() or "the row", listed[at]
        column = "stated_currency" if foreign("", currency=text_of(currency)) else "stated_exchange"
        found = foreign(name, currency=text_of(currency), exchange=text_of(exchange))
        part.unreadable(Unreadable(f"{found}; {HOME_REMEDY}"), at, column, problems)
    cells = {
        ours: each[home] if isinstance(each, np.ndarray) else list(compress(each, home))
        for ours, each in part.cells.items()
        if ours not in _LISTED
    }
    written = {ours: theirs for ours, theirs in part.written.items() if ours not in _LISTED}
    return Part(part.file, cells, part.rows[home], written)


def parts_of(path: Path, name: str, columns: Columns, problems: Problems) -> Iterator[Part]:
    """Yield the table's parts. A table that cannot be read is an error in `problems`. Raises NotConfigured for a
    Parquet file without the library."""
    try:
        for part in _PARTS.get(path.suffix.lower(), _csv_parts)(path, name, {**columns, **_LISTED}, problems):
            yield _at_home(part, problems)
    except OSError as error:
        problems.error(name, f"cannot be read: {error.strerror}")
