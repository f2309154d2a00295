"""pandas without pyarrow in a worker, and pyarrow for the code that asks for it."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from chordesk.tools.toolsets import warm
warm()
assert "pandas" in sys.modules
print("pyarrow" in sys.modules)
import pandas, pyarrow, pyarrow.parquet
table = pyarrow.table({"close": [1.5, 2.5], "symbol": ["A", "B"]})
pyarrow.parquet.write_table(table, sys.argv[1])
print(pandas.read_parquet(sys.argv[1]).close.sum(), table.to_pandas().symbol.tolist())
"""


@pytest.mark.skipif(importlib.util.find_spec("pyarrow") is None, reason="pyarrow is not installed: extra parquet")
def test_warming_loads_pandas_alone_and_parquet_can_be_read_all_the_same(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(tmp_path / "bars.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "4.0 ['A', 'B']"]
