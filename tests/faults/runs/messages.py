"""Messages that come more than once, and clocks that are not what they were."""

from __future__ import annotations

import random
import threading
import time

from chordesk.models.tables.columns import utcnow
from chordesk.tasks.engine.kinds import task_name
from tests.faults.desk import WORKERS, FaultDesk, until
from tests.faults.runs.kills import ends_well
from tests.faults.scenario import Result

COPIES = 2
SHIFT = 3  # leases


def every_message_twice(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Each step's message is sent again in every state in which the step is seen: before it may run, while it waits
    for a worker, while one has it, and when it is final."""
    run_id = desk.open_run()
    done, sent = threading.Event(), set[tuple[str, str, str]]()

    def echo() -> None:
        while not done.wait(0.05):
            for step in desk.steps(run_id):
                if (step.id, step.state, step.kind) not in sent:
                    sent.add((step.id, step.state, step.kind))
                    for _ in range(COPIES):
                        signature = desk.processes.app.signature(task_name(step.kind), args=(step.id,))
                        signature.apply_async(ignore_result=True)

    echoing = threading.Thread(target=echo, daemon=True)
    echoing.start()
    try:
        desk.await_end(run_id)
        time.sleep(2.0)  # the copies of final steps are still to come
    finally:
        done.set()
        echoing.join()
    ends_well(desk, result, run_id)
    missed = {step.kind for step in desk.steps(run_id)} - {kind for _, _, kind in sent}
    if missed:
        result.findings.wrong.append(f"no second message was sent for {sorted(missed)}")
    result.notes.append(f"{len(sent) * COPIES} copies")


def clock_moved(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The desk's clock leaps past every lease while turns are in flight, and in another run back again. In a third it
    is put back and a worker killed: its leases, written by the old clock, must not outlive it.

    Turns are slow here: a sweep sees leases that look long over before their holders have renewed them.
    """
    usual, desk.model.wait = desk.model.wait, desk.pace.sweep
    shift = SHIFT * desk.pace.lease
    try:
        for offset in (shift, 0.0):
            run_id = _in_flight(desk, chance)
            desk.move_clock(offset)
            ends_well(desk, result, run_id)
            ahead = (desk.run(run_id).finished_at or utcnow()) - utcnow()
            assert abs(ahead.total_seconds() - offset) < desk.pace.lease, "the desk's clock did not move"
        desk.move_clock(shift)
        run_id = _in_flight(desk, chance)
        victim = chance.choice(WORKERS)
        held = desk.freeze_in_flight(victim, [run_id])
        desk.move_clock(0.0)
        desk.kill_frozen(victim, held)
        seconds = desk.takeover(held)
        result.took(seconds)
        if seconds > shift:
            result.findings.wrong.append(f"the clock was put back: a dead worker held its steps {seconds:.0f} s")
        ends_well(desk, result, run_id)
        desk.await_worker(victim)
    finally:
        desk.model.wait = usual
        desk.move_clock(0.0)


def _in_flight(desk: FaultDesk, chance: random.Random) -> str:
    """A run some time after its first turn began."""
    run_id = desk.open_run()
    until(lambda: desk.journal.open(lambda call: call.run_id == run_id), "a turn is in flight")
    time.sleep(chance.uniform(0.0, 2 * desk.pace.sweep))
    return run_id
