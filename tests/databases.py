"""Databases for tests: a SQLite file is a copy of one that was migrated once in this process."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from sqlalchemy import make_url

from chordesk.models.database.store import upgrade

# For a comparison of tables with classes: the tables that count a feature's migrations have none.
ALL_BUT_LINES = {"include_name": lambda name, kind, _: kind != "table" or not name.startswith("alembic_version_")}


def make_database(url: str) -> None:
    """Bring a database to the newest schema, as `upgrade` does. It costs next to nothing for a SQLite file that is not
    there yet."""
    parsed = make_url(url)
    path = Path(parsed.database or ":memory:")
    if parsed.get_backend_name() != "sqlite" or path.name == ":memory:" or path.exists():
        upgrade(url)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(template(), path)


@functools.cache
def template() -> Path:
    """Return a migrated, empty database, which ends with this process."""
    folder = Path(tempfile.mkdtemp(prefix="desk-template-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    upgrade(f"sqlite:///{folder / 'desk.db'}")
    assert [path.name for path in folder.iterdir()] == ["desk.db"], "nothing of it is outside the file"
    return folder / "desk.db"
