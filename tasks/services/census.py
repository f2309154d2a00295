"""Who belongs to a supervisor: processes we started, remembered so that none is left over."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Member:
    """A process told apart from a later one with the same pid by the moment it was created."""

    pid: int
    created: float
    command: str

    def process(self) -> psutil.Process | None:
        """The living process, or None."""
        try:
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.created) > 0.02 or found.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        return found


class Census:
    """The descendants of a process that were seen and live, written to a file for whoever cleans up after a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[tuple[int, float], Member] = {}

    def take(self, root: int) -> list[Member]:
        """Adds the process `root` and all that descend from it now; returns those that live now."""
        now = []
        with suppress(psutil.Error):
            top = psutil.Process(root)
            now = [member for member in map(_member, [top, *top.children(recursive=True)]) if member]
        known = set(self._seen)
        self._seen = {key: member for key, member in self._seen.items() if member.process()}
        self._seen.update({(member.pid, member.created): member for member in now})
        if set(self._seen) != known:
            self._write()
        return now

    def living(self) -> list[Member]:
        return [member for member in self._seen.values() if member.process()]

    def load(self) -> list[Member]:
        """What an earlier supervisor left in the file and still lives."""
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            members = [Member(int(row["pid"]), float(row["created"]), str(row["command"])) for row in rows]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [member for member in members if member.process()]

    def forget(self) -> None:
        self._seen.clear()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        rows = [
            {"pid": member.pid, "created": member.created, "command": member.command} for member in self._seen.values()
        ]
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(rows), encoding="utf-8")
        partial.replace(self._path)


def _member(process: psutil.Process) -> Member | None:
    try:
        with process.oneshot():
            return Member(process.pid, process.create_time(), _brief(process.cmdline()))
    except psutil.Error:
        return None


def _brief(command: list[str]) -> str:
    """The command in a line: the program and its last words, for an app-server has a page of flags."""
    whole = " ".join(command)
    return whole if len(whole) <= 300 else " ".join([command[0], "...", *command[-4:]])[:300]


def end(members: Iterable[Member], grace_seconds: float) -> list[Member]:
    """SIGTERM, then SIGKILL to those that live; returns those that had to be told."""
    told = [(member, process) for member in members if (process := member.process())]
    for _, process in told:
        with suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs([process for _, process in told], timeout=grace_seconds)
    for process in stubborn:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=1.0)
    return [member for member, _ in told]
