"""Processes that die: workers, app-servers, Redis; and workers that are asked to go."""

from __future__ import annotations

import datetime as dt
import json
import random
import secrets
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, product
from typing import Any

import psutil
import redis
from kombu.exceptions import OperationalError
from sqlalchemy.engine import make_url
from sqlmodel import Session, col, select

from chordesk.agents.roles import ROLES, default_roles, following
from chordesk.models.analysis import ValidatorOutput
from chordesk.models.database.store import BUSY_SECONDS
from chordesk.models.states import (
    ORDER_FINAL,
    ORDER_WORKING,
    RUN_FINAL,
    STEP_FINAL,
    ApprovalState,
    OrderState,
    RunState,
    StepKind,
)
from chordesk.models.tables.board import Episode, EpisodeQuestion, Forecast, Signal, SignalCitation
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import GraphWrite, Run, Step, ToolCall, Turn
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks.approval_requests import answer
from chordesk.tasks.engine.kinds import task_name
from chordesk.tasks.reading.runs import waits
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.workflows.research import open_research
from tests.fakes.responses import Cut, Malformed, Reply, Silence, Status, Text, answered
from tests.ordeal.check import Expected, Findings, check
from tests.ordeal.crew import GRAPHS, WORKERS, FaultDesk, Held, Result, until, without_disk
from tests.ordeal.model import FAULT, Asked, Fault, no_fault
from tests.ordeal.proxy import SilentProxy
from tests.parts import of_feature
from tests.stack import REPOSITORY
from tests.toy.nodes import ANALYSTS, NODES, TURNS


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
    """FLUSHALL: queues, registry and locks are gone; the sweep rebuilds from the database."""
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


GOES_ON_SECONDS = 30.0


