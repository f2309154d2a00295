"""A folder of own data: which of its files are what, and the version of their content."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from chordesk.models.errors import SettingError
from chordesk.tools.market.files.reading.problems import Problems
from chordesk.tools.market.files.reading.tables import ENDINGS

BARS = "bars"
UNIVERSE = ("universe.csv",)
HEADLINES = ("headlines.csv", "headlines.jsonl")
CHAINS = ("chains.csv", "chains.parquet")
EARNINGS = ("earnings.csv",)
ABOUT = "about.txt"
FORMS = "bars/SYMBOL.csv or bars.csv, and if you have them universe.csv, headlines.csv, chains.csv, earnings.csv"
_VERSION_DIGITS = 8


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The files of a folder, None for one that it lacks. symbols: files of bars by symbol; bars: the long table."""

    path: Path
    symbols: tuple[tuple[str, Path], ...]
    bars: Path | None
    universe: Path | None
    headlines: Path | None
    chains: Path | None
    earnings: Path | None

    def name(self, file: Path) -> str:
        """Return a file's name within the folder."""
        return str(file.relative_to(self.path))

    def files(self) -> Iterator[Path]:
        yield from (path for _, path in self.symbols)
        yield from filter(None, (self.bars, self.universe, self.headlines, self.chains, self.earnings))

    @property
    def about(self) -> str | None:
        """Return the first line of about.txt, which `desk data import` writes: where the data come from."""
        try:
            return (self.path / ABOUT).read_text(encoding="utf-8").strip().partition("\n")[0] or None
        except (OSError, UnicodeDecodeError):
            return None


def data_folder(path: Path | None, problems: Problems) -> DataFolder:
    """Return the files of a folder; more than one form of the same is an error, an unknown file a warning.

    Raises SettingError when no folder is set, there is none on this host, or it may not be looked into.
    """
    try:
        return _files_in(path, problems)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path | None, error: OSError) -> SettingError:
    """Return the error that a folder, or a file in it, cannot be read."""
    why = f"DESK_DATA={path} cannot be read: {error.strerror} {error.filename}"
    return SettingError(why, remedy="let the user that runs the desk read the folder and its files")


def _files_in(path: Path | None, problems: Problems) -> DataFolder:
    if path is None:
        raise SettingError("DESK_MARKET=files needs DESK_DATA", remedy=f"set DESK_DATA to a folder with {FORMS}")
    if not path.is_dir():
        why = "is no folder" if path.exists() else "does not exist"
        remedy = f"each host with a worker needs the same folder at its own DESK_DATA; it has {FORMS}"
        raise SettingError(f"DESK_DATA={path} {why} on {socket.gethostname()}", remedy=remedy)
    found = {name: _one(path, names, problems) for name, names in _NAMES.items()}
    folder = DataFolder(path, tuple(_symbols(path / BARS, problems, path)), **found)
    if folder.symbols and folder.bars is not None:
        problems.error(folder.name(folder.bars), f"stands beside the folder {BARS}/: keep one of them")
    if not folder.symbols and folder.bars is None:
        problems.error(BARS, f"no file of daily bars; a data folder has {FORMS}")
    _note_unknown(folder, problems)
    return folder


_NAMES = {
    "bars": tuple(f"{BARS}{ending}" for ending in ENDINGS),
    "universe": UNIVERSE,
    "headlines": HEADLINES,
    "chains": CHAINS,
    "earnings": EARNINGS,
}


def version_of(folder: DataFolder, kind: str) -> str:
    """Return the version of a folder's content and of how its prices are read: hexadecimal digits of a SHA-256."""
    names = tuple((folder.name(file), *_stamp(file)) for file in folder.files())
    return _version(folder.path, names, kind)


def _stamp(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


@lru_cache(maxsize=8)
def _version(path: Path, files: tuple[tuple[str, int, int], ...], kind: str) -> str:
    """Return the version; it is computed again when a file's size or time has changed."""
    digest = hashlib.sha256(kind.encode())
    for name, size, _ in files:
        digest.update(f"\0{name}\0{size}\0".encode())
        with (path / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:_VERSION_DIGITS]


def _one(path: Path, names: tuple[str, ...], problems: Problems) -> Path | None:
    there = [path / name for name in names if (path / name).is_file()]
    for name in names:
        if os.path.lexists(path / name) and path / name not in there:
            problems.error(name, "is no file: a folder, a pipe, or a link to what is not there")
    if len(there) > 1:
        problems.error(there[1].name, f"stands beside {there[0].name}: keep one of them")
    return there[0] if there else None


def _symbols(bars: Path, problems: Problems, folder: Path) -> Iterator[tuple[str, Path]]:
    if not bars.is_dir():
        return
    for file in sorted(bars.iterdir()):
        if file.name.startswith("."):
            continue
        if file.suffix.lower() in ENDINGS and file.is_file():
            yield file.stem.upper(), file
        else:
            reason = f"is not read: files of bars end in {' or '.join(ENDINGS)}"
            problems.warn(str(file.relative_to(folder)), reason)


def _note_unknown(folder: DataFolder, problems: Problems) -> None:
    known = {folder.name(file) for file in folder.files()} | {ABOUT, BARS}
    known |= {name for names in _NAMES.values() for name in names}
    for file in sorted(folder.path.iterdir()):
        if file.name not in known and not file.name.startswith("."):
            problems.warn(file.name, "is not read: it is no file of a data folder")
