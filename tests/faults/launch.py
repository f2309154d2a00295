"""Starts a `desk` command with one of the suite's switches; the rooms know nothing of them.

python -m tests.faults.launch --no-claim COMMAND...      every message of a step takes it, whoever holds it
python -m tests.faults.launch --clock FILE COMMAND...    the desk's clock is off by the seconds that FILE holds
"""

from __future__ import annotations

import datetime as dt
import importlib
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from models import tables
from models.states import StepState


def without_claim() -> None:
    """Every message finds its step free, though it is held or has ended. A suite that passes so tests no claim."""
    graph = importlib.import_module("tasks.graph")
    real = graph.claim

    def claim(session: Session, step_id: str, *rest: Any, **more: Any) -> Any:
        free = {"state": StepState.READY, "due_at": tables.utcnow(), "lease_until": None}
        attempts = tables.Step.attempt + 2
        held_or_final = col(tables.Step.state) != StepState.WAITING
        session.connection().execute(
            update(tables.Step)
            .where(col(tables.Step.id) == step_id, held_or_final)
            .values(max_attempts=attempts, **free)
        )
        return real(session, step_id, *rest, **more)

    graph.claim = claim


def with_clock(file: Path) -> None:
    """Must come before any module takes `utcnow` by name."""
    real = tables.utcnow

    def utcnow() -> dt.datetime:
        return real() + dt.timedelta(seconds=float(file.read_text() or 0))

    tables.utcnow = utcnow


def main() -> None:
    switch, *rest = sys.argv[1:]
    if switch == "--no-claim":
        without_claim()
    elif switch == "--clock":
        with_clock(Path(rest.pop(0)))
    else:
        raise SystemExit(f"no switch {switch!r}")
    sys.argv = ["desk", *rest]
    importlib.import_module("tasks.cli.main").main()


if __name__ == "__main__":
    main()
