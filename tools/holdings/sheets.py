"""A text file of holdings as rows of cells, and the tables in it: a header that a format knows, with the rows below it
in plain form (decimal points, days as YYYY-MM-DD)."""

from __future__ import annotations

import csv
import datetime as dt
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal, NamedTuple

from chordesk.models.errors import UsageError
from chordesk.models.outside import Oversized, require
from chordesk.models.text import one_line
from chordesk.tools.market.files.known_exports import plain, unit_of
from chordesk.tools.market.files.layout import Form, csv_lines, encoding_of, no_text
from chordesk.tools.market.files.notation import (
    DAYS,
    EMPTY,
    NUMBERS,
    Ambiguous,
    Kind,
    Notation,
    Survey,
    bare,
    money_of,
    plain_day,
    plain_number,
)
from chordesk.tools.market.files.tables import NUMBER, Problems

DELIMITERS = (",", ";", "\t", "|")
MOST_BYTES = 64 << 20
MOST_ROWS = 200_000
MOST_CELLS = 4_096  # of a row
MOST_CELL = 1 << 16  # characters
MOST_MONEY = Decimal("1e12")  # of a price or a value: no person's account has more
Mark = Literal[".", ","]
DayOrder = Literal["dmy", "mdy", "ymd"]

_OF_THE_FORM = "write numbers as 1234.56, without formulas"


class Row(NamedTuple):
    line: int
    cells: list[str]

    @property
    def text(self) -> str:
        return " ".join(cell.strip() for cell in self.cells if cell.strip())

    def cell(self, at: int | None) -> str:
        return bare(self.cells[at]) if at is not None and at < len(self.cells) else ""


@dataclass(frozen=True, slots=True)
class Hints:
    """What the person who imports says of a file. without_total: it is taken though a total is missing."""

    decimal: Mark | None = None
    days: DayOrder | None = None
    as_of: dt.date | None = None
    without_total: bool = False
    today: dt.date = field(default_factory=dt.date.today)


@dataclass(slots=True)
class Sheet:
    """A text file as rows, by one delimiter. problems: what is wrong with it, each with its place."""

    name: str
    delimiter: str
    rows: list[Row]
    hints: Hints
    problems: Problems
    notes: list[str] = field(default_factory=list)
    is_open: bool = False  # its last row has no line end, as that of a file that was cut

    def error(self, row: Row | int, message: str, column: str | None = None) -> None:
        self.problems.error(self.name, message, row if isinstance(row, int) else row.line, column)

    def require_sound(self) -> None:
        """Raise UsageError with the first problem, if there is any."""
        if found := self.problems.of("error"):
            more = self.problems.errors - 1
            also = f" (and {more} more)" if more else ""
            raise UsageError(f"{found[0]}{also}", remedy="correct the row or export the file anew; nothing was written")


def text_rows(path: Path, name: str) -> tuple[list[str], str | None]:
    """Return (lines of a text file with their ends, a doubt about its letters). Raises UsageError."""
    try:
        if (why := no_text(path)) is not None:
            raise UsageError(f"{name} {why}", remedy="export the positions as CSV; nothing was written")
        require(name, path.stat().st_size, MOST_BYTES)
        encoding, doubt = encoding_of(path, name)
        with path.open(encoding=encoding, newline="") as file:
            text = file.read()
    except Oversized as error:
        raise UsageError(str(error), remedy="export the positions of one account alone") from None
    except UnicodeError:
        raise UsageError(f"{name} is no text in UTF-8, UTF-16 or Windows-1252", remedy="save it as CSV UTF-8") from None
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}", remedy="name a file that you may read") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"{name}, row {line}: has a zero byte, which no text has", remedy="export the file anew")
    return text.removeprefix("\ufeff").splitlines(keepends=True), doubt


def split(lines: Sequence[str], delimiter: str) -> list[Row]:
    """Return the rows of a text. Raises csv.Error for a quote that is not closed."""
    csv.field_size_limit(MOST_CELL)
    header, below = csv_lines(_File(lines), Form("utf-8", delimiter, 0))
    rows = [Row(1, header)] if header else []
    for line, cells in below:
        if any(cell.strip() for cell in cells):
            require("a row", len(cells), MOST_CELLS, "cells")
            rows.append(Row(line, cells))
            require("the file", len(rows), MOST_ROWS, "rows")
    return rows


