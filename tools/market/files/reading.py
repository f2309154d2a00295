"""Tables out of files of either form: CSV, or Parquet with its extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.market.files.csv_tables import csv_parts
from tools.market.files.parquet import parquet_parts
from tools.market.files.problems import Problems
from tools.market.files.tables import PARQUET, Names, Part


def parts_of(path: Path, name: str, names: Names, problems: Problems) -> Iterator[Part]:
    """Yield the table's parts. names: our names, each with the names in files, the preferred first, in plain small
    letters and digits. A table that cannot be read is an error in `problems`. Raises NotConfigured for a Parquet file
    without the library."""
    parts = parquet_parts if path.suffix.lower() == PARQUET else csv_parts
    yield from parts(path, name, names, problems)
