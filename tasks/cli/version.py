"""`desk --version`: name, version and schema revision, for scripts that compare them before an upgrade.

Standard library only: it is asked of images and hosts, and loading the desk costs seconds of CPU.
"""

from __future__ import annotations

import importlib.metadata

from chordesk.models import migrations

NAME = "chordesk"


def version() -> str | None:
    try:
        return importlib.metadata.version(NAME)
    except importlib.metadata.PackageNotFoundError:
        return None


def line() -> str:
    return f"{NAME} {version() or '(not installed: run from its folder)'}, schema {migrations.revisions()[-1]}"
