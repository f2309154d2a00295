"""Tables out of files of any form: CSV, JSON lines, or Parquet with its extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from chordesk.tools.market.files.reading.csv_tables import csv_parts
from chordesk.tools.market.files.reading.json_lines import json_parts
from chordesk.tools.market.files.reading.parquet import parquet_parts
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import JSON_LINES, PARQUET, Names, Part

_PARTS = {PARQUET: parquet_parts, JSON_LINES: json_parts}


def parts_of(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the table's parts. names: our names, each with the names in files, the preferred first, in plain small
    letters and digits. A table that cannot be read is an error in `problems`. Raises NotConfigured for a Parquet file
    without the library."""
    parts = _PARTS.get(path.suffix.lower(), csv_parts)
    yield from parts(path, name, names, problems)