def redis_without_its_file(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """kill -9, and a start without the append-only file: it comes back empty."""
    run_id = desk.open_run()
    _in_flight(desk, run_id, chance)
    desk.kill("redis", back=False)
    shutil.rmtree(desk.processes.home / "redis")
    time.sleep(chance.uniform(0.2, 3.0))
    desk.processes.redis()
    _goes_on(desk, result)
    ends_well(desk, result, run_id)


def redis_stopped(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGSTOP for 20 s: connections are open, new ones too, and nothing answers."""
    run_id = desk.open_run()
    _in_flight(desk, run_id, chance)
    frozen = desk.freeze("redis")
    time.sleep(20.0)
    for process in frozen:
        process.resume()
    _goes_on(desk, result)
    ends_well(desk, result, run_id)


def redis_vanished(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every connection goes silent and stays open, as when the server's machine is gone; new ones reach the next."""
    direct = desk.processes.environ["DESK_REDIS_URL"]
    proxy = SilentProxy(direct.removeprefix("unix://"))
    try:
        desk.processes.environ |= {"DESK_REDIS_URL": proxy.url, "DESK_MESSAGE_KEY": secrets.token_urlsafe(32)}
        _restart(desk)
        run_id = desk.open_run()
        _in_flight(desk, run_id, chance)
        result.notes.append(f"{proxy.vanish()} sockets were open")
        _goes_on(desk, result)
        ends_well(desk, result, run_id)
    finally:
        desk.processes.environ["DESK_REDIS_URL"] = direct
        del desk.processes.environ["DESK_MESSAGE_KEY"]
        _restart(desk)
        proxy.close()


def _goes_on(desk: FaultDesk, result: Result) -> None:
    """A run that is opened now has a step taken up in time, and ends."""
    began = time.monotonic()
    run_id = _opened(desk, began + GOES_ON_SECONDS)
    while not any(step.started_at for step in desk.steps(run_id)):
        if time.monotonic() > began + GOES_ON_SECONDS:
            result.findings.wrong.append(f"nothing goes on within {GOES_ON_SECONDS:g} s")
            break
        time.sleep(0.1)
    result.took(time.monotonic() - began)
    ends_well(desk, result, run_id)


def _opened(desk: FaultDesk, until: float) -> str:
    """A run of a client that has lost its own connections, too."""
    while True:
        try:
            return desk.open_run()
        except (OperationalError, redis.RedisError, OSError):
            if time.monotonic() > until:
                raise


def _restart(desk: FaultDesk) -> None:
    for name in desk.crew:
        desk.stop(name)
    desk.start_all()


def provider_switched(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The desk is started with the rulebook in the middle of a run of the endpoint, and with the endpoint again in the
    middle of one of the rulebook: the one waits and says for which worker, the other goes on."""
    environ = desk.processes.environ
    endpoint = {name: environ[name] for name in ("DESK_PROVIDER", "DESK_PROVIDER_URL")}
    desk.model.slow = frozenset(ROLES)  # its turns do not end before their workers
    first = desk.open_run()
    desk.excused |= set(_in_flight(desk, first, chance).items())
    for name in endpoint:
        del environ[name]
    desk.processes.rulebook(latency=desk.pace.latency)
    _restart(desk)
    desk.model.slow = frozenset()
    until(lambda: f"endpoint:{desk.run(first).settings['model']}; start one or" in _waits(desk, first), "it says so")  # type: ignore[index]
    second = open_research(desk.processes.app, ["IBM", "GE", "XOM"]).id
    until(lambda: any(step.started_at for step in desk.steps(second)), "the rulebook's run has begun")
    environ |= endpoint
    desk.stop("rulebook")
    del environ["DESK_RULEBOOK_URL"]
    _restart(desk)
    ends_well(desk, result, first)
    desk.await_end(second)
    result.findings.add(check(desk, [second], Expected(whole=False)))


def _waits(desk: FaultDesk, run_id: str) -> str:
    with desk.store.read() as session:
        return "\n".join(str(one) for one in waits(session, session.get_one(Run, run_id)))


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
            run_id, began = _run_in_flight(desk, chance), utcnow()
            desk.move_clock(offset)
            ends_well(desk, result, run_id)
            ended = (desk.run(run_id).finished_at or utcnow()) - dt.timedelta(seconds=offset)
            now = utcnow()
            assert began < ended < now, f"the desk's clock did not move: {began:%X}, {ended:%X}, {now:%X}"
        desk.move_clock(shift)
        run_id = _run_in_flight(desk, chance)
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


def _run_in_flight(desk: FaultDesk, chance: random.Random) -> str:
    """A run some time after its first turn began."""
    run_id = desk.open_run()
    until(lambda: desk.journal.open(lambda call: call.run_id == run_id), "a turn is in flight")
    time.sleep(chance.uniform(0.0, 2 * desk.pace.sweep))
    return run_id


def database_away(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every claim, renewal and end fails meanwhile, also after its wait; turns go on and end. It comes back for a
    moment and is away again, for longer than a lease."""
    run_id = desk.open_run()
    time.sleep(chance.uniform(0.0, 4.0) * desk.pace.latency)
    until(lambda: desk.journal.open(lambda call: call.run_id == run_id), "a turn is in flight")
    locked(desk, BUSY_SECONDS + 3)
    time.sleep(chance.uniform(0.5, desk.pace.sweep))
    locked(desk, desk.pace.lease + chance.uniform(0.0, desk.pace.sweep))
    ends_well(desk, result, run_id)


def locked(desk: FaultDesk, seconds: float) -> None:
    """Keep other writers from the desk's SQLite for so long."""
    path = make_url(desk.processes.settings.database).database
    assert path is not None
    lock = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        lock.execute("BEGIN EXCLUSIVE")
        time.sleep(seconds)
        lock.execute("ROLLBACK")
    finally:
        lock.close()


ROOM_SECONDS = 15.0


def disk_lost(desk: FaultDesk, chance: random.Random, result: Result, *, inodes: bool = False) -> None:
    """The file system of the database, of the vault or of the reports is full, or has no inode left, or that of the
    home is broken, from one moment to the next, for longer than a lease, and a worker is killed then. With it again
    something goes on in time."""
    run_id = desk.open_run()
    desk.kill_in_flight(chance.choice(WORKERS), [run_id])
    with without_disk(desk, inodes=inodes):
        time.sleep(desk.pace.lease + chance.uniform(0.0, desk.pace.lease))
    _room_again(desk, result, run_id)


def no_files_to_open(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every worker has as many files open as it may, for longer than a lease."""
    run_id = desk.open_run()
    desk.excused |= set(_in_flight(desk, run_id, chance).items())  # a turn may need a file that it cannot open
    workers = [psutil.Process(desk.pid(name)) for name in desk.crew]
    before = [worker.rlimit(psutil.RLIMIT_NOFILE) for worker in workers]
    for worker, (_, most) in zip(workers, before, strict=True):
        worker.rlimit(psutil.RLIMIT_NOFILE, (worker.num_fds(), most))
    time.sleep(desk.pace.lease + chance.uniform(0.0, desk.pace.lease))
    for worker, limits in zip(workers, before, strict=True):
        worker.rlimit(psutil.RLIMIT_NOFILE, limits)
    _room_again(desk, result, run_id)


def _room_again(desk: FaultDesk, result: Result, run_id: str) -> None:
    began, since = time.monotonic(), utcnow()
    while not any(max(step.started_at or since, step.finished_at or since) > since for step in desk.steps(run_id)):
        if time.monotonic() > began + ROOM_SECONDS:
            result.findings.wrong.append(f"nothing goes on within {ROOM_SECONDS:g} s of the space")
            break
        time.sleep(0.1)
    result.took(time.monotonic() - began)
    ends_well(desk, result, run_id)


RETRY_AFTER = 4
TOO_MANY = Status(
    429,
    {"error": {"type": "rate_limit_exceeded", "code": "rate_limit_exceeded", "message": "too many requests"}},
    {"retry-after": str(RETRY_AFTER)},
)
BROKEN = Status(500, {"error": {"message": "internal error"}})
DECLINED = "I'm sorry, I can't help with trading decisions."


@contextmanager
def failing(desk: FaultDesk, fault: Fault) -> Iterator[None]:
    desk.model.fault = fault
    try:
        yield
    finally:
        desk.model.fault = no_fault


def survives(desk: FaultDesk, result: Result, fault: Fault) -> str:
    """A run that ends well though the model fails so; its id."""
    with failing(desk, fault):
        run_id = desk.open_run()
        ends_well(desk, result, run_id)
    if not any(call.answer == FAULT for call in desk.journal.of([run_id])):
        result.findings.wrong.append("the model did not fail once")
    return run_id


def _chosen(asked: Asked, share: int = 2) -> bool:
    """Every second step or so, the same ones each time they are asked about."""
    return int(asked.step_id[-4:], 16) % share == 0


def too_many_requests(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """429 with Retry-After to everything, for that long; no request may come meanwhile."""
    first: list[float] = []

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        if not first and ROLES[asked.role].schema is not ValidatorOutput:
            return None  # begins with the quick reports, so that more than one turn is in flight
        if not first:
            first.append(asked.at)
        return TOO_MANY if asked.at < first[0] + RETRY_AFTER else None

    run_id = survives(desk, result, fault)
    early, late = first[0] + 1.5, first[0] + RETRY_AFTER - 0.5
    knocked = [call for call in desk.journal.of([run_id]) if early < call.at < late]
    if knocked:
        result.findings.wrong.append(f"{len(knocked)} calls to a model that had asked for {RETRY_AFTER} s of peace")


def server_errors(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Two bursts of 500, the first with the first call."""
    first: list[float] = []

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        first.append(asked.at)
        since = asked.at - first[0]
        return BROKEN if since < 1.0 or 4.0 < since < 5.0 else None

    survives(desk, result, fault)


def cut_streams(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Streams end half way in every second step's first attempt."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return Cut() if asked.attempt == 1 and _chosen(asked) else None

    survives(desk, result, fault)


def broken_lines(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Streams with lines that are no JSON, in every second step's first attempt."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return Malformed() if asked.attempt == 1 and _chosen(asked) else None

    survives(desk, result, fault)


def silence(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """No byte of an answer to the catalyst role: its report fails by name, and its turn is paid for once."""
    _asked_once(desk, result, "catalyst", Silence(120), frozenset({RunState.DONE, RunState.PARTIAL}))


def invalid_answers(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every step's first answer is no JSON, or JSON of another kind: one repair turn each, in the same attempt."""
    spoiled: set[str] = set()

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        if asked.step_id in spoiled or not answered(body):
            return None
        spoiled.add(asked.step_id)
        return Text('{"verdict": "CONFIRMED", "confid' if _chosen(asked) else '{"verdict": "PERHAPS"}')

    run_id = survives(desk, result, fault)
    again = {call.step_id for call in desk.journal.of([run_id]) if call.attempt > 1}
    if again:
        result.findings.doubled += [f"step {step}: an answer was repaired by a whole new attempt" for step in again]


def refusals(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The risk role declines: an outcome, asked for once and not argued with."""
    _asked_once(desk, result, "risk", Text(DECLINED))


def _asked_once(
    desk: FaultDesk, result: Result, role: str, reply: Reply, states: frozenset[str] = frozenset({RunState.DONE})
) -> None:
    """A role gets this reply to everything, and no step of it is asked a second time."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return reply if asked.role == role else None

    with failing(desk, fault):
        run_id = desk.open_run()
        desk.await_end(run_id)
    result.runs += 1
    result.findings.add(check(desk, [run_id], Expected(states, failing=frozenset({role}))))
    calls = [call for call in desk.journal.of([run_id]) if call.answer == FAULT]
    for step in {call.step_id for call in calls}:
        count = sum(call.step_id == step for call in calls)
        if count > 1:
            result.findings.doubled.append(f"step {step} was asked {count} times")


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


ROUNDS = 2
SYMBOLS = ("AAPL", "IBM", "KO", "GE")


def voices_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL to a worker while voices are at work, in either round."""
    run = of_feature("chordesk.tasks.board.episode.opening:open_episode")(desk.processes.app, SYMBOLS, rounds=ROUNDS)
    assert run is not None
    victim = chance.choice(WORKERS)
    time.sleep(chance.uniform(0.0, 3.0) * desk.pace.latency)
    held = desk.kill_in_flight(victim, [run.id])
    result.took(desk.takeover(held))
    desk.await_end(run.id)
    result.runs += 1
    result.findings.add(check(desk, [run.id], Expected(whole=False)))
    result.findings.add(episode_findings(desk, run.id))
    desk.await_worker(victim)


def episode_findings(desk: FaultDesk, run_id: str) -> Findings:
    """Look at what an episode left."""
    found = Findings()
    with desk.store.read() as session:
        forecasts = _rows(session, Forecast, run_id)
        questions = {row.question_id for row in _rows(session, EpisodeQuestion, run_id)}
        given = [(row.voice, row.round, row.question_id) for row in forecasts]
        found.lost += [
            str(one)
            for one in set(product(of_feature("chordesk.agents.board.voices:VOICES"), range(1, ROUNDS + 1), questions))
            - set(given)
        ]
        found.doubled += _twice("forecast", given)
        labels = [row.label for row in _rows(session, Signal, run_id)]
        found.doubled += _twice("signal", labels)
        found.lost += [
            f"signals of {tool}"
            for tool in of_feature("chordesk.tools.board.harvesters:HARVESTERS")
            if f"{tool}-1" not in labels
        ]
        cited = [(row.forecast_id, row.ordinal) for row in _rows(session, SignalCitation, run_id)]
        found.doubled += _twice("citation", cited)
        if len(cited) != sum(len(row.citations) for row in forecasts):
            found.lost.append(f"citations: {len(cited)} rows")
        episodes = _rows(session, Episode, run_id)
        found.lost += [] if episodes else ["the tally"]
    return found


def _rows(session: Session, table: Any, run_id: str) -> Sequence[Any]:
    return session.exec(select(table).where(table.run_id == run_id)).all()


def _twice(name: str, keys: Iterable[object]) -> list[str]:
    every = list(keys)
    return [f"{name} {key}" for key in dict.fromkeys(every) if every.count(key) > 1]


SECONDS = 900.0


def workers_killed(
    tickers: int, waiting: int, kills: int, desk: FaultDesk, chance: random.Random, result: Result
) -> None:
    """SIGKILL to one worker or the other while it has calls of graphs in flight, at random over all of their calls. The
    first graphs wait for a person each, who answers a kill later."""
    names = [f"T{number:02}" for number in range(1, tickers + 1)]
    inputs: dict[str, dict[str, Any]] = {name: {"ticker": name, "messages": [["user", name]]} for name in names}
    for name in names[:waiting]:
        inputs[name]["asks"] = f"buy {name}?"
    run_id = of_feature("chordesk.tasks.graphs.workflow:open_graphs")(
        desk.processes.app, f"{GRAPHS}:research", inputs
    ).id
    moments = sorted(chance.randrange(1, tickers * (len(TURNS) - 1)) for _ in range(kills))
    held: list[list[str]] = []  # the graphs in work at each kill
    for moment in moments:
        asked = _asked(desk, run_id)
        if (victim := _victim(desk, run_id, moment, chance)) is None:
            break
        held.append(_kill(desk, victim, run_id))
        _answer(desk, asked)
    last = time.monotonic() + SECONDS
    while time.monotonic() < last and desk.run(run_id).state not in RUN_FINAL:
        _answer(desk, _asked(desk, run_id))
        time.sleep(0.2)
    result.runs += 1
    result.findings.add(graph_findings(desk, run_id, names, names[:waiting], held))
    if len(held) < kills:
        result.findings.wrong.append(f"the graphs had ended after {len(held)} of {kills} kills")
    repeated = len(_calls(desk, run_id)) - tickers * len(TURNS)
    result.notes.append(f"{repeated} calls again, at most {sum(map(len, held))}")
    for name in WORKERS:
        desk.await_worker(name)


def _asked(desk: FaultDesk, run_id: str) -> list[str]:
    """Return what waits for a person of a run."""
    which = (RuntimeApproval.run_id == run_id, RuntimeApproval.state == ApprovalState.PENDING.value)
    with desk.store.read() as session:
        return list(session.exec(select(RuntimeApproval.id).where(*which)).all())


def _answer(desk: FaultDesk, requests: Iterable[str]) -> None:
    settings = desk.processes.app.desk.settings
    for request in requests:
        given = {"answer": ["yes"]}
        answer(desk.store, settings, lambda: False, request, approve=True, by="ann", why=None, answers=given)


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


def graph_findings(
    desk: FaultDesk, run_id: str, names: Sequence[str], waited: Sequence[str], held: Sequence[Sequence[str]]
) -> Findings:
    """Look at what the graphs left. waited: those that asked a person; held: those in work at each kill."""
    found = Findings()
    with desk.store.read() as session:
        run = session.get_one(Run, run_id)
        if (run.state, run.notes) != (RunState.DONE, []):
            steps = session.exec(select(Step).where(Step.run_id == run_id, col(Step.state).not_in(STEP_FINAL))).all()
            found.lost.append(f"run {run_id} is {run.state}: {run.notes}, open: {steps}")
        steps = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH)).all()
        outputs = {step.payload["graph"]: step.result["output"] for step in steps if "output" in step.result}
        found.lost += [f"graph {name}" for name in names if name not in outputs]
        # Each node adds its name to the state, and each analyst its report.
        found.wrong += [
            f"graph {name} went {output['nodes']}" for name, output in outputs.items() if output["nodes"] != list(NODES)
        ]
        said = {name: output["reports"].get("person") for name, output in outputs.items()}
        found.wrong += [f"graph {name} was told {said.get(name)}" for name in waited if said.get(name) != "yes"]
        questions = session.exec(select(RuntimeApproval).where(RuntimeApproval.run_id == run_id)).all()
        if len(questions) != len(waited):
            found.doubled.append(f"{len(questions)} questions of {len(waited)} graphs")
        for what, rows, once in _written(session, run_id, names):
            found.lost += [f"{what} {key}" for key in (once - rows)]
            found.doubled += [f"{what} {key}" for key in (rows - once)]
        if session.exec(select(GraphWrite).where(GraphWrite.run_id == run_id)).first() is not None:
            found.wrong.append("writes of nodes that ended are left")
    graph_of = {step.id: step.payload["graph"] for step in steps}
    found.doubled += _asked_too_often(_calls(desk, run_id), graph_of, Counter(chain(*held)))
    return found


def _written(
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
