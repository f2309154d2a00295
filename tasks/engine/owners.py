"""Owners of steps: the name of a worker process, and what can be told here of another."""

from __future__ import annotations

import os
import socket
import uuid
from enum import StrEnum
from pathlib import Path

import psutil

PLAYER = "walk"  # name of a process that plays backtests by itself


class Standing(StrEnum):
    """What can be told of a process by its name."""

    LIVES = "lives"
    DEAD = "dead"
    UNKNOWN = "unknown"  # it is of another machine or container, or stopped


def owner_of(name: str) -> str:
    return f"{name}@{socket.gethostname()}:{os.getpid()}:{_pid_namespace()}-{uuid.uuid4().hex[:8]}"


def standing(owner: str) -> Standing:
    place, pid, rest = (*owner.rsplit(":", 2), "", "")[:3]
    if (
        not pid.isdigit()
        or place.rpartition("@")[2] != socket.gethostname()
        or rest.partition("-")[0] != _pid_namespace()
    ):
        return Standing.UNKNOWN
    try:
        os.kill(int(pid), 0)  # not by /proc, which may hide another user's processes
        status = psutil.Process(int(pid)).status()
    except ProcessLookupError:
        return Standing.DEAD
    except (OSError, psutil.Error):
        return Standing.UNKNOWN
    if status == psutil.STATUS_ZOMBIE:
        return Standing.DEAD
    return Standing.UNKNOWN if status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP) else Standing.LIVES


def _pid_namespace() -> str:
    """Return what tells containers of one host apart; 0 where there are none."""
    try:
        return f"{Path('/proc/self/ns/pid').stat().st_ino:x}"
    except OSError:
        return "0"
