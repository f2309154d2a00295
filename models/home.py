"""The data folder of this process: which one it is, so that a process that outlives its folder works in no other one
and never makes it anew at the old path.

A data folder has an id in a file. A long-lived process keeps the id of its folder (`keep`); while another folder or
none is at the path, no step begins, no order is sent, no connection to a SQLite database is used, and `make_folder`
makes nothing there. A copy that is put in the folder's place, as from a backup of the disk, counts as the folder.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import platform
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from chordesk.models.errors import UsageError

FILE = "home.json"
VARIABLE = "DESK_HOME_ID"  # what `desk up` tells its processes: one that starts later may find another folder
AWAY_REMEDY = "bring it back to its place: the desk goes on by itself"
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Identity:
    """Of a data folder. The rest is where the folder was when a desk last started on it."""

    id: str
    host: str
    path: str
    device: int
    inode: int

    def is_at(self, found: os.stat_result) -> bool:
        return (self.device, self.inode) == (found.st_dev, found.st_ino)


def read(home: Path) -> Identity | None:
    """Return the folder's identity; None where it has none. Raises OSError for a file that cannot be read."""
    try:
        with (home / FILE).open("rb") as file:
            table = json.loads(file.read(_MOST_BYTES))
        return Identity(
            str(table["id"]), str(table["host"]), str(table["path"]), int(table["device"]), int(table["inode"])
        )
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        return Identity("unreadable", "", "", 0, 0)


def why_unusable(folder: Path, access: int = os.R_OK | os.X_OK) -> str | None:
    """Return why a path can be no data folder: a file, a link to nothing, or another user's. None where nothing is."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{folder} cannot be read: {error.strerror}"
    if folder.is_symlink() and not folder.exists():
        return f"{folder} is a link to {os.readlink(folder)}, which is not there"
    if not folder.is_dir():
        return f"{folder} is not a folder"
    if access & os.W_OK and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"the disk of {folder} is mounted for reading alone"
    if not os.access(folder, access):
        return f"{folder} is of user {found.st_uid}, and this user may not use it"
    return None


UNUSABLE_REMEDY = "set DESK_HOME to a folder of yours, or mount its disk for writing"


def _write(home: Path, new_id: str) -> Identity:
    found = home.stat()
    made = Identity(new_id, platform.node(), str(home.resolve()), found.st_dev, found.st_ino)
    handle, aside = tempfile.mkstemp(dir=home, prefix=".aside-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(made), file)
        os.replace(aside, home / FILE)
    except BaseException:
        os.unlink(aside)
        raise
    return made


def renew(home: Path) -> Identity:
    """Give the folder an id of its own. Raises OSError."""
    return _write(home, secrets.token_hex(8))


def claim(home: Path) -> Identity:
    """Return the identity of a folder on which a desk starts, written anew where it was moved. Raises UsageError for a
    copy while the folder that it was copied from is still there, OSError."""
    known, there = read(home), home.stat()
    if known is None or known.id == "unreadable":
        return renew(home)
    if known.is_at(there) and known.path == str(home.resolve()):
        return known
    if (other := _original(known, there)) is not None:
        raise UsageError(
            f"{home} is a copy of {other}, with the same id {known.id}: two desks would send the same orders",
            remedy=f"go on with {other}, or make the copy a desk of its own: `DESK_HOME={home} desk db renew`",
        )
    return _write(home, known.id)


def _original(known: Identity, there: os.stat_result) -> Path | None:
    """Return where a folder of this id is besides the one that is looked at."""
    path = Path(known.path)
    if known.host != platform.node():
        return None
    try:
        found, its = path.stat(), read(path)
    except OSError:
        return None
    same = (found.st_dev, found.st_ino) == (there.st_dev, there.st_ino)
    return path if its is not None and its.id == known.id and not same else None


@dataclass(frozen=True, slots=True)
class Kept:
    """The data folder of this process, as it was when the process began."""

    home: str
    id: str | None  # None of a folder on which no `desk up` ever started
    place: tuple[int, int] | None  # device and inode

    def why_away(self) -> str | None:
        try:
            found = os.stat(self.home)
            its = read(Path(self.home)) if self.id is not None else None
        except OSError as error:
            moved = error.errno in (errno.ENOENT, errno.ENOTDIR)
            why = "moved, deleted or unmounted" if moved else error.strerror
            return f"the data folder {self.home} is away ({why})"
        if self.id is None:
            same = self.place == (found.st_dev, found.st_ino)
            return None if same else f"another folder is in the place of the data folder {self.home}"
        if its is None:
            return f"the data folder {self.home} is away (the folder there has no {FILE}: it was emptied or made anew)"
        other = its.id if its.id != self.id else None
        return f"another data folder (id {other}) is in the place of {self.home}" if other is not None else None


_kept: Kept | None = None


def keep(home: Path, environ: Mapping[str, str] | None = None) -> None:
    """Have this process keep to its data folder. environ: with what `desk up` says of it, which counts; a folder that
    does not exist is kept when it is made."""
    global _kept
    path = os.path.abspath(home)
    if told := (environ or {}).get(VARIABLE):
        _kept = Kept(path, told, None)
        return
    try:
        found, its = os.stat(path), read(Path(path))
    except OSError:
        return
    _kept = Kept(path, its.id if its is not None else None, (found.st_dev, found.st_ino))


def forget() -> None:
    global _kept
    _kept = None


def _of(path: Path | str) -> Kept | None:
    if _kept is None:
        return None
    text = os.path.abspath(path)
    return _kept if text == _kept.home or text.startswith(f"{_kept.home}{os.sep}") else None


def why_away(path: Path | str) -> str | None:
    """Return why this process's data folder is not there, for a path within it; None for every other path."""
    kept = _of(path)
    return kept.why_away() if kept is not None else None


