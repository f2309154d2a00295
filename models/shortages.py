"""Shortages of this machine: of disk space and inodes where the desk writes, of memory, and of files to open.

Below a first bound something is short, which the desk says; below a second one it takes no new step. Bounds are
absolute, and less on what is small: a share of the whole.
"""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil
from sqlalchemy.engine import make_url

from chordesk.models import home
from chordesk.models.database import soundness
from chordesk.models.errors import DatabaseUnsound, UsageError
from chordesk.models.settings import Settings

MIB = 2**20
ROOM_REMEDY = "make room; while there is none, no step is taken"
SOUNDNESS = "soundness"  # what is short where the database is damaged
HOME = "home"  # what is short where the data folder is away
FULL = (errno.ENOSPC, errno.EDQUOT)
CGROUP = Path("/sys/fs/cgroup")


class Bounds(NamedTuple):
    """What is left below which a resource is short, and below which no step is taken: so much, or that share of the
    whole where it is less."""

    short: int
    short_share: float
    out: int
    out_share: float


SPACE = Bounds(500 * MIB, 1 / 8, 100 * MIB, 1 / 16)
INODES = Bounds(10_000, 1 / 8, 1_000, 1 / 16)
MEMORY = Bounds(512 * MIB, 1 / 10, 128 * MIB, 1 / 40)
OPEN_FILES = Bounds(200, 1 / 4, 50, 1 / 10)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A resource of which little is left."""

    what: str  # space, inodes, memory or open files; soundness of a damaged database, home of a data folder away
    where: str  # the folders, with what they are for; of open files the process; of soundness and home the reason
    left: int
    whole: int
    out: bool  # so little that no step is taken

    @property
    def key(self) -> str:
        """Names the shortage while it lasts, though its reason may change."""
        return self.what if self.what in (HOME, SOUNDNESS) else f"{self.what}:{self.where}"

    @property
    def name(self) -> str:
        return f"{self.what} of {self.where}" if self.where else self.what

    def __str__(self) -> str:
        if self.what == HOME:
            return f"{self.where}; no step is taken and no order is sent: {home.AWAY_REMEDY}"
        if self.what == SOUNDNESS:
            return f"{self.where}; no step is taken and no order is sent: {DatabaseUnsound.remedy}"
        sized = self.what in ("space", "memory")
        left, whole = (f"{each / MIB:,.1f} MiB" if sized else f"{each:,}" for each in (self.left, self.whole))
        return f"{'no' if self.out else 'little'} room: {self.name}, {left} of {whole} left"


def shortages(settings: Settings) -> list[Shortage]:
    """Return what is short on this machine for a process with these settings, the worst first."""
    if (away := home.why_away(settings.home)) is not None:
        return [Shortage(HOME, away, 0, 0, True), *(one for one in (_memory(), _open_files()) if one is not None)]
    found = [*_unsound(settings), *_of_machine(settings)]
    return sorted(found, key=lambda one: not one.out)


def _of_machine(settings: Settings) -> list[Shortage]:
    return [one for one in (*_disks(settings), _memory(), _open_files()) if one is not None]


def _unsound(settings: Settings) -> Iterator[Shortage]:
    if (why := soundness.marked(settings)) is not None:
        yield Shortage(SOUNDNESS, f"the database is not sound: {why}", 0, 0, True)


def require_no_shortage(settings: Settings) -> None:
    """Raise UsageError where the home cannot be written, or so little is left that no step would be taken."""
    try:
        with tempfile.NamedTemporaryFile(dir=_present(settings.home), prefix=".room-") as probe:
            probe.write(b"x")
            probe.flush()
    except OSError as error:
        remedy = ROOM_REMEDY if error.errno in FULL else "set DESK_HOME to a folder you may write"
        raise UsageError(f"{settings.home} cannot be written: {error.strerror}", remedy=remedy) from None
    if out := [str(one) for one in _of_machine(settings) if one.out]:
        raise UsageError("; ".join(out), remedy=ROOM_REMEDY)


def folders(settings: Settings) -> dict[str, Path]:
    """By purpose; those at other addresses, as of a database server, are not among them."""
    home = settings.home
    found = {"home": home, "logs": home / "logs", "Redis": home / "redis"}
    database = make_url(settings.database)
    if database.get_backend_name() == "sqlite" and database.database and database.database != ":memory:":
        found["database"] = Path(database.database).parent
    for name, address in (("vault", settings.blob_url), ("reports", settings.report_url)):
        if address is not None and (path := _local(address)) is not None:
            found[name] = path
    if settings.telemetry_file is not None:
        found["telemetry"] = settings.telemetry_file.parent
    return found


def _local(address: str) -> Path | None:
    parts = urlsplit(address)
    return Path(parts.path) if parts.scheme in ("", "file", "local") else None


def _disks(settings: Settings) -> Iterator[Shortage]:
    """Yield the file systems with little space or few inodes, each once, whatever it holds."""
    for where, path in _file_systems(folders(settings)).items():
        try:
            found = os.statvfs(path)
        except OSError:
            continue  # that it cannot be read is found by who uses it
        yield from _short("space", where, found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, SPACE)
        yield from _short("inodes", where, found.f_favail, found.f_files, INODES)  # some have no number of them


def _file_systems(named: Mapping[str, Path]) -> dict[str, Path]:
    """Return a folder of each file system, by what it is for and its path."""
    names: dict[int, list[str]] = {}
    paths: dict[int, Path] = {}
    for name, path in named.items():
        try:
            present = _present(path)
            device = present.stat().st_dev
        except OSError:
            continue
        names.setdefault(device, []).append(name)
        paths.setdefault(device, present)
    return {f"{', '.join(names[device])} ({path})": path for device, path in paths.items()}


def _present(path: Path) -> Path:
    return next((each for each in (path, *path.parents) if each.exists()), path)


def _memory() -> Shortage | None:
    """Return that memory is short: that of the machine, or of the control group where it has less."""
    try:
        machine = psutil.virtual_memory()
    except OSError:  # no file is left to read it from
        return None
    left, whole = min((machine.available, machine.total), _of_group() or (machine.available, machine.total))
    return next(_short("memory", "", left, whole, MEMORY), None)


def _of_group() -> tuple[int, int] | None:
    """Memory left and the limit; None without a group. File pages do not count: the kernel takes them back."""
    try:
        limit, used = int((CGROUP / "memory.max").read_text()), int((CGROUP / "memory.current").read_text())
        stat = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return limit - used + int(stat["inactive_file"]), limit
    except (OSError, ValueError, KeyError):
        return None


def _open_files() -> Shortage | None:
    whole, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if whole == resource.RLIM_INFINITY:
        return None
    try:
        used = psutil.Process().num_fds()
    except (psutil.Error, OSError):  # none is left to count them with
        used = whole
    return next(_short("open files", f"process {os.getpid()}", whole - used, whole, OPEN_FILES), None)


def _short(what: str, where: str, left: int, whole: int, bounds: Bounds) -> Iterator[Shortage]:
    if whole > 0 and left < min(bounds.short, whole * bounds.short_share):
        yield Shortage(what, where, left, whole, left < min(bounds.out, whole * bounds.out_share))
