"""The migrations of the database, in `versions/`; `models.database.store.upgrade` runs them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

VERSIONS = Path(__file__).parent / "versions"
_REVISION = re.compile(r"(\d{4})_\w+\.py")


def revisions(folder: Path = VERSIONS) -> list[str]:
    """Return the revisions that this code's migrations, or those in a feature's folder, lead through, the newest last.
    The names of files have them, so that neither a check of the schema nor `desk --version` loads Alembic."""
    files = [_REVISION.fullmatch(path.name) for path in folder.iterdir()]
    return sorted(found[1] for found in files if found)


def written(folder: Path) -> str:
    """Return a path as Alembic's configuration has it."""
    return str(folder).replace("%", "%%")


@cache
def digest() -> str:
    """Return a hash of the migrations: a database remembers which ones made it."""
    whole = hashlib.sha256()
    for path in sorted(VERSIONS.glob("[0-9]*.py")):
        whole.update(path.read_bytes())
    return whole.hexdigest()
