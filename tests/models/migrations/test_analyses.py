"""The table of analyses, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import insert, old_database
from tests.postgres import Server


def analyses_come_and_go(url: str) -> None:
    """A run of before there were analyses gets one, and only one a symbol; a downgrade leaves the rest. The database is
    empty."""
    with old_database(url, "0017") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "candidate", id="c", run_id="r", symbol="AAA")
            insert(connection, "verdict", id="v", run_id="r", candidate_id="c")
        before = old.rows("verdict")
        old.upgrade("head")
        ids = {"run_id": "r", "candidate_id": "c", "verdict_id": "v", "symbol": "AAA"}
        with old.engine.begin() as connection:
            insert(connection, "analysis", id="a", contract="AAA100918P00090000", **ids)
        (row,) = old.rows("analysis")
        texts = {name: row[name] for name in ("turn_id", "headline", "summary", "author")}
        assert (row["contract"], texts) == ("AAA100918P00090000", dict.fromkeys(texts))
        with pytest.raises(IntegrityError), old.engine.begin() as connection:
            insert(connection, "analysis", id="b", **ids)
        old.downgrade("0017")
        assert not inspect(old.engine).has_table("analysis")
        assert old.rows("verdict") == before


def test_analyses_come_with_a_table_and_go_with_it(tmp_path: Path) -> None:
    analyses_come_and_go(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_analyses_come_with_a_table_and_go_with_it_on_postgres(postgres: Server) -> None:
    analyses_come_and_go(postgres.empty())
