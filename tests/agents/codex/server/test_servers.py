"""The life of app-server processes: lazy start, replacement, faults, and an end without orphans."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.codex.servers import set_aside
from chordesk.models.errors import ProcessDied, RpcTimeout
from tests.agents.codex.kit import FINAL, Codex, one_turn, spec, until
from tests.fakes.responses import FakeResponses, Silence, Text
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[4]


def pids(runtime: CodexRuntime) -> list[int]:
    return [one.pid for one in runtime.status()]


async def test_one_process_a_kind_and_none_before_the_first_lease(codex: Codex) -> None:
    async with codex() as runtime:
        assert runtime.status() == []
        await asyncio.gather(*(one_turn(runtime, spec(subject=str(number))) for number in range(8)))
        assert [one.kind for one in runtime.status()] == ["ephemeral"]
        await one_turn(runtime, spec(keep=True))
        kept, ephemeral = runtime.status()
        assert (kept.kind, kept.turns, ephemeral.kind, ephemeral.turns) == ("kept", 1, "ephemeral", 8)
        assert kept.rss_mb > 20
        assert ephemeral.in_flight == 0
        assert ephemeral.age > 0
        ids = pids(runtime)
    assert not any(psutil.pid_exists(pid) for pid in ids)


async def test_a_killed_process_leaves_its_kept_threads_to_the_other(model: FakeResponses, codex: Codex) -> None:
    async with codex() as runtime:
        model.latency = 0.3
        crowd = [str(number) for number in range(16)]
        for _ in range(2):
            first = await asyncio.gather(*(one_turn(runtime, spec(keep=True, subject=name)) for name in crowd))
        killed, alive = pids(runtime)
        os.kill(killed, signal.SIGKILL)
        with contextlib.suppress(ProcessDied):  # a turn that comes before the death is noticed
            await one_turn(runtime, spec(keep=True, subject="unlucky"))
        again = [await one_turn(runtime, spec(keep=True, subject=name)) for name in crowd[:4]]
        assert [turn.thread_id for turn in again] == [turn.thread_id for turn in first[:4]]
        assert pids(runtime) == [alive]


async def test_a_worn_process_drains_while_its_successor_serves(model: FakeResponses, codex: Codex) -> None:
    model.script(Text(FINAL), Silence(2))
    async with codex(recycle_turns=2) as runtime:
        first = await one_turn(runtime, spec(keep=True))
        (old,) = pids(runtime)
        long = asyncio.create_task(one_turn(runtime, spec(keep=True, subject="SLOW")))
        await until(lambda: len(model.requests) == 2)
        await one_turn(runtime, spec(keep=True, subject="IBM"))
        assert (await one_turn(runtime, spec(keep=True))).thread_id == first.thread_id
        assert old in pids(runtime), "the old process serves its turn to the end"
        assert len(pids(runtime)) == 2
        assert (await long).status == "completed"
        await until(lambda: not psutil.pid_exists(old))
        assert old not in pids(runtime)


async def test_a_fat_process_is_replaced(codex: Codex) -> None:
    async with codex(recycle_rss_mb=1, health_seconds=0.1) as runtime:
        await one_turn(runtime, spec())
        await until(lambda: runtime.status() == [])
        assert (await one_turn(runtime, spec())).status == "completed"


async def test_processes_without_turns_end_and_their_threads_go_on(codex: Codex) -> None:
    async with codex(idle_seconds=0.1, health_seconds=0.1) as runtime:
        first = await one_turn(runtime, spec(keep=True))
        await until(lambda: runtime.status() == [])
        assert (await one_turn(runtime, spec(keep=True))).thread_id == first.thread_id


async def test_a_hung_process_is_killed_and_its_turns_fail_retryable(model: FakeResponses, codex: Codex) -> None:
    model.script(Text(FINAL), Silence(60))
    async with codex(health_seconds=0.2, rpc_seconds=4.0) as runtime:
        await one_turn(runtime, spec())
        (old,) = pids(runtime)
        held = asyncio.create_task(one_turn(runtime, spec()))
        await until(lambda: len(model.requests) == 2)
        os.kill(old, signal.SIGSTOP)
        result = await held
        assert result.failure is not None
        assert (result.failure.kind, result.failure.retryable) == ("process_died", True)
        assert not psutil.pid_exists(old)
        assert (await one_turn(runtime, spec())).status == "completed"


async def test_slots_bound_the_turns_and_a_deadline_bounds_the_wait(model: FakeResponses, codex: Codex) -> None:
    model.latency = 0.3
    async with codex(turns=2) as runtime:
        turns = [asyncio.create_task(one_turn(runtime, spec(subject=str(number)))) for number in range(6)]
        await until(lambda: len(model.requests) >= 2)
        with pytest.raises(RpcTimeout, match="no free turn"):
            await one_turn(runtime, spec(), seconds=0.05)
        most = 0
        while not all(each.done() for each in turns):
            most = max(most, runtime.status()[0].in_flight)
            await asyncio.sleep(0.02)
        assert most == 2


async def test_close_lets_turns_end_within_the_grace_time(model: FakeResponses, codex: Codex) -> None:
    model.script(Silence(1))
    async with codex() as runtime:
        held = asyncio.create_task(one_turn(runtime, spec()))
        await until(lambda: bool(model.requests))
        ids = pids(runtime)
        await runtime.close(PATIENCE)
        assert (await held).status == "completed"
        assert not any(psutil.pid_exists(pid) for pid in ids)
        with pytest.raises(ProcessDied, match="closing"):
            await one_turn(runtime, spec())


async def test_close_interrupts_what_goes_on_too_long(model: FakeResponses, codex: Codex) -> None:
    model.policy = lambda _body: Silence(60)
    async with codex() as runtime:
        held = [asyncio.create_task(one_turn(runtime, spec(keep=keep))) for keep in (True, False)]
        await until(lambda: len(model.requests) == 2)
        ids = pids(runtime)
        await runtime.close(0.3)
        assert [(await each).status for each in held] == ["interrupted", "interrupted"]
        assert not any(psutil.pid_exists(pid) for pid in ids)


CHILD = """
import asyncio, sys
from pathlib import Path
import structlog
from tests.agents.codex.kit import one_turn, running, spec

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))

