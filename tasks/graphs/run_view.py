"""The graphs of a run, as its view and its report show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.models.answers import Frozen
from chordesk.models.states import StepKind
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


def graph_rows(session: Session, run: Run) -> list[GraphRow]:
    """Return the graphs of a run, as its view shows them."""
    which = (Step.run_id == run.id, Step.kind == StepKind.GRAPH)
    steps = session.exec(select(Step).where(*which).order_by(col(Step.created_at), col(Step.id))).all()
    if not steps:
        return []
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


def unfinished(rows: Sequence[GraphRow]) -> Iterator[dict[str, Any]]:
    """Yield what a report lacks of the graphs."""
    for row in rows:
        if row.reason:
            yield {"what": "graph", "reason": f"{row.graph}: {row.reason}"}