_thread = threading.local()
LOOK_SECONDS = 0.2
PATIENCE_SECONDS = 3600.0


def be_patient() -> None:
    """Have this thread, from now on, wait for the data folder where it needs the database in it."""
    _thread.ended = _never


def _never() -> bool:
    return False


@contextmanager
def patient(ended: Callable[[], bool]) -> Iterator[None]:
    """As `be_patient`, in the block and until `ended`: work that was paid for waits, in place of failing."""
    before = getattr(_thread, "ended", None)
    _thread.ended = ended
    try:
        yield
    finally:
        _thread.ended = before


def why_still_away(path: Path | str) -> str | None:
    """As `why_away`, after the time for which this thread waits."""
    ended, until = getattr(_thread, "ended", None), time.monotonic() + PATIENCE_SECONDS
    while (why := why_away(path)) is not None and ended is not None and not ended() and time.monotonic() < until:
        time.sleep(LOOK_SECONDS)
    return why


def require(path: Path | str) -> None:
    """Raise FileNotFoundError for a path within this process's data folder while that is away."""
    if (why := why_away(path)) is not None:
        raise FileNotFoundError(errno.ENOENT, why, str(path))


def claims_folder() -> Path:
    """Return where each running desk of this user on this machine has a locked file, which names its data folder."""
    return Path(tempfile.gettempdir()) / f"chordesk-{os.getuid()}-desks"


def claim_text(home: str) -> str:
    return f"the desk on {home} (process {os.getpid()})"


_CLAIM = re.compile(r"the desk on (.*) \((process \d+)\)", re.DOTALL)


def why_taken(path: Path) -> str | None:
    """Return that a running desk has its data folder at this path or above it, where nothing is now: what was made
    there would keep the folder from being brought back. None for a path that is there."""
    at = Path(os.path.realpath(path))
    missing = {str(each) for each in (at, *at.parents) if not os.path.lexists(each)}
    for claim in claims_folder().glob("home-*.lock") if missing else ():
        with suppress(OSError), claim.open(encoding="utf-8", errors="replace") as file:
            told = _CLAIM.fullmatch(file.read(_MOST_BYTES))
            if told is not None and told[1] in missing and _is_locked(file):
                return f"the data folder {told[1]} of a running desk ({told[2]}) is away (moved, deleted or unmounted)"
    return None


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def make_folder(path: Path, mode: int = 0o777) -> None:
    """Make a folder and those above it, but never this process's data folder nor what is above that, nor one that a
    running desk waits for. Raises OSError."""
    kept = _of(path)
    if kept is None:
        if (why := why_taken(path)) is not None:
            raise FileNotFoundError(errno.ENOENT, f"{why}: {AWAY_REMEDY}", str(path))
        path.mkdir(mode, parents=True, exist_ok=True)
        return
    require(path)
    home, missing = Path(kept.home), list[Path]()
    at = Path(os.path.abspath(path))
    while at != home and not at.is_dir():
        missing.append(at)
        at = at.parent
    for each in reversed(missing):
        each.mkdir(mode if each == missing[0] else 0o777, exist_ok=True)


def put_back_as_copy(home: Path, known: Identity) -> bool:
    """Return whether a copy is in the folder's place: what was opened before is of another file."""
    try:
        return why_away(home) is None and not known.is_at(home.stat())
    except OSError:
        return False
