"""Graphs of LangGraph as durable work: each is one step in chapters, which goes on at its node after a kill, a drain or
a limit of the provider's rate. LangGraph is loaded by these steps alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.tradingagents.project import ROLE
from chordesk.models.database.store import insert_rows
from chordesk.models.errors import UsageError
from chordesk.models.states import RUN_FINAL, RunKind, StepKind
from chordesk.models.tables.runs import GraphCheckpoint, GraphPart, GraphWrite, Run, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from chordesk.tasks.reading.runs import graph_rows
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.work import Ending
from chordesk.tasks.workflows.graphs.factory import load_graph, require_allowed
from chordesk.tasks.workflows.runs import new_run, open_run


def _chapter(step: Step) -> int:
    return int(step.payload["chapter"])


def open_graphs(app: DeskApp, factory: str, inputs: Mapping[str, Any]) -> Run:
    """Start a run with one graph of a MODULE:FACTORY for each input, by name. Raises UsageError for a factory that is
    not listed in DESK_GRAPHS, does not import or returns no graph, and for an input that is not a JSON object."""
    desk = app.desk
    if not inputs:
        raise UsageError("there is no input", remedy="give one object for each graph")
    for name, given in inputs.items():
        if not isinstance(given, dict):
            raise UsageError(f"the input of {name} is no object but {given!r:.80}", remedy="give a JSON object")
    load_graph(factory, desk.settings.graphs)
    run = new_run(desk, RunKind.GRAPH, {"factory": factory, "inputs": dict(inputs)})

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        return [_first(finish, name) for name in inputs]

    return open_run(app, run, write)


def resume_graphs(app: DeskApp, of: str) -> Run:
    """Start a run that goes on with the graphs of an earlier run which did not end well, each at its last checkpoint.
    of: the run's id. Raises UsageError for a run of another kind, one that still runs, and one whose graphs all ended
    well."""
    desk = app.desk
    with desk.store.read() as session:
        old = session.get_one(Run, of)
        factory = old.params.get("factory") if old.kind == RunKind.GRAPH else None
        if factory is None:
            raise UsageError(f"run {old.id} is no run of `desk graph`", remedy="name one; `desk runs list` shows them")
        if old.state not in RUN_FINAL:
            raise UsageError(f"run {old.id} is still {old.state}", remedy="its graphs go on by themselves")
        names = [row.graph for row in graph_rows(session, old) if row.output is None]
    if not names:
        raise UsageError(f"all graphs of run {old.id} ended well", remedy="there is nothing to go on with")
    load_graph(factory, desk.settings.graphs)
    inputs = {name: old.params["inputs"][name] for name in names}
    run = new_run(desk, RunKind.GRAPH, {"factory": factory, "inputs": inputs, "resumes": old.id}, parent=old.id)

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        session.flush()
        for table in (GraphCheckpoint, GraphPart, GraphWrite):
            which = (table.run_id == old.id, col(table.thread).in_(names))
            kept = [one.model_dump() for one in session.exec(select(table).where(*which)).all()]
            insert_rows(session, [table(**values | {"run_id": row.id}) for values in kept])
        return [_first(finish, name) for name in names]

    return open_run(app, run, write)


def _first(finish: str, name: str) -> NewStep:
    return NewStep(StepKind.GRAPH, finish, name, payload={"graph": name, "chapter": 1})


def play_chapter(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run the graph's nodes until it ends, or its chapter does. Raises LeaseLost, StepEnded, UsageError."""
    if step.role == ROLE:
        from chordesk.tasks.workflows.tradingagents.chapter import TickerChapter

        return TickerChapter(desk, step, held).play()
    from chordesk.tasks.workflows.graphs.chapters import Chapter  # LangGraph: no other step needs it

    return Chapter(desk, step, held).play()


def graph_lack(desk: Desk, step: ReadyStep) -> str | None:
    """Return the graph of a step if this process may not load it. One of TradingAgents is the feature's own."""
    if step.role == ROLE:
        return None
    with desk.store.read() as session:
        factory = session.get_one(Run, step.run_id).params["factory"]
    try:
        require_allowed(factory, desk.settings.graphs)
    except UsageError as error:
        return f"the graph {factory}: {error.args[0]}"
    return None


def graph_figures(session: Session, run: Run) -> dict[str, Any]:
    steps = session.exec(select(Step).where(Step.run_id == run.id, Step.kind == StepKind.GRAPH)).all()
    done = sum(step.result.get("status") == "completed" for step in steps)
    return {"graphs": {"asked": len(run.params["inputs"]), "completed": done, "chapters": len(steps)}}


WORKFLOWS = (
    Workflow(
        RunKind.GRAPH,
        "research",
        (
            StepSpec(
                StepKind.GRAPH,
                "research",
                play_chapter,
                "research",
                "chapters",
                lacks=graph_lack,
                turn=True,
                spine=True,
            ),
        ),
        figures=graph_figures,
    ),
)
