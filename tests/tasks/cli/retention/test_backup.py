"""`desk backup` and `desk restore` as a person runs them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from tests.tasks.backup.kit import desk_data, filled
from tests.tasks.cli.running import desk


@pytest.fixture
def home(tmp_path: Path) -> Path:
    data = filled(desk_data(tmp_path / "home"))
    data.store.close()
    return tmp_path / "home"


def test_a_backup_and_its_restore_name_what_there_is_and_what_comes_next(home: Path, tmp_path: Path) -> None:
    copy, new = tmp_path / "copy", tmp_path / "new"
    made = desk(home, "backup", str(copy))
    assert made.returncode == 0, made.stderr
    assert "2 orders, 3 lines of the audit log" in made.stdout
    assert "not in it: secrets" in made.stdout
    back = desk(home, "restore", str(copy), "--into", str(new))
    assert back.returncode == 0, back.stderr
    for text in ("HALTED: paper", f"DESK_HOME={new} desk reconcile", f"DESK_HOME={new} desk resume"):
        assert text in back.stdout
    assert "whole" in desk(new, "audit", "verify").stdout
    again = desk(home, "restore", str(copy), "--into", str(new))
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)
    assert desk(home, "backup", str(copy)).returncode == 2


def test_missing_files_are_named_in_warnings(home: Path, tmp_path: Path) -> None:
    for path in (home / "artifacts").glob("*.png"):
        path.unlink()
    done = desk(home, "backup", str(tmp_path / "copy"), "--json")
    assert done.returncode == 0
    assert len(json.loads(done.stdout)["manifest"]["missing"]) == 2
    assert done.stderr.count("not in this data folder, so not in the backup") == 2


def test_a_database_of_another_schema_is_not_copied(home: Path, tmp_path: Path) -> None:
    with sqlite3.connect(home / "desk.db") as connection:
        connection.execute("update alembic_version set version_num = '0023'")
    done = desk(home, "backup", str(tmp_path / "copy"))
    assert (done.returncode, "desk db upgrade" in done.stderr) == (2, True)
