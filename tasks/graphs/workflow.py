"""Graphs of LangGraph as durable work: each is one step in chapters, which goes on at its node after a kill, a drain or
a limit of the provider's rate. LangGraph is loaded by these steps alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.agents.graphs.tradingagents.project import ROLE
from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store, insert_rows
from chordesk.models.errors import GraphState, UsageError
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunKind, StepKind
from chordesk.models.tables.runs import GraphCheckpoint, GraphPart, GraphWrite, Run, Step
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from chordesk.tasks.graphs.graph_factory import load_graph, require_allowed
from chordesk.tasks.graphs.run_view import graph_rows
from chordesk.tasks.worker.endings import Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import Look, Request, new_run, open_run


class GraphRequest(Request):
    """A request for a run of graphs, one for each input, by its name."""

    kind: Literal["graph"]
    factory: str = Field(max_length=200, description="MODULE:FACTORY; the module is listed in DESK_GRAPHS")
    inputs: dict[str, dict[str, Any]] = Field(min_length=1, max_length=100, description="by name, a graph's input")

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        # The service and the schedule's worker load no code of others: the step says what is wrong with it.
        require_allowed(self.factory, app.desk.settings.graphs)
        return _open(app, self.factory, self.inputs, look)


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
    return _open(app, factory, inputs)


def _open(app: DeskApp, factory: str, inputs: Mapping[str, Any], look: Look | None = None) -> Run:
    run = new_run(app.desk, RunKind.GRAPH, {"factory": factory, "inputs": dict(inputs)})

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        return [_first(finish, name) for name in inputs]

    return open_run(app, run, write, look)


def resume_graphs(app: DeskApp, of: str) -> Run:
    """Start a run that goes on with the graphs of an earlier run which did not end well, each at its last checkpoint.
    of: the run's id. Raises UsageError for a run of another kind, one that still runs, and one whose graphs all ended
    well."""
    desk = app.desk
    with desk.store.read() as session:
        old, factory = _of_graphs(session, of)
        if old.state not in RUN_FINAL:
            raise UsageError(f"run {old.id} is still {old.state}", remedy="its graphs go on by themselves")
        names = [row.graph for row in graph_rows(session, old) if row.output is None]
    if not names:
        remedy = "go on from an earlier step: `desk graph --history RUN` shows them, --at takes one"
        raise UsageError(f"all graphs of run {old.id} ended well", remedy=remedy)
    load_graph(factory, desk.settings.graphs)
    return _reopen(app, old, names)


def fork_graph(
    app: DeskApp, of: str, name: str | None, number: int | None, values: Mapping[str, Any] | None, node: str | None
) -> Run:
    """Start a run that goes on with one graph of an earlier run as it was after a step of it, or after the last. name:
    of the graph, where the run has several; values: to update its state with first, as if `node` had written them.
    Raises UsageError for a step, a node or a graph that there is not."""
    from chordesk.tasks.graphs.checkpoints import GraphReader  # LangGraph: no other command needs it

    desk = app.desk
    with desk.store.read() as session:
        old, factory = _of_graphs(session, of)
    names = list(old.params["inputs"])
    if name not in names and (name is not None or len(names) > 1):
        raise UsageError(
            f"run {old.id} has no graph {name}" if name else f"run {old.id} has {len(names)} graphs",
            remedy=f"give --graph: one of {', '.join(names)}",
        )
    thread = name or names[0]
    graph = load_graph(factory, desk.settings.graphs)
    if node is not None and node not in graph.nodes:
        raise UsageError(f"the graph has no node {node}", remedy=f"give --as: one of {', '.join(sorted(graph.nodes))}")
    found = {
        one.metadata.get("step", 0): one.checkpoint["id"] for one in GraphReader(desk.store, old.id, thread).list(None)
    }
    if not found or (number is not None and number not in found):
        steps = f"its steps are {min(found)} to {max(found)}" if found else "nothing of it is kept"
        raise UsageError(f"graph {thread} of run {old.id} has no step {number}: {steps}", remedy="name one of these")
    checkpoint = found[number if number is not None else max(found)]
    update = {"update": dict(values), "node": node, "at": checkpoint} if values is not None else {}
    return _reopen(app, old, [thread], checkpoint, update)


class GraphStep(Frozen):
    """The state of a graph after a step: -1 is its input. next: the nodes that it goes on at; values: the state, None
    where JSON cannot hold it."""

    graph: str
    step: int
    source: str
    next: list[str]
    at: dt.datetime
    values: Any


def history_of(store: Store, settings: Settings, of: str) -> list[GraphStep]:
    """Return what is kept of a run's graphs, the oldest first. Loads the graph's code, as it is now."""
    from chordesk.tasks.graphs.chapters import json_output
    from chordesk.tasks.graphs.checkpoints import GraphReader

    with store.read() as session:
        run, factory = _of_graphs(session, of)
    graph, found = load_graph(factory, settings.graphs), []
    for name in run.params["inputs"]:
        graph.checkpointer = GraphReader(store, run.id, name)
        for state in graph.get_state_history({"configurable": {"thread_id": name}}):
            about = state.metadata or {}
            try:
                values = json_output(state.values)
            except GraphState:
                values = None
            row = {"source": about.get("source", ""), "at": state.created_at, "values": values}
            found.append(GraphStep(graph=name, step=about.get("step", 0), next=list(state.next), **row))
    return sorted(found, key=lambda one: (list(run.params["inputs"]).index(one.graph), one.step))


def _of_graphs(session: Session, of: str) -> tuple[Run, str]:
    run = session.get_one(Run, of)
    factory = run.params.get("factory") if run.kind == RunKind.GRAPH else None
    if factory is None:
        raise UsageError(f"run {run.id} is no run of `desk graph`", remedy="name one; `desk runs list` shows them")
    return run, factory


def _reopen(
    app: DeskApp, old: Run, names: Sequence[str], at: str | None = None, more: Mapping[str, Any] | None = None
) -> Run:
    """Start a run with copies of the newest checkpoints of these graphs, or of one of them. more: of its step."""
    inputs = {name: old.params["inputs"][name] for name in names}
    params = {"factory": old.params["factory"], "inputs": inputs, "resumes": old.id}
    run = new_run(app.desk, RunKind.GRAPH, params, parent=old.id)

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        session.flush()
        for name in names:
            _copy(session, old.id, row.id, name, at)
        return [_first(finish, name, more or {}) for name in names]

    return open_run(app, run, write)


def _copy(session: Session, old: str, new: str, thread: str, at: str | None) -> None:
    """Copy a graph's newest checkpoint with what is within its nodes; one in its past has only itself."""
    own = (GraphCheckpoint.run_id == old, GraphCheckpoint.thread == thread)
    newest = select(GraphCheckpoint).where(*own, GraphCheckpoint.place == "")
    newest = newest.order_by(col(GraphCheckpoint.checkpoint_id).desc()).limit(1)
    last = session.exec(newest).first()
    if last is None:
        return  # it ended before its first step: it begins with its input
    past = at is not None and at != last.checkpoint_id
    kept: list[Any] = [last]
    if past:
        kept = [session.get_one(GraphCheckpoint, (old, thread, "", at))]
    else:
        kept += session.exec(select(GraphCheckpoint).where(*own, GraphCheckpoint.place != "")).all()
        kept += session.exec(select(GraphWrite).where(GraphWrite.run_id == old, GraphWrite.thread == thread)).all()
    kept += session.exec(select(GraphPart).where(GraphPart.run_id == old, GraphPart.thread == thread)).all()
    for table in (GraphCheckpoint, GraphPart, GraphWrite):
        rows = [one.model_dump() for one in kept if isinstance(one, table)]
        insert_rows(session, [table(**values | {"run_id": new}) for values in rows])


def _first(finish: str, name: str, more: Mapping[str, Any] | None = None) -> NewStep:
    return NewStep(StepKind.GRAPH, finish, name, payload={"graph": name, "chapter": 1, **(more or {})})


def play_chapter(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run the graph's nodes until it ends, or its chapter does. Raises LeaseLost, StepEnded, UsageError."""
    if step.role == ROLE:
        from chordesk.tasks.graphs.tradingagents.chapter import TickerChapter

        return TickerChapter(desk, step, held).play()
    from chordesk.tasks.graphs.chapters import Chapter  # LangGraph: no other step needs it

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
                also_in=(RunKind.RESEARCH, RunKind.SCREEN, RunKind.TRADE),
                after="the run, a `report`, or its chapter before",
                writes=("graph_checkpoint", "graph_part", "graph_write", "report"),
            ),
        ),
        figures=graph_figures,
        request=GraphRequest,
    ),
)
