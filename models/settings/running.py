"""The files by which a running `desk up` informs other processes of its home: a lock that it holds, and its addresses
and settings. They count only while the lock is held: a crash leaves the file behind."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chordesk.models.errors import SettingError
from chordesk.models.files import replacing
from chordesk.models.settings.schema import Settings
from chordesk.models.settings.snapshots import PUBLISHED
from chordesk.models.urls import masked

ADDRESSES = frozenset({"redis_url", "rulebook_url", "flower_url", "database_url"})
PLACES = "places"  # of the desk's data, without logins: a terminal that has others is refused


def lock_path(home: Path) -> Path:
    return home / "run" / "up.lock"


def services_path(home: Path) -> Path:
    return home / "run" / "services.json"


def is_up(home: Path) -> bool:
    """Return True if a `desk up` holds this home. Raises OSError when its lock cannot be read."""
    try:
        with lock_path(home).open("rb") as handle:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except BlockingIOError:
        return True
    return False


def write(home: Path, table: Mapping[str, Any]) -> None:
    """Write the file, readable by this user alone."""
    with replacing(services_path(home)) as file:
        file.write((json.dumps(dict(table), indent=2) + "\n").encode())


def read(home: Path) -> dict[str, Any]:
    """Return the table that the running `desk up` of this home has written; empty when none runs. Raises SettingError
    when it cannot be read."""
    path = services_path(home)
    try:
        if not is_up(home):
            return {}
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from None
    if not isinstance(table, dict):
        raise _unreadable(path, "holds no JSON object")
    return {name: value for name, value in table.items() if name in ADDRESSES or name in PUBLISHED or name == PLACES}


def places(settings: Settings) -> dict[str, str]:
    """Return where a process has its data: URLs without logins, that of its Redis only where it has one."""
    redis = settings.redis_url
    found = {"database_url": settings.database, "redis_url": redis.get_secret_value() if redis is not None else None}
    return {name: masked(url) for name, url in found.items() if url is not None}


def has_settings(table: Mapping[str, Any]) -> bool:
    """Return whether a table has the settings of a running desk, besides addresses."""
    return "provider" in table


def api_path(home: Path) -> Path:
    return home / "run" / "api.json"


def write_api(home: Path, url: str) -> None:
    """Write where this process serves the home over HTTP. The file stays, so that the next start can take the same
    port: open pages go on there."""
    with replacing(api_path(home)) as file:
        file.write((json.dumps({"url": url, "pid": os.getpid()}) + "\n").encode())


def read_api(home: Path) -> tuple[str, bool] | None:
    """Return the URL at which the home was last served over HTTP, and whether that process lives; None when it never
    was."""
    try:
        table = json.loads(api_path(home).read_text(encoding="utf-8"))
        url, pid = str(table["url"]), int(table["pid"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return url, False
    except PermissionError:
        return url, True
    return url, True


def last_api_port(home: Path) -> int:
    """Return the port at which the home was last served; 0 when it never was."""
    found = read_api(home)
    port = found[0].rpartition(":")[2] if found is not None else ""
    return int(port) if port.isdecimal() else 0


def _unreadable(path: Path, why: str) -> SettingError:
    return SettingError(f"{path}: {why}", remedy="stop `desk up`, which wrote it, and start it again")
