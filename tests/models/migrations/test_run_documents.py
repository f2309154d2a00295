"""The table of written reports comes and goes, and has one row a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import insert, old_database


def test_a_run_has_one_written_report_and_a_downgrade_leaves_the_runs(tmp_path: Path) -> None:
    with old_database(f"sqlite:///{tmp_path / 'desk.db'}", "0025") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
        before = old.rows("run")
        old.upgrade("0026")
        with old.engine.begin() as connection:
            insert(connection, "run_document_copy", run_id="r")
        with pytest.raises(IntegrityError), old.engine.begin() as connection:
            insert(connection, "run_document_copy", run_id="r")
        old.downgrade("0025")
        assert old.rows("run") == before
