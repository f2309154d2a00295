"""The traces of a rehearsal: its processes by a mark in their environment and by their ids, its ports, its folders."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.stack import listens

MARK = "CHORDESK_FLEET"  # in the environment of each process, with a value of its own in each rehearsal
END_SECONDS = 10.0


@dataclass(slots=True)
class Leftovers:
    """What must be gone at the end. pids: with the time of their start, for ids are used again."""

    mark: str
    pids: dict[int, float] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    folders: set[Path] = field(default_factory=set)

    def note(self, pid: int) -> None:
        """Remember a server: it overwrites its environment, so that the mark is lost."""
        with contextlib.suppress(psutil.NoSuchProcess):
            self.pids[pid] = psutil.Process(pid).create_time()

    def processes(self) -> list[psutil.Process]:
        """Return those that live, without this one."""
        return [process for process in psutil.process_iter() if process != psutil.Process() and self._ours(process)]

    def _ours(self, process: psutil.Process) -> bool:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
            noted = self.pids.get(process.pid) == process.create_time()
            return noted or process.environ().get(MARK) == self.mark
        except psutil.Error:
            return False  # it has just ended, or is another user's

    def end_processes(self, seconds: float = END_SECONDS) -> list[str]:
        """Wait for those that are about to end, kill the others by their ids, and return their names."""
        until = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < until:
            time.sleep(0.2)
        names = [_described(process) for process in left]
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, 5)
        return names

    def listening(self) -> list[int]:
        return sorted(port for port in self.ports if listens(port))

    def there(self) -> list[str]:
        return sorted(str(folder) for folder in self.folders if folder.exists())


def _described(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return f"{process.pid} {' '.join(process.cmdline())[:80]}"
    return str(process.pid)


def shown(kind: str, found: Iterable[object]) -> str:
    """Return a line for people: how many are left, and which."""
    listed = [str(one) for one in found]
    return f"{len(listed)} {kind}" + (f" ({', '.join(listed)})" if listed else "")
