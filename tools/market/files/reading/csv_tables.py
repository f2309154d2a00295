"""CSV files as tables, in the forms that programs write them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import PART, Names, Part, doubled, matched

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
            yield _part(name, cells, rows, places, written)
            cells, rows = [], []
    yield _part(name, cells, rows, places, written)


def _part(
    name: str, cells: list[list[str]], rows: list[int], places: Mapping[str, int], written: Mapping[str, str]
) -> Part:
    columns = {ours: [row[at] for row in cells] for ours, at in places.items()}
    return Part(name, columns, np.array(rows, dtype=np.int64), written)