class _File:
    """Lines as a file gives them."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)

    def __iter__(self) -> _File:
        return self

    def __next__(self) -> str:
        return next(self._lines)

    def readline(self) -> str:
        return next(self._lines, "")


class Column(NamedTuple):
    """names: headings, in plain small letters and digits, the preferred first."""

    names: tuple[str, ...]
    kind: Kind = "text"
    required: bool = False


Columns = Mapping[str, Column]


def columns(required: str, **named: str) -> dict[str, Column]:
    """Return columns by our names. Each is described as "heading other; kind", kind being text where it is left out."""
    needed = set(required.split())
    found = {}
    for ours, text in named.items():
        headings, _, kind = text.partition(";")
        found[ours] = Column(tuple(headings.split()), kind.strip() or "text", ours in needed)  # type: ignore[arg-type]
    return found


@dataclass(slots=True)
class Table:
    """A header and rows below it. places: of our columns. written: their headings."""

    sheet: Sheet
    columns: Columns
    header: Row
    places: dict[str, int]
    rows: list[Row] = field(default_factory=list)
    known: dict[int, dict[str, str]] = field(default_factory=dict)  # by line, cells in plain form

    def rivals(self) -> dict[str, list[int]]:
        """Return other places of a column of numbers, which a header names twice: quantity and shares."""
        named = {ours: one.names for ours, one in self.columns.items() if one.kind in NUMBERS and ours in self.places}
        headings = [plain(cell) for cell in self.header.cells]
        taken = set(self.places.values())
        found = {
            ours: [at for at, one in enumerate(headings) if one in names and at not in taken]
            for ours, names in named.items()
        }
        return {ours: places for ours, places in found.items() if places}

    def heading(self, ours: str) -> str:
        return self.header.cell(self.places.get(ours)) or ours

    def unit(self, ours: str) -> str | None:
        """The currency that a heading states."""
        return unit_of(self.heading(ours)) if ours in self.places else None

    def money(self, row: Row, ours: str) -> str | None:
        """The currency that a cell of numbers states with its figure, or the heading above it."""
        return money_of(self.raw(row, ours)) or self.unit(ours)

    def raw(self, row: Row, ours: str) -> str:
        return row.cell(self.places.get(ours))

    def text(self, row: Row, ours: str, most: int = 120) -> str:
        return one_line(self.raw(row, ours), most)

    def number(self, row: Row, ours: str, most: Decimal = MOST_MONEY) -> Decimal | None:
        """Return a cell as a number; None for an empty one, and for one that is a problem now."""
        text = self.known.get(row.line, {}).get(ours, "").strip()
        if not text or text.lower() in EMPTY:
            return None
        try:
            if NUMBER.fullmatch(text) is None:
                raise InvalidOperation
            found = Decimal(text)
        except InvalidOperation:
            self.sheet.error(row, f"{one_line(text, 40)!r} is no number; {_OF_THE_FORM}", self.heading(ours))
            return None
        if abs(found) >= most:
            self.sheet.error(row, f"{one_line(text, 40)} is too large to be meant", self.heading(ours))
            return None
        return found

    def day(self, row: Row, ours: str) -> dt.date | None:
        text = self.known.get(row.line, {}).get(ours, "").strip()
        if not text or text.lower() in EMPTY:
            return None
        try:
            return dt.date.fromisoformat(text[:10])
        except ValueError:
            self.sheet.error(row, f"{one_line(text, 40)!r} is no day; write YYYY-MM-DD", self.heading(ours))
            return None

    def whole(self, row: Row) -> bool:
        """Whether a row has a cell for each heading; one that has not is a problem."""
        width = len(self.header.cells)
        while width > 1 and not self.header.cells[width - 1].strip():
            width -= 1  # what a comma at the end of the line makes
        width = max(width, max(self.places.values(), default=0) + 1)
        cells = row.cells
        while len(cells) > width and not cells[-1].strip():
            cells = cells[:-1]
        if len(cells) == width:
            formula = next((one for one in self.places if self.raw(row, one).startswith("=")), None)
            if formula is not None:
                text = one_line(self.raw(row, formula), 40)
                self.sheet.error(row, f"{text!r} is a formula; export values", self.heading(formula))
            return formula is None
        why = "the file may be cut" if len(cells) < width else "decimal commas need quotes or another delimiter"
        self.sheet.error(row, f"has {len(cells)} cells, and the header {width}: {why}")
        return False


def places_of(row: Row, wanted: Columns) -> dict[str, int] | None:
    """Return where a header has these columns; None of a row that lacks a required one."""
    headings: dict[str, int] = {}
    for at, cell in enumerate(row.cells):
        headings.setdefault(plain(cell), at)
    found = {ours: headings[name] for ours, one in wanted.items() for name in one.names[::-1] if name in headings}
    return None if any(one.required and ours not in found for ours, one in wanted.items()) else found


def find(sheet: Sheet, wanted: Columns, start: int = 0, most: int = 200) -> tuple[int, Table] | None:
    """Return (place, table without rows) of the first header with all required columns."""
    for at, row in enumerate(sheet.rows[start : start + most], start):
        if (places := places_of(row, wanted)) is not None:
            return at, Table(sheet, wanted, row, places)
    return None


def understood(tables: Sequence[Table]) -> None:
    """Decide how one file writes numbers and days, from all its tables, and put their cells in plain form. Raises
    UsageError where that has two meanings or contradicts itself, unless the person who imports said it."""
    hints = tables[0].sheet.hints
    numbers = _decided(tables, NUMBERS, said=hints.decimal is not None)
    days = _decided(tables, DAYS, said=hints.days is not None)

    def as_plain(ours: str, kind: Kind, text: str) -> str:
        if kind in NUMBERS:
            mark: Mark = "." if numbers is None else numbers.marks.get(ours, numbers.decimal)
            return plain_number(text, hints.decimal or mark)
        if kind in DAYS:
            if hints.days is not None:
                return plain_day(text, hints.days)
            return text if days is None else days.plain(ours, kind, [text])[0]
        return text

    for table in tables:
        rivals = table.rivals()
        for row in table.rows:
            table.known[row.line] = known = {
                ours: as_plain(ours, table.columns[ours].kind, row.cell(at)) for ours, at in table.places.items()
            }
            for ours, at in ((ours, at) for ours, places in rivals.items() for at in places):
                other = as_plain(ours, table.columns[ours].kind, row.cell(at))
                if _differ(known[ours], other):
                    two = f"{table.heading(ours)} is {known[ours][:40]}, and {table.header.cell(at)} is {other[:40]}"
                    table.sheet.error(row, f"{two}: leave one of the columns out", table.heading(ours))


def _differ(one: str, other: str) -> bool:
    """Whether two cells in plain form are two numbers."""
    if NUMBER.fullmatch(one) is None or NUMBER.fullmatch(other) is None:
        return False
    return Decimal(one) != Decimal(other)


def _decided(tables: Sequence[Table], wanted: frozenset[Kind], *, said: bool) -> Notation | None:
    kinds = {ours: one.kind for table in tables for ours, one in table.columns.items() if one.kind in wanted}
    sheet = tables[0].sheet
    survey = Survey(kinds, sheet.delimiter, abroad=True)
    for table in tables:
        rows = [row for row in table.rows if len(row.cells) > 1]
        cells = {
            ours: ["" if _is_word(text := row.cell(at)) else text for row in rows]
            for ours, at in table.places.items()
            if ours in kinds
        }
        survey.see(cells, [row.line for row in rows])
    try:
        found = survey.decided()
    except Ambiguous as error:
        if said:
            return None
        column = next((one.heading(error.cell.column) for one in tables if error.cell.column in one.places), "")
        remedy = "say --days dmy, mdy or ymd" if wanted is DAYS else "say --decimal . or --decimal ,"
        where = f"{sheet.name}, row {error.cell.row}" + (f", column {column}" if column else "")
        raise UsageError(f"{where}: {error}", remedy=f"{remedy}; nothing was written") from None
    sheet.notes += [f"row {cell.row}: {note}" for cell, note in found.notes]
    return found


_WORD = re.compile(r"[^\d]*")


def _is_word(text: str) -> bool:
    """Whether a cell of numbers has no digit: it says nothing of the notation."""
    return _WORD.fullmatch(text) is not None


def near(stated: Decimal, found: Decimal, rows: int = 1) -> bool:
    """Whether a sum of amounts that were rounded to hundredths is the stated one."""
    return abs(stated - found) <= Decimal("0.01") * (rows + 1) + abs(stated) / 10_000
