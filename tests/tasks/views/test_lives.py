"""The status while a real worker, beat and Redis are frozen, one pair after the other: what is frozen is named, a Redis
that does not answer comes first, and nothing wrong is said of what runs."""

from __future__ import annotations

import io
import itertools
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis
from rich.console import Console

from chordesk.models.exchanges import zone_of
from chordesk.models.tables.columns import utcnow
from chordesk.tasks import life
from chordesk.tasks.cli.show.status_display import status_report
from chordesk.tasks.doctor import machine
from chordesk.tasks.doctor.check import CheckContext, CheckStatus
from chordesk.tasks.life import Life, State
from chordesk.tasks.reading.desk_status import DeskStatus, LastSweep, _unswept, status
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.schedules import DUE, starting
from tests.stack import Processes, processes, wait_for

pytestmark = pytest.mark.process
OTHERS = {"queue screen", "queue research", "queue trade"}  # that nobody serves here
NAMES = ("ops", "beat", "redis")


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes() as made:
        made.workers("ops")
        made.desk("beat", "beat")
        wait_for(lambda: is_well(look(made)), "all are well")
        yield made


def look(desk: Processes) -> DeskStatus:
    return status(desk.settings, running=False)


def is_well(found: DeskStatus) -> bool:
    words = {one.name: one.state for one in found.processes}
    return found.trouble.keys() == OTHERS and words == {"ops": State.RUNS, "beat": State.RUNS}


def shown(found: DeskStatus) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=400).print(status_report(found))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("pair", [*itertools.combinations(NAMES, 2), ("redis",)], ids="+".join)
def test_what_is_frozen_is_named_and_nothing_else(desk: Processes, pair: tuple[str, ...]) -> None:
    pids = [desk.running[name].pid for name in pair]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        for pid in pids:
            wait_for(lambda pid=pid: (seen := life.look(pid)) is not None and seen.stopped, "it is stopped")  # type: ignore[misc]
        found = look(desk)
        frozen = set(pair) - {"redis"}
        assert {one.name for one in found.processes if one.state is State.FROZEN} == frozen
        assert {one.name for one in found.processes if one.state is not State.FROZEN} == {"ops", "beat"} - frozen
        away = "redis" in pair
        queues = {"queue ops"} & {f"queue {name}" for name in pair} | OTHERS
        assert found.trouble.keys() - {"sweep"} == frozen | ({"redis"} if away else queues)
        assert "start `desk up`" not in str(found.trouble.values()), "what runs is not to be started"
        lines = shown(found)
        assert lines[0].startswith("redis: no answer") == away
        assert all(any(line.startswith(f"{name}: frozen for ") for line in lines) for name in frozen)
        assert not any("no beat runs" in line for line in lines)
        check = machine.processes(CheckContext(desk.settings, desk.app.desk))
        assert (check.status is CheckStatus.FAIL) == bool(frozen)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    wait_for(lambda: is_well(look(desk)), "all is well again")


def test_the_schedule_has_its_own_times_whatever_beat_reckons(desk: Processes) -> None:
    with redis.Redis.from_url(redis_url(desk.settings)) as client:
        soon = time.time() + 60  # as a beat that was started again writes it: too early
        client.zadd(DUE, dict.fromkeys(client.zrange(DUE, 0, -1), soon))
        found = look(desk)
    with desk.app.desk.store.read() as session:
        starts = starting(session, desk.settings, utcnow())
    said = ", ".join(f"{one.name} {at.astimezone(zone_of('XNYS')):%a %H:%M}" for one, at in starts)
    assert [line for line in shown(found) if line.startswith("scheduled")] == [f"scheduled, New York time: {said}"]


def test_a_late_sweep_has_the_cause_that_is_known() -> None:
    def said(*lives: Life, away: bool = False) -> str:
        return _unswept(LastSweep(at=None, seconds=40.0, found={}, sweeping=False), lives, redis_away=away)

    ops = Life("ops", "ops", socket.gethostname(), 1, State.RUNS)
    writes = replace(ops, why="its sweep fails: OperationalError: attempt to write a readonly database")
    assert "while ops runs: its sweep fails: OperationalError: attempt to write a readonly database" in said(writes)
    assert "each worker sweeps, and ops is frozen" in said(replace(ops, state=State.FROZEN))
    assert "ops runs, and a sweep waits for Redis" in said(ops, away=True)
    assert "none runs" in said(), "as where no worker was ever started"
