"""Runs on real workers with a model that can be made to wait, and questions about them that the database answers."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil
from sqlmodel import col, select

from chordesk.models.states import RUN_FINAL, STEP_FINAL, StepState
from chordesk.models.tables.runs import Attempt, Run, Step
from chordesk.tasks.workflows.research import open_research
from tests import zygote
from tests.fakes.responses import FakeResponses, Receive, Seen, Send, answered
from tests.ordeal.model import own_reply
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for

SYMBOLS = ("AAPL", "MMM", "KO", "XOM")
Turn = tuple[str, int]


class Gate(FakeResponses):
    """Model that answers as many calls as it was let; the others wait. None at first.

    waiting: the turns with a waiting call, as (step, attempt). begun: all turns that ever called, with their count.
    """

    def __init__(self) -> None:
        super().__init__(log=False)
        self.waiting: list[Turn] = []
        self.begun: Counter[Turn] = Counter()
        self._let = 0.0

    def let(self, calls: float = math.inf) -> None:
        """Answer so many calls from now on, those that wait first."""
        self._let = calls

    @property
    def left(self) -> float:
        """Return the number of calls that it has still to answer."""
        return self._let

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        turn = (seen.metadata["step_id"], int(seen.metadata["attempt"]))
        if not answered(seen.body):
            self.begun[turn] += 1
        leaving = asyncio.ensure_future(_hung_up(receive))
        self.waiting.append(turn)
        try:
            while not leaving.done() and self._let < 1:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        finally:
            self.waiting.remove(turn)
            leaving.cancel()
        if not leaving.done():
            self._let -= 1
            await self._reply(own_reply(seen.metadata["role"], seen.body), send)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True, slots=True)
class Desk:
    """Redis, a database and workers, and the model they ask."""

    processes: Processes
    model: Gate

    def workers(self, *names: str, concurrency: int = 16, **environ: str) -> None:
        """More workers, and what is set for them alone."""
        self.processes.workers(*names, concurrency=concurrency, environ=environ)


@contextmanager
def desk(*workers: str, **environ: str) -> Iterator[Desk]:
    """With a model that answers nothing yet."""
    with Gate() as model, processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, **environ) as made:
        if workers:
            made.workers(*workers, concurrency=16)
        yield Desk(made, model)


def research(made: Desk, *symbols: str) -> str:
    return open_research(made.processes.app, symbols or SYMBOLS).id


def run_of(made: Desk, run_id: str) -> Run:
    with made.processes.app.desk.store.read() as session:
        return session.get_one(Run, run_id)


def steps(made: Desk, run_id: str) -> list[Step]:
    with made.processes.app.desk.store.read() as session:
        return list(session.exec(select(Step).where(Step.run_id == run_id)).all())


def attempts(made: Desk, run_id: str) -> Counter[str]:
    """Attempts of a run by how they ended."""
    with made.processes.app.desk.store.read() as session:
        rows = session.exec(
            select(Attempt.outcome).join(Step, col(Step.id) == col(Attempt.step_id)).where(Step.run_id == run_id)
        )
        return Counter(rows.all())


def held(made: Desk, *run_ids: str, worker: str = "") -> set[Turn]:
    """Steps in work, as (step, attempt); those of one worker when it is named."""
    rows = [step for run_id in run_ids for step in steps(made, run_id) if step.state == StepState.RUNNING]
    return {(step.id, step.attempt) for step in rows if not worker or str(step.owner).startswith(f"{worker}@")}


def wait_in_flight(made: Desk, *run_ids: str, count: int = len(SYMBOLS), worker: str = "") -> None:
    """Until so many turns wait for the model; turns of one worker when it is named."""

    def found() -> bool:
        return len(held(made, *run_ids, worker=worker) & set(made.model.waiting)) >= count

    wait_for(found, f"{count} turns are in flight")


def wait_ended(made: Desk, run_id: str, seconds: float = PATIENCE) -> Run:
    wait_for(lambda: run_of(made, run_id).state in RUN_FINAL, "the run ends", seconds)
    return run_of(made, run_id)


def stop(made: Desk, *arguments: str) -> tuple[int, list[dict[str, Any]], float]:
    """`desk stop ... --json`: its exit code, its answer, and how long the command took."""
    began = time.monotonic()
    done = zygote.run(("stop", *arguments, "--json"), made.processes.environ, REPOSITORY)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - began


def app_servers(made: Desk, *workers: str) -> list[psutil.Process]:
    found = [psutil.Process(made.processes.running[name].pid).children(recursive=True) for name in workers]
    return [process for children in found for process in children if "app-server" in process.cmdline()]


def nothing_is_left(made: Desk, run_id: str) -> bool:
    return all(step.state in STEP_FINAL for step in steps(made, run_id))
