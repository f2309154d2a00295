"""Tables of own files, from CSV, JSON lines or Parquet: their columns and cells, and their problems, each with its
place."""

from __future__ import annotations

import csv
import datetime as dt
import importlib
import math
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import orjson

from chordesk.models.errors import NotConfigured

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
Names = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a table. cells: by our names; texts of a CSV file, arrays of a Parquet file. rows: of each line.
    written: the columns' names in the file."""

    file: str
    cells: Mapping[str, Cells]
    rows: npt.NDArray[np.int64]
    written: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.rows)


def plain(column: str) -> str:
    """Return a column's name as it is compared: small letters and digits alone."""
    return _BETWEEN.sub("", column.lower())


def doubled(header: Sequence[str], names: Names) -> list[str]:
    """Return the columns that are there more than once: by the same name, or, of those that we use, in another form of
    letters."""
    used = {each for theirs in names.values() for each in theirs}
    counted = Counter(plain(column) if plain(column) in used else column.strip() for column in header)
    return sorted({column.strip() for column in header if column.strip() and _again(column, used, counted)})


def _again(column: str, used: Container[str], counted: Mapping[str, int]) -> bool:
    return counted[plain(column) if plain(column) in used else column.strip()] > 1


def matched(header: Sequence[str], names: Names) -> dict[str, int]:
    """Return the place of each of our columns that the header has."""
    places: dict[str, int] = {}
    written = [plain(column) for column in header]
    for ours, theirs in names.items():
        place = next((written.index(each) for each in theirs if each in written), None)
        if place is not None and place not in places.values():
            places[ours] = place
    return places


# Cells of own files as figures: numbers, days, moments. A cell that cannot be read is None or not a number here, and a
# problem where it stands.

