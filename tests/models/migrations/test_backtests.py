"""The table of a backtest's sessions comes and goes, and has each session once."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import insert, old_database


def test_a_session_of_a_backtest_is_there_once_and_a_downgrade_leaves_the_runs(tmp_path: Path) -> None:
    with old_database(f"sqlite:///{tmp_path / 'desk.db'}", "0021") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
        before = old.rows("run")
        old.upgrade("0022")
        with old.engine.begin() as connection:
            insert(connection, "backtest_session", id="s", backtest_id="r", run_id="r", day="2010-03-01")
        with pytest.raises(IntegrityError), old.engine.begin() as connection:
            insert(connection, "backtest_session", id="t", backtest_id="r", run_id="r", day="2010-03-01")
        old.downgrade("0021")
        assert old.rows("run") == before
