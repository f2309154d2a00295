"""What a process of a desk reads of its SQLite database: each statement, how often, and the steps that SQLite took.

A step is an instruction of SQLite's virtual machine, a handful for each row that it visits: unlike seconds the same on
every machine, busy or not.
"""

from __future__ import annotations

import atexit
import json
import os
import sqlite3
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

VARIABLE = "TEST_READS"  # the folder that processes write to
_GRAIN = 50  # steps between two calls of the progress handler


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._running = threading.local()
        self._first: dict[str, Any] = {}
        self._steps: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()

    def connect(self, connection: Any, record: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.set_progress_handler(self._step, _GRAIN)

    def execute(self, connection: Any, cursor: Any, statement: str, parameters: Any, context: Any, many: bool) -> None:
        self._running.statement = statement
        self._calls[statement] += 1
        if statement not in self._first:
            self._first[statement] = [] if many else parameters

    def _step(self) -> int:
        self._steps[getattr(self._running, "statement", "")] += _GRAIN
        return 0

    def write(self) -> None:
        rows = [[one, self._calls[one], self._steps[one], self._first[one]] for one in self._calls]
        self._path.write_text(json.dumps(rows, default=str), encoding="utf-8")


def apply(environ: Mapping[str, str]) -> None:
    """Record what this process reads, until its end, where the variable says so."""
    if VARIABLE in environ:
        recorder = _Recorder(Path(environ[VARIABLE]) / f"{os.getpid()}.json")
        event.listen(Pool, "connect", recorder.connect)
        event.listen(Engine, "before_cursor_execute", recorder.execute)
        atexit.register(recorder.write)


@dataclass(slots=True)
class Read:
    """A statement, with the parameters of its first call."""

    statement: str
    calls: int
    steps: int
    parameters: Any


def recorded(folder: Path) -> list[Read]:
    """Return what processes have read, the statements that took the most steps first."""
    found: dict[str, Read] = {}
    for path in folder.glob("*.json"):
        for row in json.loads(path.read_text(encoding="utf-8")):
            one = Read(*row)
            if (known := found.setdefault(one.statement, one)) is not one:
                known.calls += one.calls
                known.steps += one.steps
    return sorted(found.values(), key=lambda one: -one.steps)