EMPTY = frozenset({"", "null", "none", "nan", "n/a", "na", "-"})
_DAY = re.compile(r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?:[T ]+(.*))?")
_PLAIN_DAY = re.compile(r"(\d{4})(\d{2})(\d{2})")
_SERIAL = re.compile(r"\d{5}(\.\d+)?")
_SECONDS = re.compile(r"\d{9,13}(\.\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
_SERIAL_START = dt.date(1899, 12, 30)
# Beyond these years a day is a placeholder, and times near the calendar's ends cannot be brought to another zone.
_FIRST_YEAR, _LAST_YEAR = 1800, 2199
WRITE_DAYS = "write days as YYYY-MM-DD"


def is_empty(text: str) -> bool:
    return text.strip().lower() in EMPTY


def number_of(text: str) -> float | str:
    """Return the number that a cell states, not a number for an empty one; else why it cannot be read."""
    text = text.strip()
    if text.lower() in EMPTY:
        return math.nan
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    try:
        found = float(text)
    except ValueError:
        hint = "; write decimals with a point" if "," in text else ""
        return f"{text[:40]!r} is no number{hint}"
    return found if math.isfinite(found) else f"{text[:40]!r} is no finite number"


def day_of(text: str) -> dt.date | str:
    """Return the day that a cell names, whatever time of day it adds; else why it cannot be read."""
    text = text.strip()
    found = _DAY.fullmatch(text) or _PLAIN_DAY.fullmatch(text)
    if found is not None:
        try:
            day = dt.date(int(found[1]), int(found[2]), int(found[3]))
        except ValueError:
            return f"{text[:40]!r} is no day of the calendar"
        if not _FIRST_YEAR <= day.year <= _LAST_YEAR:
            return f"{text[:40]!r} is no day of {_FIRST_YEAR} to {_LAST_YEAR}; leave out a row without a day"
        return day
    if _SERIAL.fullmatch(text):
        day = _SERIAL_START + dt.timedelta(days=int(float(text)))
        return f"{text} is a spreadsheet's day number (perhaps {day}); {WRITE_DAYS}"
    if _SECONDS.fullmatch(text):
        return f"{text} counts seconds or milliseconds; {WRITE_DAYS}"
    if is_empty(text):
        return f"no day; {WRITE_DAYS}"
    return f"{text[:40]!r} cannot be read as a day; {WRITE_DAYS}"


def moment_of(text: str, zone: ZoneInfo | None = None) -> dt.datetime | dt.date | str:
    """Return the moment that a cell names, timezone-aware, or the day alone where it names no time; else why it cannot
    be read. zone: of a time that names none; None refuses such a time."""
    text = text.strip()
    day = day_of(text)
    if isinstance(day, str):
        return day.replace(WRITE_DAYS, "write times as YYYY-MM-DD HH:MM:SS-04:00")
    if len(text) <= 10:
        return day
    try:
        moment = dt.datetime.fromisoformat(text.replace("/", "-"))
    except ValueError:
        return f"{text[:40]!r} cannot be read as a time; write it as YYYY-MM-DD HH:MM:SS-04:00"
    if moment.tzinfo is not None:
        return moment
    if zone is None:
        return f"{text[:40]!r} has no zone; write it as {text[:19]}-04:00, or Z for UTC"
    return moment.replace(tzinfo=zone)


_DELIMITERS = ",;\t|"
_LONGEST_CELL = 1 << 20


def csv_parts(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the parts of a CSV file."""
    csv.field_size_limit(_LONGEST_CELL)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            if not first.strip():
                problems.error(name, "is empty")
                return
            file.seek(0)
            delimiter = max(_DELIMITERS, key=first.count)
            reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
            yield from _parts_of_rows(reader, next(reader), name, names, problems)
    except OSError as error:
        problems.error(name, f"cannot be read: {error.strerror}")
    except UnicodeDecodeError:
        problems.error(name, "is no UTF-8 text; save it as CSV UTF-8")
    except csv.Error as error:
        problems.error(name, f"is no CSV: {error}")


def _parts_of_rows(
    reader: Iterator[list[str]], header: list[str], name: str, names: Names, problems: Problems
) -> Iterator[Part]:
    places = matched(header, names)
    written = {ours: header[at] for ours, at in places.items()}
    if again := doubled(header, names):
        problems.error(name, f"has more than one column named {', '.join(again)}", 1)
        return
    cells: list[list[str]] = []
    rows: list[int] = []
    for row in reader:
        if not row:
            continue
        line = int(reader.line_num)  # type: ignore[attr-defined]
        if len(row) != len(header):
            problems.error(name, f"has {len(row)} cells, and the header {len(header)}", line)
            continue
        cells.append(row)
        rows.append(line)
        if len(rows) == PART:
            yield _csv_part(name, cells, rows, places, written)
            cells, rows = [], []
    yield _csv_part(name, cells, rows, places, written)


def _csv_part(
    name: str, cells: list[list[str]], rows: list[int], places: Mapping[str, int], written: Mapping[str, str]
) -> Part:
    columns = {ours: [row[at] for row in cells] for ours, at in places.items()}
    return Part(name, columns, np.array(rows, dtype=np.int64), written)


def json_parts(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the parts of a file of JSON lines. A line that is no object is an error in `problems`."""
    lines: list[dict[str, str]] = []
    rows: list[int] = []
    try:
        with path.open("rb") as file:
            for row, text in enumerate(file, 1):
                if not text.strip():
                    continue
                found = _object(text, name, row, problems)
                if found is not None:
                    lines.append(_named(found, names))
                    rows.append(row)
                if len(rows) == PART:
                    yield _json_part(name, lines, rows)
                    lines, rows = [], []
    except OSError as error:
        problems.error(name, f"cannot be read: {error.strerror}")
        return
    yield _json_part(name, lines, rows)


def _object(text: bytes, name: str, row: int, problems: Problems) -> dict[str, Any] | None:
    try:
        found = orjson.loads(text.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError as error:
        problems.error(name, f"is no JSON: {error.msg}", row)
        return None
    if not isinstance(found, dict):
        problems.error(name, f"has a {type(found).__name__} where an object is wanted", row)
        return None
    return found


def _named(found: Mapping[str, Any], names: Names) -> dict[str, str]:
    """Return the values under our names; of several that mean the same, the preferred."""
    written = {plain(key): value for key, value in found.items()}
    places = {ours: next((each for each in theirs if each in written), None) for ours, theirs in names.items()}
    return {ours: _text(written[place]) for ours, place in places.items() if place is not None}


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else str(value)


def _json_part(name: str, lines: list[dict[str, str]], rows: list[int]) -> Part:
    columns = dict.fromkeys(key for line in lines for key in line)
    cells = {column: [line.get(column, "") for line in lines] for column in columns}
    return Part(name, cells, np.array(rows, dtype=np.int64), {column: column for column in columns})


_HEADER = 1  # rows are counted as in a text file, where the header is the first


def load_pyarrow() -> Any:
    """Return the module pyarrow.parquet. Raises NotConfigured where it is not installed."""
    try:
        return importlib.import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        reason = "a Parquet file with `pip install 'chordesk[parquet]'` (pyarrow is not installed), or write CSV"
        raise NotConfigured(f"not available: configure {reason}") from None


def parquet_parts(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the parts of a Parquet file. Raises NotConfigured where pyarrow is not installed."""
    parquet = load_pyarrow()
    arrow = importlib.import_module("pyarrow")
    try:
        file = parquet.ParquetFile(path)
        header = [str(column) for column in file.schema_arrow.names]
        if again := doubled(header, names):
            problems.error(name, f"has more than one column named {', '.join(again)}", 1)
            return
        places = matched(header, names)
        written = {ours: header[at] for ours, at in places.items()}
        before = 0
        for batch in file.iter_batches(batch_size=PART, columns=list(written.values())):
            cells = {
                ours: _cells(arrow, batch.column(batch.schema.get_field_index(name))) for ours, name in written.items()
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
    if types.is_timestamp(column.type) or types.is_date(column.type):
        return ["" if each is None else each.isoformat(" ") if hasattr(each, "hour") else each.isoformat()
                for each in _times(column)]  # fmt: skip
    return ["" if each is None else str(each) for each in column.to_pylist()]


def _times(column: Any) -> list[Any]:
    """Return days and times; a time of nanoseconds loses what is below a microsecond."""
    nanos = getattr(column.type, "unit", None) == "ns"
    if not nanos:
        return list(column.to_pylist())
    arrow = importlib.import_module("pyarrow")
    return list(column.cast(arrow.timestamp("us", column.type.tz), safe=False).to_pylist())


_PARTS = {PARQUET: parquet_parts, JSON_LINES: json_parts}


def parts_of(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the table's parts. names: our names, each with the names in files, the preferred first, in plain small
    letters and digits. A table that cannot be read is an error in `problems`. Raises NotConfigured for a Parquet file
    without the library."""
    parts = _PARTS.get(path.suffix.lower(), csv_parts)
    yield from parts(path, name, names, problems)
