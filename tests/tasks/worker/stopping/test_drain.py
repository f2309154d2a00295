"""SIGTERM to real workers: turns end or are given back, nothing is lost and nothing is done twice.

There is no sweep here: what a worker gives back reaches another one without it.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlmodel import func, select

from chordesk.models.states import RunState, StepKind, StepState
from chordesk.models.tables.runs import Report, Step, Verdict
from chordesk.tasks.worker import control, messages
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, wait_for
from tests.tasks.worker.stopping.stop_kit import (
    SYMBOLS,
    Desk,
    attempts,
    desk,
    held,
    research,
    steps,
    wait_ended,
    wait_in_flight,
)

MANY = (*SYMBOLS, "IBM", "GE", "PG", "JNJ", "MMM", "CAT", "WMT", "CVX")


@pytest.fixture(scope="module")
def shared() -> Iterator[Desk]:
    """Yield all processes but the research workers, which come and go with each test."""
    with desk("ops", DESK_LEASE_SECONDS="3") as found:
        yield found


@pytest.fixture
def made(shared: Desk) -> Iterator[Desk]:
    """The shared desk; nothing of a test is left for the next one."""
    yield shared
    shared.model.let(0)
    app, here = shared.processes.app, shared.processes.app.desk
    with here.store.read() as session:
        left = control.unfinished(session)
    stops = control.stop_runs(here.store, here.settings, left, lambda ids: messages.stop_on_workers(app, ids), 20)
    assert all(one.over for one in stops)
    for name in [name for name in shared.processes.running if name.startswith("research")]:
        shared.processes.end(name, signal.SIGKILL)


def draining_worker(made: Desk, name: str) -> psutil.Process:
    """SIGTERM a worker and wait until it has understood."""
    process = psutil.Process(made.processes.running[name].pid)
    before = made.processes.log(name).count("drain.began")
    process.send_signal(signal.SIGTERM)
    wait_for(lambda: made.processes.log(name).count("drain.began") > before, f"{name} drains")
    return process


def ended(made: Desk, name: str, seconds: float = PATIENCE) -> int:
    """SIGTERM a worker and wait for it; its exit code."""
    process = made.processes.running.pop(name)
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)


def counts(made: Desk, run_id: str) -> tuple[int, int]:
    with made.processes.app.desk.store.read() as session:
        found = (select(func.count()).select_from(table).where(table.run_id == run_id) for table in (Report, Verdict))
        reports, verdicts = (session.exec(statement).one() for statement in found)
        return reports, verdicts


def quick(made: Desk, run_id: str) -> list[Step]:
    return [step for step in steps(made, run_id) if step.role == "quick"]


def test_turns_that_end_in_time_are_let_end(made: Desk) -> None:
    made.workers("research", DESK_DRAIN_SECONDS="40")
    run_id = research(made)
    wait_in_flight(made, run_id)
    worker = draining_worker(made, "research")
    made.model.let()
    assert worker.is_running()
    assert made.processes.running.pop("research").wait(PATIENCE) == 0
    assert {step.state for step in quick(made, run_id)} == {StepState.DONE}
    assert attempts(made, run_id)["drained"] == 0


def test_a_rolling_restart_under_load_loses_nothing_and_doubles_nothing(made: Desk) -> None:
    """Both workers are ended while turns wait for the model in them and more steps are queued than they can hold."""
    workers, slots, some = ("research-1", "research-2"), 5, 30
    made.workers(*workers, concurrency=slots, DESK_DRAIN_SECONDS="0.3")
    runs = [research(made, *MANY[part::2]) for part in range(2)]
    for name in workers:
        made.model.let(some)
        wait_for(lambda: made.model.left == 0, "the model has answered them")
        wait_in_flight(made, *runs, count=1, worker=name)
        assert ended(made, name) == 0
        made.workers(name, concurrency=slots, DESK_DRAIN_SECONDS="0.3")
    made.model.let()
    for run_id in runs:
        assert wait_ended(made, run_id).state == RunState.DONE
    found = [attempts(made, run_id) for run_id in runs]
    assert sum(each["drained"] for each in found) >= len(workers)
    assert sum(each["lost"] + each["failed"] for each in found) == 0
    reports, verdicts = (sum(column) for column in zip(*(counts(made, run_id) for run_id in runs), strict=True))
    assert verdicts == len(MANY)
    done = [step for run_id in runs for step in steps(made, run_id) if step.kind == StepKind.REPORT]
    assert reports == len(done)
    assert {step.state for step in done} == {StepState.DONE}
    assert {made.model.begun[step.id, step.attempt] for step in done} == {1}, "a turn was paid for twice"


def test_a_second_ctrl_c_or_sigquit_gives_all_back_at_once(made: Desk) -> None:
    """Celery's cold shutdown would fail on threads and leave a process that holds its steps."""
    signals = {"research-1": (signal.SIGINT, signal.SIGINT), "research-2": (signal.SIGQUIT,)}
    made.workers(*signals, concurrency=4, DESK_DRAIN_SECONDS="100")
    run_id = research(made, *MANY[:8])
    wait_in_flight(made, run_id, count=8)
    assert {len(held(made, run_id, worker=name)) for name in signals} == {4}
    for name, numbers in signals.items():
        process = made.processes.running.pop(name)
        for number in numbers:
            before = made.processes.log(name).count("shutdown")
            process.send_signal(number)
            wait_for(
                lambda name=name, before=before: made.processes.log(name).count("shutdown") > before, "it is heard"
            )
        assert process.wait(PATIENCE) == 0
    assert attempts(made, run_id) == {"drained": 8}


STUCK = """
import pathlib, sys, time
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import Drain
desk = Desk(Settings(home=pathlib.Path(sys.argv[1])))
assert desk.leases.count() == 0
drain = Drain(0.1, exit_seconds=0.3)
drain.watch(desk.lease_keeper)
drain.request()
time.sleep(60)
"""


def test_a_process_that_does_not_end_after_its_work_is_ended(tmp_path: Path) -> None:
    """As when Celery waits for a Redis that neither answers nor refuses."""
    done = subprocess.run([sys.executable, "-c", STUCK, str(tmp_path)], cwd=REPOSITORY, timeout=PATIENCE, check=False)
    assert done.returncode == 1
