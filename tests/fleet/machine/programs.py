"""The servers of the rehearsal that are no Python packages: where they are, and how they get onto a Debian machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.postgres import binaries

PACKAGES = {"postgres": "postgresql", "redis-server": "redis-server", "prometheus": "prometheus"}
# What asks it whether a package may start its service: 101 is no.
POLICY = Path("/usr/sbin/policy-rc.d")
REFUSE = "#!/bin/sh\nexit 101\n"
APT_SECONDS = 300.0


class Unavailable(Exception):
    """A program that is not there, with the remedy."""


@dataclass(frozen=True, slots=True)
class Programs:
    """Paths of the servers. postgres: the folder of `initdb` and `postgres`."""

    postgres: Path
    redis: Path
    prometheus: Path


def found() -> dict[str, Path]:
    """Return those that are on the PATH or, of PostgreSQL, where the distribution keeps it; by command."""
    there = {name: Path(path) for name in PACKAGES if (path := shutil.which(name))}
    there.pop("postgres", None)
    if (folder := binaries()) is not None:
        there["postgres"] = folder
    return there


def require() -> Programs:
    """Return the servers' paths; install those that are missing where that is possible. Raises Unavailable."""
    there = found()
    if missing := [PACKAGES[name] for name in PACKAGES if name not in there]:
        _install(missing)
        there = found()
    if missing := [PACKAGES[name] for name in PACKAGES if name not in there]:
        raise Unavailable(f"{', '.join(missing)}: installed, and still not found on the PATH")
    return Programs(there["postgres"], there["redis-server"], there["prometheus"])


def _install(packages: list[str]) -> None:
    command = f"apt-get install --no-install-recommends {' '.join(packages)}"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise Unavailable(
            f"not on this machine: {', '.join(packages)}. As root of a Debian machine `{command}` brings them; "
            "elsewhere put postgres, initdb, redis-server (6.2 or newer, with TLS) and prometheus on the PATH"
        )
    print(f"installing {', '.join(packages)}", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with _no_service_starts():
        for step in (["apt-get", "update", "-qq"], [*command.split(), "-y", "-qq"]):
            done = subprocess.run(step, env=environ, capture_output=True, text=True, timeout=APT_SECONDS, check=False)
            if done.returncode != 0:
                raise Unavailable(f"`{' '.join(step)}` failed: {done.stderr.strip()[-500:]}")
    _disable(packages)


def _disable(packages: list[str]) -> None:
    """A package enables its service for the next start of the machine. The rehearsal never uses it."""
    if systemctl := shutil.which("systemctl"):
        subprocess.run([systemctl, "disable", "-q", *packages], capture_output=True, timeout=60, check=False)


@contextlib.contextmanager
def _no_service_starts() -> Iterator[None]:
    """While the block runs, a package that is installed starts no service of the system."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text(REFUSE, encoding="utf-8")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)
