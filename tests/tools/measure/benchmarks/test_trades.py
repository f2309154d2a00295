"""Logged trades of others, valued at the closes of the bars beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.benchmarks import Given
from chordesk.models.errors import UsageError
from chordesk.tools.measure.benchmarks.trades import measure
from tests.tools.market.files.folders import write_table

HOURS = [("2025-10-01T14:00:00Z", 10, 10.5), ("2025-10-01T19:00:00Z", 10.5, 11), ("2025-10-02T14:00:00Z", 11, 9),
         ("2025-10-03T14:00:00Z", 9, 12)]  # fmt: skip


def logged(folder: Path, model: str, *lines: Mapping[str, Any]) -> Path:
    path = folder / "agent_data" / model / "position" / "position.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    return path


def line(date: str, cash: float, **shares: float) -> dict[str, Any]:
    return {"date": date, "positions": {**shares, "CASH": cash}}


def test_a_log_is_worth_its_cash_and_its_shares_at_each_close(tmp_path: Path) -> None:
    write_table(tmp_path / "prices" / "AAA.csv", ("time", "open", "close"), HOURS)
    logged(
        tmp_path, "model-1", line("2025-10-01 09:30:00", 100, AAA=0), line("2025-10-01 10:00:00", 50, AAA=5),
        line("2025-10-02 10:00:00", 50, AAA=5),
    )  # fmt: skip
    logged(tmp_path, "model-2", line("2025-10-02", 100), line("2025-10-03 10:00:00", 1, AAA=3))
    found = measure(tmp_path, Given())
    rows = {row.who: row.figures for row in found.rows}
    assert rows["model-1"]["return"] == pytest.approx((50 + 5 * 12) / 100 - 1), "until the last day of any log"
    assert rows["model-1"]["drawdown"] == pytest.approx(1 - (50 + 5 * 9) / (50 + 5 * 11))
    assert (rows["model-1"]["trades"], rows["model-2"]["trades"]) == (1, 1)
    assert rows["model-2"]["return"] == pytest.approx((1 + 3 * 12) / 100 - 1)
    assert rows["all names, bought at the first close and held"]["return"] == pytest.approx(12 / 11 - 1)
    (odd,) = (text for text in found.lines if "no bar of their day has" in text)
    (mean,) = (text for text in found.lines if " a session" in text and text.startswith("model-2"))
    assert mean.endswith("% a session, too few, n 2")
    assert not any("set-aside.csv" in text for text in found.lines), "no such file is written"
    assert odd == "model-2: 1 trades at a price that no bar of their day has (row 2, AAA at 33.00 on 2025-10-03)"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("2025-10-01", 9, BBB=1)], "model holds BBB on 2025-10-01, of which there is no bar by then"),
        ([line("soon", 9)], r"row 1: 'soon' cannot be read as a day"),
        ([{"date": "2025-10-01", "positions": {"AAA": 1}}], "row 1: no CASH among its positions"),
        ([line("2025-10-01", 9), {"date": "2025-10-02"}], "row 2 has no object `positions`"),
        ([line("2031-10-01", 9)], "has no bars from 2031-10-01 to 2031-10-01"),
        ([{"date": "2025-10-01"}], "has no log of positions"),
    ],
)
def test_a_log_that_cannot_be_valued_is_refused_by_name(
    tmp_path: Path, lines: list[dict[str, Any]], message: str
) -> None:
    write_table(tmp_path / "AAA.csv", ("time", "open", "close"), HOURS)
    logged(tmp_path, "model", *lines)
    with pytest.raises(UsageError, match=message):
        measure(tmp_path, Given())
