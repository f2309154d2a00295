"""A desk of this process with graphs that run through the real app-server, and what the database has of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from celery import Celery
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.states import AttemptEnd, StepKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import GraphCheckpoint, GraphWrite, Run, Step, ToolCall, Turn
from chordesk.tasks.engine import graph
from chordesk.tasks.graphs.chapters import MOST_LOSSES
from chordesk.tasks.graphs.workflow import open_graphs, play_chapter
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.work import work
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses
from tests.stack import processes

MODULE = "tests.toy.graphs"


@dataclass(slots=True)
class Graphs:
    """Desk of this process, and the model that its graphs ask."""

    app: Celery
    model: FakeResponses

    @property
    def store(self) -> Store:
        return self.app.desk.store

    def open(self, factory: str, *inputs: dict[str, Any]) -> str:
        return open_graphs(
            self.app, f"{MODULE}:{factory}", {str(number): one for number, one in enumerate(inputs, 1)}
        ).id

    def steps(self, run_id: str) -> list[Step]:
        """The chapters of a run, the oldest first."""
        with self.store.read() as session:
            which = (Step.run_id == run_id, Step.kind == StepKind.GRAPH)
            return list(session.exec(select(Step).where(*which).order_by(col(Step.id))).all())

    def play(self, run_id: str) -> Step:
        """Do the chapters that are ready, one after another; the last one."""
        for _ in range(100):
            if not (ready := [step for step in self.steps(run_id) if step.state == "ready"]):
                break
            work(self.app, ready[0].id, play_chapter)
            if self.steps(run_id)[-1].id == ready[0].id:
                break
        return self.steps(run_id)[-1]

    def lose_workers(self, step: Step) -> None:
        """Have as many attempts at a step end with their workers as a chapter may lose."""
        with self.store.session() as session:
            for _ in range(MOST_LOSSES):
                graph.record_attempt(session, step, utcnow(), AttemptEnd.LOST, graph.LOST)

    def turns(self, run_id: str) -> list[Turn]:
        with self.store.read() as session:
            return list(session.exec(select(Turn).where(Turn.run_id == run_id).order_by(col(Turn.id))).all())

    def calls(self, run_id: str) -> list[ToolCall]:
        with self.store.read() as session:
            return list(session.exec(select(ToolCall).join(Turn).where(Turn.run_id == run_id)).all())

    def kept(self, run_id: str) -> tuple[list[GraphCheckpoint], list[GraphWrite]]:
        with self.store.read() as session:
            found = [
                session.exec(select(table).where(table.run_id == run_id)).all()
                for table in (GraphCheckpoint, GraphWrite)
            ]
            return list(found[0]), list(found[1])

    def run(self, run_id: str) -> Run:
        with self.store.read() as session:
            return session.get_one(Run, run_id)


@contextmanager
def graphs(**environ: str) -> Iterator[Graphs]:
    with (
        FakeResponses(obedient) as model,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, DESK_GRAPHS=MODULE, **environ) as desk,
    ):
        app = create_app(desk.settings, "test")
        try:
            yield Graphs(app, model)
        finally:
            app.desk.close()
            app.close()
