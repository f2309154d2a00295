"""The word for a process's life, with real processes that are stopped, killed, stuck and started again."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from chordesk.tasks import life
from chordesk.tasks.life import Life, State
from chordesk.tasks.redis_clients import client, redis_url
from tests.stack import REPOSITORY, processes, wait_for

# It beats, as a loop of the desk does. A `desk up` looks after Redis, has started a beat, and left the API out.
PROGRAM = """
import pathlib, subprocess, sys, time
from chordesk.tasks import life
home, name = sys.argv[1:]
own = life.begin(pathlib.Path(home), name, name)
if name == "up":
    pid = subprocess.Popen(["sleep", "600"]).pid
    own.looks_after(lambda: [life.Part("redis", "redis", pid), life.Part("beat", "beat", 0, message="it ended")])
    own.leaves_out({"api": "left out"})
while True:
    life.beat()
    time.sleep(0.05)
"""
NAMES = ("up", "supervisor", "beat", "research", "ops")
WELL = {**dict.fromkeys((*NAMES, "redis"), State.RUNS), "api": State.NOT_WANTED}


class Desk:
    """Processes that have a life and nothing else, in one home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, *names: str) -> None:
        for name in names:
            command = [sys.executable, "-c", PROGRAM, str(self.home), name]
            self._started[name] = subprocess.Popen(command, cwd=REPOSITORY, start_new_session=True)
        wait_for(lambda: set(names) <= {one.name for one in self.lives() if one.state is State.RUNS}, "they beat")

    def lives(self) -> list[Life]:
        return life.lives(self.home)

    def words(self) -> dict[str, State]:
        return {one.name: one.state for one in self.lives()}

    def pid(self, name: str) -> int:
        return next(one.pid for one in self.lives() if one.name == name)

    def kill(self, name: str) -> None:
        process = self._started.pop(name)
        process.kill()
        process.wait()

    def close(self) -> None:
        for process in self._started.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_each_pair_of_frozen_processes_is_named_and_none_of_the_others(desk: Desk) -> None:
    desk.start(*NAMES)
    wait_for(lambda: desk.words() == WELL, "Redis is looked after")
    pids = {name: desk.pid(name) for name in (*NAMES, "redis")}
    for pair in itertools.combinations(pids, 2):
        for name in pair:
            os.kill(pids[name], signal.SIGSTOP)
        wanted = {**WELL, **dict.fromkeys(pair, State.FROZEN)}
        wait_for(lambda wanted=wanted: desk.words() == wanted, f"{pair} are frozen")  # type: ignore[misc]
        ill = [one for one in desk.lives() if one.alarming]
        assert {one.name for one in ill} == set(pair)
        assert all(f"`kill -CONT {one.pid}` lets it go on" in str(one) for one in ill)
        for name in pair:
            os.kill(pids[name], signal.SIGCONT)
    wait_for(lambda: desk.words() == WELL, "all run again")


def test_a_killed_process_is_dead_until_it_is_started_again_and_one_that_nobody_wants_is_not(desk: Desk) -> None:
    desk.start(*NAMES)
    desk.kill("beat")
    dead = next(one for one in desk.lives() if one.name == "beat")
    assert (dead.state, dead.why) == (State.DEAD, "it ended"), "what `desk up` knows of it"
    desk.start("beat")
    wait_for(lambda: desk.words() == WELL, "a new one has its name")
    pid = desk.pid("redis")
    desk.kill("up")
    assert desk.words() == {"up": State.DEAD, **dict.fromkeys(NAMES[1:], State.RUNS)}
    for name in NAMES[1:]:
        desk.kill(name)
    assert desk.words() == {"up": State.DEAD}, "what it had started has ended with it"
    os.kill(pid, signal.SIGKILL)
    life.forget(desk.home)
    assert desk.lives() == [], "the next desk begins"


def test_without_a_desk_up_each_process_that_did_not_end_in_order_is_missed(desk: Desk) -> None:
    desk.start("research")
    desk.kill("research")
    assert desk.words() == {"research": State.DEAD}


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Life]:
    """Write what a process, by default this one, is taken to have written so many seconds ago, and return its life."""
    own = life.Beating(tmp_path, "ops", "ops", threaded=False)
    own.begin()
    (path,) = life.folder(tmp_path).glob("*.json")

    def written(at: float, beat: float | None, redis_away: bool = False, **changes: Any) -> Life:
        now = time.monotonic()
        record = replace(own.record(), at=now - at, beat=now - beat if beat is not None else None, **changes)
        with path.open("r+b") as file:
            file.write(json.dumps(asdict(record)).encode().ljust(8192))
        return next(iter(life.lives(tmp_path, redis_away=redis_away)))

    return written


