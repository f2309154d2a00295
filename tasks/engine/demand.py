"""The demand for research workers: one query, which autoscalers, gauges and Kubernetes share.

The number of research workers wanted is the answer divided by DESK_CODEX_TURNS, rounded up. Steps in work count: a
queue's length alone would take away the workers that have just emptied it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from sqlalchemy import text
from sqlmodel import Session

from chordesk.models.states import RunState, StepState
from chordesk.tasks.engine.kinds import WORKER_QUEUES, kinds_of

# Columns hold UTC without an offset, so the time of the session's own zone would not do.
NOW: Mapping[str, str] = {
    "postgresql": "now() AT TIME ZONE 'utc'",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
}


def query(dialect: str = "postgresql") -> str:
    """Return the SQL that counts the steps of research workers that are due or in work, one row of one number.

    They are those that run a turn, and those that lead to some: a screen's first step runs none, and no other worker
    takes it. A step that waits for a delay, as on a parked model, or for its children is not counted. dialect:
    SQLAlchemy's name, postgresql or sqlite. Call it once the workflows are loaded (`tasks.worker.app`), which declare
    the kinds.
    """
    queues = WORKER_QUEUES["research"].split(",")
    kinds = ", ".join(f"'{kind}'" for kind in sorted(kinds_of(lambda spec: spec.queue in queues)))
    return "\n".join(
        (
            "SELECT count(*) FROM step JOIN run ON run.id = step.run_id",
            f"WHERE step.kind IN ({kinds})",
            f"AND step.state IN ('{StepState.READY}', '{StepState.RUNNING}')",
            f"AND (step.state = '{StepState.RUNNING}'",
            f"OR run.state = '{RunState.RUNNING}' AND step.due_at <= {NOW[dialect]})",
        )
    )


def demand(session: Session) -> int:
    """Return the number of steps that `query` counts."""
    found = session.connection()
    return int(found.execute(text(query(found.dialect.name))).scalar_one())


def workers_wanted(steps: int, turns: int, least: int = 1, most: int | None = None) -> int:
    """Return the number of research workers for a demand, as Kubernetes' autoscaler does: the steps divided by the
    turns of one worker, rounded up. least, most: bounds; no upper one by default."""
    wanted = max(least, math.ceil(steps / turns))
    return wanted if most is None else min(wanted, most)
