"""Runs the command `desk` as people do, on a home of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests import zygote
from tests.patience import PATIENCE
from tests.tasks.services.conftest import CLEAN

ROOT = Path(__file__).parents[3]


def environment(home: Path, **environ: str) -> dict[str, str]:
    """Return an environment without settings of the person that runs the tests; the search for files ends in the
    home."""
    home.mkdir(exist_ok=True)
    for name in (".env", "desk.toml"):
        (home / name).touch()
    return {**CLEAN, "DESK_HOME": str(home), "PYTHONPATH": str(ROOT), **environ}


def desk(home: Path, *arguments: str, seconds: float = PATIENCE, **environ: str) -> subprocess.CompletedProcess[str]:
    return zygote.run(arguments, environment(home, **environ), home, seconds)
