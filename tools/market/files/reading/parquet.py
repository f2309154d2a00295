"""Parquet files as tables; pyarrow, the extra `parquet`, is loaded when there is one to read."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from chordesk.models.errors import NotConfigured
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import PART, Cells, Names, Part, doubled, matched

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
