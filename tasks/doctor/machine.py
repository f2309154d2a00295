"""Checks of this host: the interpreter, the Codex binary, the home."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tempfile

from chordesk.models.errors import BinaryMissing
from chordesk.tasks.bootstrap import codex_binary
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus

OLDEST_PYTHON = (3, 11)
LOW_DISK_MIB = 500
WHEEL = "openai-codex-cli-bin"


def python(context: CheckContext) -> Check:
    """Check that the interpreter is new enough."""
    found = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("python", CheckStatus.FAIL, found, "use Python 3.11 or newer")
    return Check("python", CheckStatus.OK, found)


def binary(context: CheckContext) -> Check:
    """Check that the Codex binary runs, and is the version this desk was tested with."""
    path = codex_binary(context.settings)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=15, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BinaryMissing(f"the Codex binary {path} does not run: {error}") from None
    version = answer.stdout.split()[-1] if answer.stdout.split() else "?"
    pinned = importlib.metadata.version(WHEEL)
    if version != pinned:
        detail = f"codex {version}; this desk was tested with {pinned}"
        return Check("codex binary", CheckStatus.WARN, detail, "unset DESK_CODEX_BINARY to use the tested one")
    return Check("codex binary", CheckStatus.OK, f"codex {version}")


def home(context: CheckContext) -> Check:
    """Check that the data folder can be written and has room."""
    path = context.settings.home
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".doctor-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        detail = f"{path} cannot be written: {error.strerror}"
        return Check("home", CheckStatus.FAIL, detail, "set DESK_HOME to a folder you may write")
    free = shutil.disk_usage(path).free // 2**20
    if free < LOW_DISK_MIB:
        return Check("home", CheckStatus.WARN, f"{path}, {free} MiB free", "make room, or set DESK_HOME elsewhere")
    return Check("home", CheckStatus.OK, f"{path}, {free:,} MiB free")
