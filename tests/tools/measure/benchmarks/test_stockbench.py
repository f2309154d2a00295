"""The passive baseline of StockBench and its figures, against pandas; and folders that are not the benchmark's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from chordesk.models.errors import UsageError
from chordesk.tools.measure.benchmarks.stockbench import (
    CAPITAL,
    FIRST,
    LAST,
    NAMES,
    SESSIONS,
    passive,
    performance,
    read,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    days = [day for day in pd.bdate_range(FIRST, LAST) if day.strftime("%m-%d") not in ("04-18", "05-26", "06-19")]
    assert len(days) == SESSIONS
    (tmp_path / "bars").mkdir()
    draw = np.random.default_rng(7)
    for name in sorted(NAMES):
        opens = 100 * np.exp(np.cumsum(draw.normal(0, 0.02, SESSIONS)))
        bars = pd.DataFrame({"date": [day.date() for day in days], "open": opens, "close": opens})
        bars.assign(high=opens, low=opens).to_csv(tmp_path / "bars" / f"{name}.csv", index=False)
    return tmp_path


def test_the_passive_baseline_is_that_of_pandas(folder: Path) -> None:
    files = sorted((folder / "bars").iterdir())
    opens = pd.DataFrame({file.stem: pd.read_csv(file).open for file in files})
    value = (opens / opens.iloc[0]).mean(axis=1)
    daily = value.pct_change().fillna(0.0)
    found = performance("passive", passive(read(folder)))
    assert found.returned == pytest.approx(value.iloc[-1] - 1)
    assert found.drawdown == pytest.approx(-(value / value.cummax() - 1).min())
    assert found.sortino == pytest.approx(daily.mean() / daily[daily < 0].std())


def test_an_account_that_never_falls_has_no_sortino_ratio() -> None:
    assert performance("cash", [CAPITAL] * SESSIONS).sortino is None


def test_a_folder_with_a_hole_or_other_names_is_refused(folder: Path) -> None:
    file = folder / "bars" / "BA.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:5], *lines[6:]]))
    with pytest.raises(UsageError, match="without BA of 2025-03-07"):
        read(folder)
    file.write_text("date,open\n2025-03-03,abc\n")
    with pytest.raises(UsageError, match=r"BA.csv has no `date` and `open`"):
        read(folder)
    file.rename(folder / "bars" / "BAC.csv")
    with pytest.raises(UsageError, match=r"19 of StockBench's 20 names: no bars/BA.csv, other bars/BAC.csv"):
        read(folder)


def test_a_folder_with_an_error_is_refused_before_a_run_misses_the_file(folder: Path) -> None:
    file = folder / "bars" / "BA.csv"
    lines = file.read_text().splitlines()
    day, _, *rest = lines[1].split(",")
    file.write_text("\n".join([lines[0], ",".join([day, "0", *rest]), *lines[2:]]))
    with pytest.raises(UsageError, match=r"bars/BA\.csv, row 2, column open"):
        read(folder)
    file.write_text("\n".join(lines))
    (folder / "headlines.jsonl").write_text("garbage\n")
    with pytest.raises(UsageError, match=r"headlines\.jsonl, row 1: is no JSON"):
        read(folder)
