"""Checks of this host: the interpreter, the Codex binary, the home."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import subprocess
import sys
import tempfile

from agents.codex.catalog import find_binary
from agents.codex.config import RuntimeConfig
from models.errors import BinaryMissing
from tasks.doctor.check import Check, Patient, Status

OLDEST_PYTHON = (3, 11)
LOW_DISK_MIB = 500
WHEEL = "openai-codex-cli-bin"


def python(patient: Patient) -> Check:
    """The interpreter is new enough."""
    said = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Check("python", Status.FAIL, said, "use Python 3.11 or newer")
    return Check("python", Status.OK, said)


def binary(patient: Patient) -> Check:
    """The Codex binary runs, and is the version this desk was measured with."""
    settings = patient.settings
    config = RuntimeConfig(
        settings.home, "doctor", settings.provider, settings.model, None, binary=settings.codex_binary
    )
    path = find_binary(config)
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=15, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise BinaryMissing(f"the Codex binary {path} does not run: {error}") from None
    version = answer.stdout.split()[-1] if answer.stdout.split() else "?"
    pinned = importlib.metadata.version(WHEEL)
    if version != pinned:
        detail = f"codex {version}; this desk was tested with {pinned}"
        return Check("codex binary", Status.WARN, detail, "unset DESK_CODEX_BINARY to use the tested one")
    return Check("codex binary", Status.OK, f"codex {version}")


def home(patient: Patient) -> Check:
    """The data folder can be written and has room."""
    path = patient.settings.home
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path, prefix=".doctor-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        detail = f"{path} cannot be written: {error.strerror}"
        return Check("home", Status.FAIL, detail, "set DESK_HOME to a folder you may write")
    free = shutil.disk_usage(path).free // 2**20
    if free < LOW_DISK_MIB:
        return Check("home", Status.WARN, f"{path}, {free} MiB free", "make room, or set DESK_HOME elsewhere")
    return Check("home", Status.OK, f"{path}, {free:,} MiB free")