# Seconds since the record was written and since the loop beat, what it waits for, and the word.
LOOPS: tuple[tuple[float, float | None, str, bool, State], ...] = (
    (0.5, 0.5, "", False, State.RUNS),
    (0.5, life.SLOW_SECONDS - 0.5, "", False, State.RUNS),
    (0.5, life.SLOW_SECONDS + 0.5, "", False, State.SLOW),
    (0.5, life.STUCK_SECONDS - 0.5, "", False, State.SLOW),
    (0.5, life.STUCK_SECONDS + 0.5, "", False, State.FROZEN),
    (0.5, life.STUCK_SECONDS + 0.5, "its sweep fails", False, State.FROZEN),
    (0.5, life.STUCK_SECONDS + 0.5, life.FOR_REDIS, False, State.RUNS),
    (0.5, life.STUCK_SECONDS + 0.5, "", True, State.RUNS),
    (0.5, None, "", False, State.STARTING),
    (life.SLOW_SECONDS + 0.5, 7.0, "", False, State.SLOW),
    (life.IDLE_SECONDS + 0.5, 20.0, "", False, State.SLOW),  # this process runs while it is looked at
    (life.STUCK_SECONDS + 0.5, 40.0, "", False, State.FROZEN),
)


@pytest.mark.parametrize(("at", "beat", "waits", "redis_away", "state"), LOOPS)
@pytest.mark.parametrize("leap", [0, 7200, -7200], ids=["no leap", "two hours on", "two hours back"])
def test_a_loop_is_judged_by_its_age_whatever_the_clock_says(
    write: Callable[..., Life],
    monkeypatch: pytest.MonkeyPatch,
    at: float,
    beat: float | None,
    waits: str,
    redis_away: bool,
    state: State,
    leap: int,
) -> None:
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + leap)
    found = write(at, beat, redis_away, waits=waits)
    assert found.state is state
    assert found.alarming == (state is State.FROZEN)
    if redis_away:
        assert found.why == life.FOR_REDIS


def test_a_process_that_wants_no_cpu_is_frozen_sooner_and_a_later_one_of_its_pid_is_another(
    write: Callable[..., Life],
) -> None:
    idle = subprocess.Popen(["sleep", "600"])
    try:
        start = life.start_of(idle.pid)
        facts = {"pid": idle.pid, "start": start, "cpu": 0.0}
        wait_for(lambda: not (seen := life.look(idle.pid)) or not seen.busy, "it sleeps")
        assert write(life.IDLE_SECONDS - 0.5, 16.0, **facts).state is State.SLOW
        found = write(life.IDLE_SECONDS + 0.5, 16.0, **facts)
        assert (found.state, found.why) == (State.FROZEN, "it uses no CPU")
        assert write(0.5, 0.5, **{**facts, "start": f"{start}0"}).state is State.DEAD
    finally:
        idle.kill()
        idle.wait()


def test_a_copy_of_a_home_has_no_life_and_neither_has_one_of_before_the_machine_started(
    write: Callable[..., Life], tmp_path: Path
) -> None:
    assert write(0.5, 0.5).state is State.RUNS
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "run", copy / "run")
    assert life.lives(copy) == []
    with pytest.raises(StopIteration):
        write(0.5, 0.5, place="another-boot:1")


def test_a_process_of_another_host_is_unreachable_by_the_time_to_live_of_its_key(tmp_path: Path) -> None:
    with processes() as made, client(redis_url(made.settings), 3.0) as redis:
        own = life.Beating(tmp_path, "research", "research", threaded=False)
        own.beat()
        here = own.record()
        there = replace(here, host="elsewhere", place="another-boot:1")
        life.tell(redis, there)
        life.tell(redis, here)

        def found() -> Life:
            (one,) = life.lives(tmp_path, life.told(redis))
            return one

        assert (found().called, found().state) == ("research@elsewhere", State.RUNS)
        (key,) = [name for name in redis.keys("desk:life:*") if b"elsewhere" in name]
        redis.pexpire(key, int(1000 * (life.FORGOTTEN_SECONDS - life.UNREACHABLE_SECONDS - 1)))
        assert found().state is State.UNREACHABLE
        assert "nothing came from elsewhere" in str(found())
        redis.delete(key)
        assert life.lives(tmp_path, life.told(redis)) == []
        assert [one.host for one in life.told(redis)] == [here.host]
