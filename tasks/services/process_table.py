"""The table of a supervisor's processes, kept in a file so that none is left behind after a crash."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from chordesk.models.files import replacing


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process, identified by pid and creation time: a later process may get the same pid."""

    pid: int
    created: float
    command: str

    def process(self) -> psutil.Process | None:
        """Return the living process, or None."""
        try:
            found = psutil.Process(self.pid)
            if abs(found.create_time() - self.created) > 0.02 or found.status() == psutil.STATUS_ZOMBIE:
                return None
        except psutil.Error:
            return None
        return found


class ProcessTable:
    """The living descendants of a process, written to a file for the cleanup after a crash."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: dict[tuple[int, float], ProcessRecord] = {}

    def take(self, root: int) -> list[ProcessRecord]:
        """Add the process `root` and all its current descendants; return those that live now."""
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

    def living(self) -> list[ProcessRecord]:
        return [member for member in self._seen.values() if member.process()]

    def load(self) -> list[ProcessRecord]:
        """Return the processes in an earlier supervisor's file that still live."""
        try:
            rows = json.loads(self._path.read_text(encoding="utf-8"))
            members = [ProcessRecord(int(row["pid"]), float(row["created"]), str(row["command"])) for row in rows]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return [member for member in members if member.process()]

    def forget(self) -> None:
        self._seen.clear()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        with replacing(self._path) as file:
            file.write(json.dumps([asdict(member) for member in self._seen.values()]).encode())


def _member(process: psutil.Process) -> ProcessRecord | None:
    try:
        with process.oneshot():
            return ProcessRecord(process.pid, process.create_time(), _brief(process.cmdline()))
    except psutil.Error:
        return None


def _brief(command: list[str]) -> str:
    """Return the command in one line: the program and its last arguments, for an app-server has a page of flags."""
    whole = " ".join(command)
    return whole if len(whole) <= 300 else " ".join([command[0], "...", *command[-4:]])[:300]


def end(members: Iterable[ProcessRecord], grace_seconds: float) -> list[ProcessRecord]:
    """Send SIGTERM, then SIGKILL to those that survive; return those that were still alive."""
    alive = [(member, process) for member in members if (process := member.process())]
    for _, process in alive:
        with suppress(psutil.Error):
            process.terminate()
    _, stubborn = psutil.wait_procs([process for _, process in alive], timeout=grace_seconds)
    for process in stubborn:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(stubborn, timeout=1.0)
    return [member for member, _ in alive]
