"""Processes that die: workers, app-servers, Redis, beat; and workers that are asked to go."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import psutil
import redis

from chordesk.agents.roles import ROLES
from chordesk.tasks.bootstrap import redis_url
from tests.faults.check import check
from tests.faults.desk import WORKERS, FaultDesk, Held, until
from tests.faults.scenario import Result


def ends_well(desk: FaultDesk, result: Result, *run_ids: str) -> None:
    """Wait for the runs and look at what they left."""
    desk.await_end(*run_ids)
    result.runs += len(run_ids)
    result.findings.add(check(desk, run_ids))


def worker_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL to a worker at a random moment of a run; it comes back some seconds later, or at once."""
    run_id = desk.open_run()
    victim = chance.choice(WORKERS)
    time.sleep(chance.uniform(0.0, 6.0) * desk.pace.latency)
    held = desk.kill_in_flight(victim, [run_id])
    result.took(desk.takeover(held))
    ends_well(desk, result, run_id)
    desk.await_worker(victim)


def app_server_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL to an app-server with turns in flight: they are tried again, by any worker."""
    run_id = desk.open_run()
    victim = chance.choice(WORKERS)
    time.sleep(chance.uniform(0.0, 6.0) * desk.pace.latency)
    held = desk.freeze_in_flight(victim, [run_id])
    desk.excused |= set(held.steps.items())
    for server in desk.app_servers(victim):
        server.kill()
    psutil.Process(desk.pid(victim)).resume()
    result.took(desk.takeover(held))
    ends_well(desk, result, run_id)


def redis_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """kill -9 with the append-only file, and a restart: workers reconnect by themselves."""
    run_id = desk.open_run()
    held = _in_flight(desk, run_id, chance)
    pids = {name: desk.pid(name) for name in (*WORKERS, "ops", "trade")}
    desk.kill("redis", back=False)
    time.sleep(chance.uniform(0.2, 3.0))
    desk.processes.redis()
    ends_well(desk, result, run_id)
    result.notes.append(f"{len(held)} steps were held")
    moved = [name for name, pid in pids.items() if desk.pid(name) != pid]
    if moved:
        result.findings.wrong.append(f"{', '.join(moved)} had to be started again")


def redis_flushed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """FLUSHALL: queues, registry, beat's entries and locks are gone; the sweep rebuilds from the database."""
    run_id = desk.open_run()
    _in_flight(desk, run_id, chance)
    connection(desk).flushall()
    ends_well(desk, result, run_id)


def worker_and_redis_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    run_id = desk.open_run()
    victim = chance.choice(WORKERS)
    held = desk.kill_in_flight(victim, [run_id])
    desk.kill("redis", back=False)
    time.sleep(1.0)
    desk.processes.redis()
    desk.takeover(held)
    ends_well(desk, result, run_id)
    desk.await_worker(victim)


def rolling_restart(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGTERM to each worker in turn under load, each started anew before the next one goes."""
    run_ids = [desk.open_run()]
    for victim in WORKERS:
        run_ids += [desk.open_run() for _ in range(2)]
        _asked_to_go(desk, victim, run_ids, result)
        desk.start(victim)
        desk.await_worker(victim)
    ends_well(desk, result, *run_ids)


def turns_given_back(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGTERM to a worker with turns longer than its drain time: they are interrupted and go to the other at once."""
    desk.model.slow = frozenset(ROLES)
    try:
        run_id = desk.open_run()
        victim = chance.choice(WORKERS)
        asked = _asked_to_go(desk, victim, [run_id], result)
        desk.excused |= set(asked.steps.items())
        result.took(desk.takeover(asked))
    finally:
        desk.model.slow = frozenset()
    desk.start(victim)
    desk.await_worker(victim)
    ends_well(desk, result, run_id)


def _asked_to_go(desk: FaultDesk, victim: str, run_ids: Sequence[str], result: Result) -> Held:
    """SIGTERM while a turn of these runs is in flight, and the worker's end; what it held then."""
    until(lambda: desk.asking(desk.held_by(victim, *run_ids)), f"{victim} has a turn in flight")
    held = Held(time.monotonic(), desk.held_by(victim, *run_ids))
    code = desk.stop(victim)
    if code != 0:
        result.findings.wrong.append(f"{victim} exited {code} on SIGTERM")
    return held


def two_beats(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Two beats at once, and the first one is killed: one sweep at a time, and one that goes on."""
    run_id = desk.open_run()
    desk.start("beat-2")
    time.sleep(3.0)
    desk.kill("beat", back=False)
    victim = chance.choice(WORKERS)
    second = desk.open_run()
    held = desk.kill_in_flight(victim, [run_id, second])
    desk.takeover(held, 90.0)
    ends_well(desk, result, run_id, second)
    desk.start("beat")
    desk.stop("beat-2")
    desk.await_worker(victim)


def desk_suspended(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every process is stopped where it is for longer than a lease, as when the machine sleeps, and goes on."""
    run_id = desk.open_run()
    _in_flight(desk, run_id, chance)
    frozen = [process for name in (*desk.crew, "redis") for process in desk.freeze(name)]
    time.sleep(desk.pace.lease * chance.uniform(1.2, 2.0))
    chance.shuffle(frozen)  # either may wake first
    for process in frozen:
        process.resume()
    ends_well(desk, result, run_id)


def _in_flight(desk: FaultDesk, run_id: str, chance: random.Random) -> dict[str, int]:
    """Some time into the run, at a moment when a turn is in flight; what is held then."""
    time.sleep(chance.uniform(0.5, 6.0) * desk.pace.latency)
    until(lambda: desk.journal.open(lambda call: call.run_id == run_id), "a turn is in flight")
    held: dict[str, int] = {}
    for name in WORKERS:
        held |= desk.held_by(name, run_id)
    return held


def connection(desk: FaultDesk) -> redis.Redis:
    return redis.from_url(redis_url(desk.processes.settings))