async def work():
    async with running(sys.argv[1], Path(sys.argv[2]), sys.argv[3]) as runtime:
        result = await one_turn(runtime, spec())
        print(result.status, runtime.status()[0].pid, flush=True)
        await asyncio.sleep(600)

asyncio.run(work())
"""


def child(model: FakeResponses, home: Path, registry: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD, model.url, str(home), registry]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_a_killed_worker_leaves_no_app_server(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    worker = child(model, tmp_path, registry)
    assert worker.stdout is not None
    status, pid = worker.stdout.readline().split()
    assert status == "completed"
    worker.kill()
    worker.wait(PATIENCE)
    worker.stdout.close()
    until_gone = time.monotonic() + PATIENCE
    while psutil.pid_exists(int(pid)):
        assert time.monotonic() < until_gone, "the app-server outlived its worker"
        time.sleep(0.05)


NOW = dt.datetime(2026, 3, 20, 12, 0)


def a_rollout(home: Path, day: str, name: str = "rollout-x.jsonl", written: dt.datetime | None = None) -> Path:
    """Of a thread begun on this day, and last written then unless it is given when."""
    path = home / "sessions" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    with contextlib.suppress(ValueError):
        last = (written or dt.datetime(*(int(part) for part in day.split("/")))).timestamp()  # type: ignore[arg-type]
        os.utime(path, (last, last))
    return path


def rollouts(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jsonl"))


def test_days_that_no_thread_can_be_gone_on_with_are_set_aside(tmp_path: Path) -> None:
    home = tmp_path / "kept"
    # 72 hours and a day's margin after its last moment, the 15th was over at noon of the 20th, and the 16th was not.
    for day in ("2026/03/20", "2026/03/16", "2026/03/15", "2026/03/10", "2025/12/31"):
        a_rollout(home, day)
    assert set_aside(home, 72, 14, NOW) == 3
    assert rollouts(home) == ["sessions/2026/03/16/rollout-x.jsonl", "sessions/2026/03/20/rollout-x.jsonl"]
    assert rollouts(tmp_path / "aged") == [
        "sessions/2026/03/10/rollout-x.jsonl", "sessions/2026/03/15/rollout-x.jsonl",
    ], "the one of last year is older than 14 days"  # fmt: skip
    assert set_aside(home, 72, 14, NOW) == 0


def test_an_old_thread_that_was_used_lately_stays(tmp_path: Path) -> None:
    """Its age counts from its last use, here as in the registry."""
    home = tmp_path / "kept"
    a_rollout(home, "2026/03/01", "rollout-used.jsonl", NOW - dt.timedelta(hours=70))
    a_rollout(home, "2026/03/01", "rollout-unused.jsonl")
    assert set_aside(home, 72, 14, NOW) == 1
    assert rollouts(home) == ["sessions/2026/03/01/rollout-used.jsonl"]
    assert set_aside(home, 72, 14, NOW + dt.timedelta(hours=72)) == 1
    assert rollouts(tmp_path / "aged") == ["sessions/2026/03/01/rollout-used.jsonl"], (
        "deleted 14 days after its last use"
    )


def test_locks_of_old_threads_go(tmp_path: Path) -> None:
    locks = tmp_path / "kept" / "thread-writer-locks"
    locks.mkdir(parents=True)
    long_ago = (NOW - dt.timedelta(days=30)).timestamp()
    for name in ("old.lock", ".coordination.lock", "new.lock"):
        (locks / name).touch()
        os.utime(locks / name, (long_ago, long_ago) if name != "new.lock" else (NOW.timestamp(), NOW.timestamp()))
    set_aside(tmp_path / "kept", 72, 14, NOW)
    assert sorted(path.name for path in locks.iterdir()) == [".coordination.lock", "new.lock"]


async def test_a_process_sets_aside_when_it_starts(codex: Codex, tmp_path: Path) -> None:
    worker = tmp_path / "codex" / "w"
    old = dt.date.today() - dt.timedelta(days=8)
    a_rollout(worker / "kept", f"{old:%Y/%m/%d}")
    async with codex() as runtime:
        assert (await one_turn(runtime, spec(keep=True))).status == "completed"
    assert rollouts(worker / "aged") == [f"sessions/{old:%Y/%m/%d}/rollout-x.jsonl"]
    # The count of rollouts on disk, which a demo rests on, sees both.
    assert len(list(tmp_path.glob("codex/*/*/sessions/**/rollout-*.jsonl"))) == 2  # noqa: ASYNC240
