"""The view of the graphs of a run: how far each is, and what it came to."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.agents.roles import GRAPH_ROLES
from chordesk.models.research import Frozen
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.runs import Run, Step, Turn


class GraphRow(Frozen):
    """One graph. state: that of its last chapter; reason: why it did not end well; output: what it came to, None before
    its end."""

    graph: str
    state: str
    reason: str | None
    chapters: int
    turns: int
    output: Any


def graphs(session: Session, run: Run) -> list[GraphRow]:
    """Return the graphs of a run in the order of its inputs or symbols; none for a run that plays none."""
    if run.kind != RunKind.GRAPH and GRAPH_ROLES.keys().isdisjoint(run.params.get("roles", ())):
        return []
    which = (Step.run_id == run.id, Step.kind == StepKind.GRAPH)
    steps = session.exec(select(Step).where(*which).order_by(col(Step.created_at), col(Step.id))).all()
    counted = select(Turn.subject, func.count()).where(Turn.run_id == run.id).group_by(Turn.subject)
    turns = dict(session.exec(counted.where(col(Turn.step_id).in_([step.id for step in steps]))).all())
    found = []
    threads = sorted({str(one.payload["graph"]) for one in steps})
    for name in dict.fromkeys((*run.params.get("inputs", ()), *run.params.get("symbols", ()), *threads)):
        own = sorted(
            (one for one in steps if one.payload["graph"] == name), key=lambda one: int(one.payload["chapter"])
        )
        if own:
            last = own[-1]
            row = {"state": last.state, "reason": last.error, "chapters": len(own), "turns": turns.get(name, 0)}
            found.append(GraphRow(graph=name, output=last.result.get("output"), **row))
    return found


def _chapter(step: Step) -> int:
    return int(step.payload["chapter"])
