"""Graphs that lose their workers again and again: each goes on at its node, and what a node did is there once."""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain

from sqlmodel import Session, col, select

from chordesk.models.states import RUN_FINAL, RunState, StepKind
from chordesk.models.tables.runs import GraphCheckpoint, GraphWrite, Run, Step, ToolCall, Turn
from chordesk.tasks.workflows.graph import open_graphs
from tests.faults.check import Findings
from tests.faults.desk import GRAPHS, WORKERS, FaultDesk
from tests.faults.journal import Asked
from tests.faults.scenario import Result
from tests.toy.graphs import ANALYSTS, NODES, TURNS

SECONDS = 900.0


def workers_killed(tickers: int, kills: int, desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL to one worker or the other while it has calls of graphs in flight, at random over all of their calls."""
    names = [f"T{number:02}" for number in range(1, tickers + 1)]
    inputs = {name: {"ticker": name, "messages": [["user", name]]} for name in names}
    run_id = open_graphs(desk.processes.app, f"{GRAPHS}:research", inputs).id
    moments = sorted(chance.randrange(1, tickers * (len(TURNS) - 1)) for _ in range(kills))
    held: list[list[str]] = []  # the graphs in work at each kill
    for moment in moments:
        if (victim := _victim(desk, run_id, moment, chance)) is None:
            break
        held.append(_kill(desk, victim, run_id))
    desk.await_end(run_id, seconds=SECONDS)
    result.runs += 1
    result.findings.add(graph_findings(desk, run_id, names, held))
    if len(held) < kills:
        result.findings.wrong.append(f"the graphs had ended after {len(held)} of {kills} kills")
    repeated = len(_calls(desk, run_id)) - tickers * len(TURNS)
    result.notes.append(f"{repeated} calls again, at most {sum(map(len, held))}")
    for name in WORKERS:
        desk.await_worker(name)


def _victim(desk: FaultDesk, run_id: str, moment: int, chance: random.Random) -> str | None:
    """Wait until so many calls of a run were answered, then for a worker with a call in flight; None when the run has
    ended before."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and desk.run(run_id).state not in RUN_FINAL:
        answered = sum(call.ended is not None and not call.gone for call in _calls(desk, run_id))
        asking = [name for name in WORKERS if desk.asking(desk.held_by(name, run_id))]
        if answered >= moment and asking:
            return chance.choice(asking)
        time.sleep(0.02)
    return None


def _kill(desk: FaultDesk, victim: str, run_id: str) -> list[str]:
    """Kill a worker, and return the graphs that it had in work."""
    held = desk.kill_in_flight(victim, [run_id])
    with desk.store.read() as session:
        steps = session.exec(select(Step).where(col(Step.id).in_(held.steps))).all()
    return [step.payload["graph"] for step in steps]


def _calls(desk: FaultDesk, run_id: str) -> list[Asked]:
    return desk.journal.of([run_id])


def graph_findings(desk: FaultDesk, run_id: str, names: Sequence[str], held: Sequence[Sequence[str]]) -> Findings:
    """Look at what the graphs left. held: those in work at each kill."""
    found = Findings()
    with desk.store.read() as session:
        run = session.get_one(Run, run_id)
        if (run.state, run.notes) != (RunState.DONE, []):
            found.lost.append(f"run {run_id} is {run.state}: {run.notes}")
        steps = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH)).all()
        outputs = {step.payload["graph"]: step.result["output"] for step in steps if "output" in step.result}
        found.lost += [f"graph {name}" for name in names if name not in outputs]
        # Each node adds its name to the state, and each analyst its report.
        found.wrong += [
            f"graph {name} went {output['nodes']}" for name, output in outputs.items() if output["nodes"] != list(NODES)
        ]
        for what, rows, once in _rows(session, run_id, names):
            found.lost += [f"{what} {key}" for key in (once - rows)]
            found.doubled += [f"{what} {key}" for key in (rows - once)]
        for table in (GraphCheckpoint, GraphWrite):
            if session.exec(select(table).where(table.run_id == run_id)).first() is not None:
                found.wrong.append(f"{table.__name__} rows are left")
    graph_of = {step.id: step.payload["graph"] for step in steps}
    found.doubled += _asked_too_often(_calls(desk, run_id), graph_of, Counter(chain(*held)))
    return found


def _rows(
    session: Session, run_id: str, names: Sequence[str]
) -> Iterator[tuple[str, Counter[tuple[str, ...]], Counter[tuple[str, ...]]]]:
    """Yield what each node wrote, and what it writes once."""
    turns = session.exec(select(Turn.subject, Turn.role).where(Turn.run_id == run_id)).all()
    yield "turn", Counter(turns), Counter((name, role) for name in names for role in TURNS)
    calls = session.exec(select(Turn.subject, Turn.role, ToolCall.tool).join(Turn).where(Turn.run_id == run_id)).all()
    yield "tool call", Counter(calls), Counter((name, role, "get_prices") for name in names for role in ANALYSTS)


def _asked_too_often(calls: Sequence[Asked], graph_of: dict[str, str], held: Counter[str]) -> Iterator[str]:
    """Yield the graphs with more model calls than one a node, and one more for each kill that met them."""
    roles: dict[str, Counter[str]] = defaultdict(Counter)
    for call in calls:
        roles[graph_of[call.step_id]][call.role] += 1
    for name, asked in roles.items():
        if asked.total() > len(TURNS) + held[name]:
            yield f"graph {name}: {asked.total()} calls with {held[name]} kills: {dict(asked)}"
