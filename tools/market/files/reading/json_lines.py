"""JSON lines as tables: an object a line, its names as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import PART, Names, Part, plain


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
                    yield _part(name, lines, rows)
                    lines, rows = [], []
    except OSError as error:
        problems.error(name, f"cannot be read: {error.strerror}")
        return
    yield _part(name, lines, rows)


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


def _part(name: str, lines: list[dict[str, str]], rows: list[int]) -> Part:
    columns = dict.fromkeys(key for line in lines for key in line)
    cells = {column: [line.get(column, "") for line in lines] for column in columns}
    return Part(name, cells, np.array(rows, dtype=np.int64), {column: column for column in columns})
