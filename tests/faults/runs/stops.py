"""`desk stop` in every phase of a run."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time

from sqlmodel import select

from chordesk.agents.roles import default_roles, following
from chordesk.models.states import ORDER_FINAL, ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Order
from tests.faults.check import Expected, check
from tests.faults.desk import WORKERS, FaultDesk, until
from tests.faults.journal import Asked
from tests.faults.scenario import Result
from tests.stack import REPOSITORY

STOP_SECONDS = 10.0
QUIET_SECONDS = 4.0
STOPPED = Expected(states=frozenset({"stopped"}), whole=False)
PHASES = {
    "screen": ("screener_technical", "screener_catalyst"),
    "quick": ("quick",),
    "research": following(default_roles(), "quick"),
    "trader": ("trader",),
}


def stopped_in_every_phase(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """At most 10 s, no turn left open, none begun afterwards, and the trader never submits."""
    frozen = [process for name in WORKERS for process in desk.freeze(name)]
    try:
        run_id = desk.open_run()  # which no worker begins
        _stop(desk, "queued", run_id, result)
    finally:
        for process in frozen:
            process.resume()
    _stays_stopped(desk, "queued", run_id, result)
    for phase, roles in PHASES.items():
        desk.model.slow = frozenset(roles)  # else the run could be over before the command is there
        try:
            _stopped(desk, phase, result)
        finally:
            desk.model.slow = frozenset()


def _stopped(desk: FaultDesk, phase: str, result: Result) -> None:
    run_id = desk.open_run()
    roles = PHASES[phase]

    def here(call: Asked) -> bool:
        return call.run_id == run_id and call.role in roles

    until(lambda: desk.journal.open(here), f"a turn of the phase {phase} is in flight")
    _stop(desk, phase, run_id, result)
    _stays_stopped(desk, phase, run_id, result)


def _stop(desk: FaultDesk, phase: str, run_id: str, result: Result) -> None:
    code, output = desk_stop(desk, run_id, "--json")
    # From the asking on: a new Python on a machine that is busy with three desks is not what is measured.
    seconds = float(json.loads(output)[0]["seconds"]) if code == 0 else float("inf")
    wrong = result.findings.wrong
    if code != 0:
        wrong.append(f"{phase}: desk stop exited {code}: {output}")
        desk.await_end(run_id)
    if seconds > STOP_SECONDS:
        wrong.append(f"{phase}: stopping took {seconds:.1f} s")
    if left := desk.journal.open(lambda call: call.run_id == run_id):
        wrong.append(f"{phase}: {len(left)} model calls were open when the run was said to have stopped")
    result.notes.append(f"{phase} {seconds:.1f} s")


def _stays_stopped(desk: FaultDesk, phase: str, run_id: str, result: Result) -> None:
    wrong, ended = result.findings.wrong, time.monotonic()
    time.sleep(QUIET_SECONDS)
    if later := [call for call in desk.journal.of([run_id]) if call.at > ended]:
        wrong.append(f"{phase}: {len(later)} model calls after the stop")
    if sent := orders_sent(desk, run_id):
        wrong.append(f"{phase}: orders went out: {sent}")
    result.runs += 1
    result.findings.add(check(desk, [run_id], STOPPED))


def desk_stop(desk: FaultDesk, *arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "chordesk.tasks.cli.main", "stop", *arguments]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=desk.processes.environ, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else (done.stdout + done.stderr)[-400:]


def orders_sent(desk: FaultDesk, run_id: str) -> list[str]:
    sent = (ORDER_WORKING | ORDER_FINAL) - {OrderState.DENIED}
    with desk.store.read() as session:
        rows = session.exec(select(Order).where(Order.run_id == run_id)).all()
    return [f"{row.symbol} {row.state}" for row in rows if row.state in sent]
