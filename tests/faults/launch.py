"""Starts a `desk` command with one of the suite's switches; the rooms know nothing of them.

python -m tests.faults.launch --claim-switch COMMAND...  while the desk's folder holds a file `no-claim`, every message
                                                         of a step takes it, also a held one
python -m tests.faults.launch --clock FILE COMMAND...    the desk's clock is off by the seconds that FILE holds
"""

from __future__ import annotations

import datetime as dt
import importlib
import os
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from chordesk.models.states import StepState
from chordesk.models.tables import columns

NO_CLAIM = "no-claim"


def is_on(switch: str) -> bool:
    """Return whether a switch is on: a file in the desk's folder, which a scenario puts there and takes away."""
    return (Path(os.environ["DESK_HOME"]) / switch).exists()


def with_claim_switch() -> None:
    """Switched on, every message finds its step free, though it is held or has ended. A suite that passes so tests no
    claim."""
    graph: Any = importlib.import_module("chordesk.tasks.engine.graph")
    real = graph.claim

    def claim(session: Session, step_id: str, *rest: Any, **more: Any) -> Any:
        if is_on(NO_CLAIM):
            free(session, step_id, graph.Step)
        return real(session, step_id, *rest, **more)

    graph.claim = claim


def free(session: Session, step_id: str, table: Any) -> None:
    values = {"state": StepState.READY, "due_at": columns.utcnow(), "lease_until": None}
    held_or_final = col(table.state) != StepState.WAITING
    session.connection().execute(
        update(table).where(col(table.id) == step_id, held_or_final).values(max_attempts=table.attempt + 2, **values)
    )


def with_clock(file: Path) -> None:
    """Must come before any module takes `utcnow` by name; so nothing that does is imported above."""
    real = columns.utcnow

    def utcnow() -> dt.datetime:
        return real() + dt.timedelta(seconds=float(file.read_text() or 0))

    columns.utcnow = utcnow


def main() -> None:
    switch, *rest = sys.argv[1:]
    if switch == "--claim-switch":
        with_claim_switch()
    elif switch == "--clock":
        with_clock(Path(rest.pop(0)))
    else:
        raise SystemExit(f"no switch {switch!r}")
    sys.argv = ["desk", *rest]
    importlib.import_module("chordesk.tasks.cli.main").main()


if __name__ == "__main__":
    main()
