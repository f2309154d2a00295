"""The stack with a real supervisord, a real Redis and the real rulebook model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import redis

from chordesk.models.errors import ServiceError, UsageError
from chordesk.models.settings import running_desk as running
from chordesk.models.settings.running_desk import services_path
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.services import supervision
from chordesk.tasks.services.plan import Plan, Program
from chordesk.tasks.services.stack import Stack
from tests.patience import PATIENCE
from tests.tasks.services.conftest import CLEAN, gone

DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
# Starts a process in a session of its own, which no signal to a group and no parent guard reaches.
ESCAPING = "import subprocess, time; subprocess.Popen(['sleep', '600'], start_new_session=True); time.sleep(600)"


def pids(stack: Stack) -> list[int]:
    return [member.pid for member in stack.members()]


def client(stack: Stack) -> redis.Redis:
    assert stack.plan.settings.redis_url is not None
    return redis.Redis.from_url(stack.plan.settings.redis_url.get_secret_value())


def until(check: Callable[[], bool]) -> bool:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.1)
    return False


def program(name: str, code: str, *arguments: str) -> Program:
    return Program(name, (sys.executable, "-c", code, *arguments))


def with_programs(made: Plan, *programs: Program) -> Plan:
    return replace(made, programs=(*made.programs, *programs))


def test_redis_is_private_and_keeps_its_data_over_a_crash(make_plan: Callable[..., Plan], home: Path) -> None:
    with Stack(make_plan(DESK_PROVIDER="codex")) as stack:
        with client(stack) as r:
            assert r.config_get("port") == {"port": "0"}
            assert r.config_get("appendonly") == {"appendonly": "yes"}
            assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            r.set("kept", "yes")
        assert (home / "run").stat().st_mode & 0o777 == 0o700
        listening = {c.laddr for pid in pids(stack) for c in psutil.Process(pid).net_connections(kind="tcp")}
        assert listening == set()
    made = make_plan(DESK_PROVIDER="codex")
    orphan = subprocess.Popen(["sleep", "600"])
    try:
        left = {"pid": orphan.pid, "created": psutil.Process(orphan.pid).create_time(), "command": "sleep 600"}
        other = {"pid": os.getpid(), "created": 1.0, "command": "had this pid long ago"}
        made.folders.processes_file.write_text(json.dumps([left, other]), encoding="utf-8")
        with Stack(made) as stack, client(stack) as r:
            assert r.get("kept") == b"yes"
            assert [member.pid for member in stack.left_over] == [orphan.pid]
            assert gone([orphan.pid])
    finally:
        orphan.kill()


def test_one_stack_a_home_found_by_others_and_mended(make_plan: Callable[..., Plan], home: Path) -> None:
    environ = {"DESK_HOME": str(home)}
    made = make_plan()
    with Stack(made) as stack:
        found = load_settings(environ, home)
        assert found.redis_url is not None
        assert found.redis_url.get_secret_value() == made.urls["redis_url"]
        assert found.rulebook_url == made.urls["rulebook_url"]
        with pytest.raises(UsageError, match=str(os.getpid())), Stack(made):
            pass
        seen = pids(stack)
        assert len(seen) == 3
        with client(stack) as r:
            r.set("kept", "yes")
        before = {each.name: each.pid for each in stack.poll()}
        os.kill(before["redis"], signal.SIGKILL)

        def mended() -> bool:
            now = {each.name: each for each in stack.poll()}["redis"]
            return now.state == "RUNNING" and now.pid != before["redis"]

        assert until(mended)
        with client(stack) as r:
            assert r.get("kept") == b"yes"
        seen += pids(stack)
    assert gone(seen)
    assert not (home / "run" / "services.json").exists()
    assert load_settings(environ, home).redis_url is None


def test_the_leftovers_of_a_crash_do_not_count_while_the_next_desk_starts(
    make_plan: Callable[..., Plan], home: Path
) -> None:
    made = make_plan(DESK_PROVIDER="codex")
    running.write(home, {"redis_url": "unix:///gone.sock", "provider": "endpoint"})
    seen: list[dict[str, str]] = []
    with Stack(made, before_desk=lambda: seen.append(running.read(home))):
        assert running.read(home) == made.announced == {"redis_url": made.urls["redis_url"]}
        assert services_path(home).stat().st_mode & 0o777 == 0o600
    assert seen == [{}]
    assert running.read(home) == {}


def test_a_killed_supervisor_takes_all_with_it(make_plan: Callable[..., Plan]) -> None:
    made = with_programs(make_plan(), program("deaf", DEAF), program("escaping", ESCAPING))
    with Stack(made) as stack:
        assert until(lambda: len(pids(stack)) == 6)
        seen = pids(stack)
        os.kill(stack.members()[0].pid, signal.SIGKILL)
        with pytest.raises(ServiceError, match="supervisord has ended"):
            until(lambda: not stack.poll())
        escaped = [pid for pid in seen if psutil.pid_exists(pid) and psutil.Process(pid).name() == "sleep"]
        assert len(escaped) == 1
        if sys.platform == "linux":
            assert gone([pid for pid in seen if pid not in escaped])
    assert gone(seen)


def test_the_end_comes_in_time_and_migrations_before_the_desk(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    note = tmp_path / "note"
    writer = program("writer", "import pathlib, sys; pathlib.Path(sys.argv[1]).touch();" + DEAF, str(note))
    made = with_programs(make_plan(DESK_PROVIDER="codex"), writer)
    seen: list[bool] = []

    def migrate() -> None:
        assert made.settings.redis_url is not None
        with redis.Redis.from_url(made.settings.redis_url.get_secret_value()) as r:
            seen.append(bool(r.ping()) and not note.exists())

    with Stack(made, before_desk=migrate) as stack:
        assert note.exists()
        running = pids(stack)
    assert seen == [True]
    assert gone(running)


def test_a_program_that_cannot_start_is_reported_with_its_log(make_plan: Callable[..., Plan]) -> None:
    made = with_programs(make_plan(DESK_PROVIDER="codex"), program("broken", "raise SystemExit('no such luck')"))
    with pytest.raises(ServiceError, match=r"(?s)broken does not start.*no such luck"), Stack(made):
        pass
    assert not services_path(made.folders.home).exists()


BUSY = "while True: pass"


@pytest.mark.parametrize(
    ("code", "most", "standstill", "why"),
    [
        (BUSY, 4.0, 60.0, r"not ready in 4 s: slow \(log .*slow\.log\)"),
        (DEAF, 600.0, 2.0, r"not ready and used no CPU for 2 s: slow \(log .*slow\.log\)"),
    ],
    ids=["too long", "standstill"],
)
def test_the_wait_for_a_late_worker_ends(
    make_plan: Callable[..., Plan],
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    most: float,
    standstill: float,
    why: str,
) -> None:
    monkeypatch.setattr(supervision, "START_SECONDS", most)
    monkeypatch.setattr(supervision, "STANDSTILL_SECONDS", standstill)
    made = with_programs(make_plan(), program("slow", code))
    made = replace(made, programs=tuple(one for one in made.programs if one.name == "slow"), urls={})
    seen: list[int] = []

    def late() -> list[str]:
        seen.extend(pids(stack))
        return ["slow"]

    stack = Stack(made, late_workers=late)
    with pytest.raises(ServiceError, match=why), stack:
        pass
    assert seen
    assert gone(seen)


def test_a_home_with_a_long_and_odd_path_works(make_plan: Callable[..., Plan], home: Path) -> None:
    made = make_plan(DESK_HOME=str(home / ("x" * 100) / "my desk %1"), DESK_PROVIDER="codex")
    assert made.folders.sockets.stat().st_mode & 0o777 == 0o700
    with Stack(made) as stack, client(stack) as r:
        assert r.ping()
    assert not made.folders.sockets.exists()


OUTER = """
import sys
from dataclasses import replace
from pathlib import Path
from chordesk.models.settings.sources import load
from chordesk.tasks.services import plan
from chordesk.tasks.services.stack import AGAIN, Stack
from chordesk.tasks.services.supervision import log_file
import os, time
home = Path(sys.argv[1])
with Stack(plan.make(load(os.environ, home), os.environ, home, None)) as stack:
    print(*[member.pid for member in stack.members()], flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the parent guard polls")
def test_nothing_outlives_a_starter_that_was_killed(home: Path) -> None:
    home.mkdir()
    root = Path(__file__).parents[3]
    environ = {**CLEAN, "DESK_HOME": str(home), "DESK_PROVIDER": "codex", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", OUTER, str(home)]
    with subprocess.Popen(command, env=environ, cwd=home, stdout=subprocess.PIPE, text=True) as outer:
        assert outer.stdout is not None
        seen = [int(pid) for pid in outer.stdout.readline().split()]
        assert len(seen) == 2
        outer.kill()
    assert gone(seen)
