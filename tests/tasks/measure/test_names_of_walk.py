"""The names that a backtest goes through, where its universe changes."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from chordesk.tasks.measure.backtest_sessions import symbols_of_walk
from tests.tools.market.files.folders import HEADER, market, sessions, walk, write_table


def test_a_walk_has_the_names_that_left_during_it_too(tmp_path: Path) -> None:
    days = sessions("2020-01-02", 110)
    folder = tmp_path / "own"
    for name in ("A", "B"):
        write_table(folder / "bars" / f"{name}.csv", HEADER, walk(days))
    rows = [("A", "", "2020-03-31"), ("A", "2020-05-01", ""), ("B", "2020-04-01", "")]
    write_table(folder / "universe.csv", ("symbol", "from", "to"), rows)
    april = market(tmp_path, folder, dt.date(2020, 4, 1))
    assert symbols_of_walk("sp500", april, days[61:63]) == ["A", "B"]
    assert symbols_of_walk("sp500", april, days[62:63]) == ["B"]
