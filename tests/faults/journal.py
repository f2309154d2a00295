"""The model stand-in's own record of its requests: the turn, the attempt, the kind of answer."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# How a call ended.
FINAL = "final"  # a whole and valid answer: the turn is paid for
TOOL = "tool"
FAULT = "fault"  # what a scenario made the stand-in do instead


@dataclass(slots=True)
class Asked:
    """One model call. at, ended: time.monotonic(); ended is None while it is open; gone: the caller hung up."""

    at: float
    run_id: str
    step_id: str
    attempt: int
    role: str
    turn: str
    answer: str = ""
    ended: float | None = None
    gone: bool = False


@dataclass(slots=True)
class Journal:
    """Every call in the order in which it came; thread-safe. `file` gets a line a call when it has ended."""

    file: Path | None = None
    asked: list[Asked] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, metadata: dict[str, Any]) -> Asked:
        call = Asked(
            time.monotonic(),
            str(metadata.get("run_id", "")),
            str(metadata.get("step_id", "")),
            int(metadata.get("attempt", 0)),
            str(metadata.get("role", "")),
            str(metadata.get("turn_id", "")),
        )
        with self.lock:
            self.asked.append(call)
        return call

    def end(self, call: Asked, *, gone: bool) -> None:
        call.gone, call.ended = gone, time.monotonic()
        if self.file is not None:
            with self.lock, self.file.open("a") as lines:
                lines.write(json.dumps(asdict(call)) + "\n")

    def of(self, runs: Iterable[str]) -> list[Asked]:
        wanted = set(runs)
        with self.lock:
            return [call for call in self.asked if call.run_id in wanted]

    def open(self, where: Callable[[Asked], bool] = lambda call: True) -> list[Asked]:
        """Calls that wait for their answer now."""
        with self.lock:
            return [call for call in self.asked if call.ended is None and where(call)]


def doubled(calls: Iterable[Asked], excused: set[tuple[str, int]]) -> list[str]:
    """Turns that were asked for again without a reason, one sentence each.

    A reason is: the process of the earlier attempt was killed (`excused`, pairs of step and attempt), or the
    stand-in itself failed that attempt. Within an attempt a second turn needs a fault in the first (a repair, or
    the client's own second try).
    """
    attempts: dict[str, dict[int, list[Asked]]] = defaultdict(lambda: defaultdict(list))
    for call in calls:
        attempts[call.step_id][call.attempt].append(call)
    found = []
    for step, by_attempt in attempts.items():
        *earlier, last = sorted(by_attempt)
        for attempt in earlier:
            if (step, attempt) not in excused and not _faulted(by_attempt[attempt]):
                role = by_attempt[attempt][0].role
                found.append(f"step {step} ({role}): attempt {attempt} was asked again as {last}")
        for attempt, asked in by_attempt.items():
            finals = sum(call.answer == FINAL and not call.gone for call in asked)
            turns = len({call.turn for call in asked})
            if finals > 1 or (turns > 1 and not _faulted(asked)):
                found.append(f"step {step} ({asked[0].role}) attempt {attempt}: {turns} turns, {finals} answers")
    return found


def _faulted(calls: Iterable[Asked]) -> bool:
    return any(call.answer == FAULT for call in calls)
