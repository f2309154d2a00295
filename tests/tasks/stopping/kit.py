"""Runs on real workers, and questions about them that the database answers."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psutil
from sqlmodel import col, select

from models.states import RUN_FINAL, STEP_FINAL, StepState
from models.tables import Attempt, Run, Step
from tasks.bootstrap import desk_of
from tasks.runs import open_research
from tests.stack import REPOSITORY, Processes, processes, wait_for

SYMBOLS = ("AAPL", "MSFT", "KO", "XOM")
FOREVER = 60.0  # latency of a model whose turns never end within a test


@contextmanager
def desk(latency: float, *workers: str, concurrency: int = 16, **environ: str) -> Iterator[Processes]:
    """Redis, a database, the rulebook model with this latency a call, and these workers."""
    with processes(**environ) as made:
        made.rulebook(latency)
        if workers:
            made.workers(*workers, concurrency=concurrency)
        yield made


def research(made: Processes, *symbols: str) -> str:
    return open_research(made.app, symbols or SYMBOLS).id


def run_of(made: Processes, run_id: str) -> Run:
    with desk_of(made.app).store.read() as session:
        return session.get_one(Run, run_id)


def steps(made: Processes, run_id: str) -> list[Step]:
    with desk_of(made.app).store.read() as session:
        return list(session.exec(select(Step).where(Step.run_id == run_id)).all())


def attempts(made: Processes, run_id: str) -> Counter[str]:
    """Attempts of a run by how they ended."""
    with desk_of(made.app).store.read() as session:
        rows = session.exec(
            select(Attempt.outcome).join(Step, col(Step.id) == col(Attempt.step_id)).where(Step.run_id == run_id)
        )
        return Counter(rows.all())


def held(made: Processes, run_id: str) -> int:
    return sum(step.state == StepState.RUNNING for step in steps(made, run_id))


def wait_held(made: Processes, run_id: str, count: int = len(SYMBOLS)) -> None:
    """Until so many steps are held and their turns are with the app-server."""
    wait_for(lambda: held(made, run_id) >= count, f"{count} steps are held")
    time.sleep(1.0)


def wait_ended(made: Processes, run_id: str, seconds: float = 60) -> Run:
    wait_for(lambda: run_of(made, run_id).state in RUN_FINAL, "the run ends", seconds)
    return run_of(made, run_id)


def stop(made: Processes, *arguments: str) -> tuple[int, list[dict[str, Any]], float]:
    """`desk stop ... --json`: its exit code, its answer, and how long the command took."""
    command = (sys.executable, "-m", "tasks.cli.main", "stop", *arguments, "--json")
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=made.environ, capture_output=True, text=True, timeout=40, check=False
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), time.monotonic() - began


def app_servers(made: Processes, *workers: str) -> list[psutil.Process]:
    found = [psutil.Process(made.running[name].pid).children(recursive=True) for name in workers]
    return [process for children in found for process in children if "app-server" in process.cmdline()]


def nothing_is_left(made: Processes, run_id: str) -> bool:
    return all(step.state in STEP_FINAL for step in steps(made, run_id))
