"""SIGTERM to real workers: turns end or are given back, nothing is lost and nothing is done twice."""

from __future__ import annotations

import signal
import time

import psutil
from sqlmodel import func, select

from models.states import RunState, StepKind, StepState
from models.tables import Report, Verdict
from tasks.bootstrap import desk_of
from tests.stack import Processes, wait_for
from tests.tasks.stopping.kit import (
    FOREVER,
    SYMBOLS,
    app_servers,
    attempts,
    desk,
    held,
    research,
    steps,
    stop,
    wait_ended,
    wait_held,
)

ROLES = 4
MANY = (*SYMBOLS, "IBM", "GE", "PG", "JNJ", "MMM", "CAT", "WMT", "CVX")


def ended(made: Processes, name: str, seconds: float) -> int:
    """SIGTERM a worker and wait for it; its exit code."""
    process = made.running.pop(name)
    process.send_signal(signal.SIGTERM)
    return process.wait(seconds)


def counts(made: Processes, run_id: str) -> tuple[int, int]:
    with desk_of(made.app).store.read() as session:
        found = (select(func.count()).select_from(table).where(table.run_id == run_id) for table in (Report, Verdict))
        reports, verdicts = (session.exec(statement).one() for statement in found)
        return reports, verdicts


def test_turns_that_end_in_time_are_let_end() -> None:
    with desk(1.0, "research", "ops", DESK_DRAIN_SECONDS="15") as made:
        run_id = research(made)
        wait_held(made, run_id)
        assert ended(made, "research", 20) == 0
        quick = [step for step in steps(made, run_id) if step.kind == StepKind.REPORT and step.role == "quick"]
        assert {step.state for step in quick} == {StepState.DONE}
        assert attempts(made, run_id)["drained"] == 0


def test_what_does_not_end_in_time_is_given_back_and_done_at_once_elsewhere() -> None:
    with desk(FOREVER, "research", "ops", DESK_DRAIN_SECONDS="1") as made:
        run_id = research(made)
        wait_held(made, run_id)
        servers = app_servers(made, "research")
        assert servers
        made.workers("research-2")
        began = time.monotonic()
        assert ended(made, "research", 12) == 0
        assert time.monotonic() - began < 8
        assert psutil.wait_procs(servers, timeout=2)[1] == []
        assert attempts(made, run_id) == {"drained": len(SYMBOLS)}
        quick = [step for step in steps(made, run_id) if step.role == "quick"]
        assert {step.max_attempts for step in quick} == {made.settings.step_attempts + 1}

        def taken() -> bool:
            now = [step for step in steps(made, run_id) if step.role == "quick"]
            return all(step.state == StepState.RUNNING and step.attempt == 2 for step in now)

        wait_for(taken, "the other worker has them all", 3)


def test_a_rolling_restart_under_load_loses_nothing_and_doubles_nothing() -> None:
    workers = ("research-1", "research-2")
    with desk(0.6, *workers, "ops", concurrency=6, DESK_DRAIN_SECONDS="0.3") as made:
        made.desk("beat", "beat")
        runs = [research(made, *MANY[part::2]) for part in range(2)]
        for name in workers:
            time.sleep(1.5)
            assert ended(made, name, 12) == 0
            made.desk(name, "worker", "research", "--name", name, "--concurrency", "6")
        for run_id in runs:
            assert wait_ended(made, run_id, 90).state == RunState.DONE
        found = [attempts(made, run_id) for run_id in runs]
        assert sum(each["drained"] for each in found) > 0, "no turn was in flight when a worker was ended"
        assert sum(each["lost"] + each["failed"] for each in found) == 0
        reports, verdicts = (sum(column) for column in zip(*(counts(made, run_id) for run_id in runs), strict=True))
        assert verdicts == len(MANY)
        done = [step for run_id in runs for step in steps(made, run_id) if step.kind == StepKind.REPORT]
        assert reports == len(done)
        assert {step.state for step in done} == {StepState.DONE}


def test_a_message_that_comes_while_a_worker_drains_is_another_workers() -> None:
    with desk(FOREVER, "research", "ops", DESK_DRAIN_SECONDS="100") as made:
        first = research(made, "AAPL")
        wait_held(made, first, 1)
        made.workers("research-2")
        made.running["research"].send_signal(signal.SIGTERM)
        time.sleep(0.2)
        for symbol in ("MSFT", "KO", "XOM", "IBM", "GE"):
            run_id = research(made, symbol)
            wait_for(lambda run_id=run_id: held(made, run_id) == 1, "it is taken up", 5)
            owner = next(step.owner for step in steps(made, run_id) if step.role == "quick")
            assert str(owner).startswith("research-2@")
        assert made.running["research"].poll() is None, "it no longer drains"
        # A second signal lets nothing end by itself.
        assert ended(made, "research", 15) == 0
        made.running["research-2"].send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert ended(made, "research-2", 15) == 0


def test_prefork_children_are_told_too() -> None:
    with desk(FOREVER, "ops", DESK_DRAIN_SECONDS="1", DESK_LEASE_SECONDS="3") as made:
        made.workers("research", pool="prefork")
        stopped, drained = research(made, "AAPL"), research(made, "MSFT")
        wait_held(made, stopped, 1)
        wait_held(made, drained, 1)
        code, (found,), _ = stop(made, stopped)
        assert (code, found["state"]) == (0, "stopped")
        assert found["seconds"] < 5
        servers = app_servers(made, "research")
        assert ended(made, "research", 15) == 0
        assert attempts(made, drained) == {"drained": 1}
        assert psutil.wait_procs(servers, timeout=2)[1] == []
