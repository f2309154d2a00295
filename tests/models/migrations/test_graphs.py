"""The tables of graphs come and go, and have one checkpoint of a graph."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import insert, old_database


def test_a_graph_has_one_checkpoint_and_a_downgrade_leaves_the_runs(tmp_path: Path) -> None:
    with old_database(f"sqlite:///{tmp_path / 'desk.db'}", "0022") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
            insert(connection, "step", id="s", run_id="r")
        before = old.rows("run")
        old.upgrade("0023")
        given = {"run_id": "r", "thread": "1", "place": "", "step_id": "s", "content": b"", "about": b""}
        with old.engine.begin() as connection:
            insert(connection, "graph_checkpoint", checkpoint_id="a", **given)
        with pytest.raises(IntegrityError), old.engine.begin() as connection:
            insert(connection, "graph_checkpoint", checkpoint_id="b", **given)
        old.downgrade("0022")
        assert old.rows("run") == before
