"""`desk --version`: name, version and schema revision, for scripts that compare them before an upgrade.

Standard library only: it is asked of images and hosts, and loading the desk costs seconds of CPU.
"""

from __future__ import annotations

import importlib.metadata
import re

from chordesk.models import migrations

NAME = "chordesk"
_REVISION = re.compile(r"(\d{4})_\w+\.py")


def version() -> str | None:
    """Return the version of the installed distribution; None where the desk runs from a folder alone."""
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return None


def newest_revision() -> str:
    """Return the revision that this code's schema has: the number of its last migration, as files have it."""
    files = [_REVISION.fullmatch(path.name) for path in migrations.VERSIONS.iterdir()]
    return max(found[1] for found in files if found)


def line() -> str:
    """Return what `desk --version` prints."""
    return f"{NAME} {version() or '(not installed: run from its folder)'}, schema {newest_revision()}"
