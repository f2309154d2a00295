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

from models.errors import ServiceError, UsageError
from models.setting_sources import load_settings
from tasks.services.plan import Plan
from tasks.services.programs import Program
from tasks.services.stack import Stack
from tests.tasks.services.conftest import CLEAN, gone

SLEEPER = Program("sleeper", (sys.executable, "-c", "import time; time.sleep(600)"))


def pids(stack: Stack) -> list[int]:
    return [member.pid for member in stack.members()]


def client(stack: Stack) -> redis.Redis:
    assert stack.plan.settings.redis_url is not None
    return redis.Redis.from_url(stack.plan.settings.redis_url.get_secret_value())


def until(check: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        time.sleep(0.1)
    return False


def test_redis_is_private_and_keeps_what_it_is_told(make_plan: Callable[..., Plan], home: Path) -> None:
    with Stack(make_plan(DESK_PROVIDER="codex")) as stack:
        with client(stack) as r:
            assert r.config_get("port") == {"port": "0"}
            assert r.config_get("appendonly") == {"appendonly": "yes"}
            assert r.config_get("appendfsync") == {"appendfsync": "everysec"}
            assert r.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
            r.set("kept", "yes")
        assert (home / "run").stat().st_mode & 0o777 == 0o700
        listening = {c.laddr for pid in pids(stack) for c in psutil.Process(pid).net_connections(kind="tcp")}
        assert listening == set()
    with Stack(make_plan(DESK_PROVIDER="codex")) as stack, client(stack) as r:
        assert r.get("kept") == b"yes"


def test_a_second_process_finds_the_services_and_none_after_the_end(make_plan: Callable[..., Plan], home: Path) -> None:
    environ = {"DESK_HOME": str(home)}
    with Stack(make_plan()) as stack:
        found = load_settings(environ, home)
        assert found.redis_url is not None
        assert found.redis_url.get_secret_value() == stack.plan.urls["redis_url"]
        assert found.rulebook_url == stack.plan.urls["rulebook_url"]
        seen = pids(stack)
        assert len(seen) == 3
    assert gone(seen, 0.1)
    assert not (home / "run" / "services.json").exists()
    assert load_settings(environ, home).redis_url is None


def test_a_home_has_one_stack(make_plan: Callable[..., Plan]) -> None:
    made = make_plan(DESK_PROVIDER="codex")
    with Stack(made) as first:
        with pytest.raises(UsageError, match=str(os.getpid())), Stack(made):
            pass
        assert first.poll()[0].state == "RUNNING"


def test_a_part_that_dies_comes_back_with_its_data(make_plan: Callable[..., Plan]) -> None:
    with Stack(make_plan(DESK_PROVIDER="codex")) as stack:
        with client(stack) as r:
            r.set("kept", "yes")
        before = stack.poll()[0].pid
        os.kill(before, signal.SIGKILL)
        assert until(lambda: stack.poll()[0].state == "RUNNING" and stack.poll()[0].pid != before, 8)
        with client(stack) as r:
            assert r.get("kept") == b"yes"


def test_the_end_leaves_nothing_when_the_supervisor_was_killed(make_plan: Callable[..., Plan]) -> None:
    made = make_plan()
    with Stack(replace(made, programs=(*made.programs, SLEEPER))) as stack:
        seen = pids(stack)
        assert len(seen) == 4
        os.kill(stack.supervisor_pid, signal.SIGKILL)
        with pytest.raises(ServiceError, match="supervisord has ended"):
            until(lambda: not stack.poll(), 5)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert gone(seen, 0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the tether polls")
def test_children_of_a_killed_supervisor_end_by_themselves(make_plan: Callable[..., Plan]) -> None:
    made = make_plan()
    with Stack(replace(made, programs=(*made.programs, SLEEPER))) as stack:
        seen = pids(stack)
        os.kill(stack.supervisor_pid, signal.SIGKILL)
        assert gone([pid for pid in seen if pid != stack.supervisor_pid], 5)


def test_a_stubborn_program_does_not_hold_up_the_end(make_plan: Callable[..., Plan]) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    made = make_plan(DESK_PROVIDER="codex")
    stubborn = Program("stubborn", (sys.executable, "-c", deaf))
    with Stack(replace(made, programs=(*made.programs, stubborn))) as stack:
        seen = pids(stack)
        began = time.monotonic()
    assert time.monotonic() - began < 10
    assert gone(seen, 0.1)


def test_a_program_that_cannot_start_is_told_with_its_log(make_plan: Callable[..., Plan]) -> None:
    broken = Program("broken", (sys.executable, "-c", "raise SystemExit('no such luck')"))
    made = make_plan(DESK_PROVIDER="codex")
    with (
        pytest.raises(ServiceError, match=r"(?s)broken does not start.*no such luck"),
        Stack(replace(made, programs=(*made.programs, broken))),
    ):
        pass
    assert not (made.folders.services_file).exists()


def test_migrations_run_between_the_services_and_the_desk(make_plan: Callable[..., Plan], tmp_path: Path) -> None:
    note = tmp_path / "note"
    made = make_plan(DESK_PROVIDER="codex")
    program = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    writer = Program("writer", (sys.executable, "-c", program, str(note)))
    seen: list[bool] = []

    def migrate() -> None:
        assert made.settings.redis_url is not None
        with redis.Redis.from_url(made.settings.redis_url.get_secret_value()) as r:
            seen.append(bool(r.ping()) and not note.exists())

    with Stack(replace(made, programs=(*made.programs, writer)), before_desk=migrate):
        assert note.exists()
    assert seen == [True]


def test_a_home_too_deep_for_a_socket_gets_a_private_folder_elsewhere(
    make_plan: Callable[..., Plan], home: Path
) -> None:
    deep = home / ("x" * 100)
    made = make_plan(DESK_HOME=str(deep), DESK_PROVIDER="codex")
    assert made.folders.sockets.stat().st_mode & 0o777 == 0o700
    with Stack(made) as stack, client(stack) as r:
        assert r.ping()
    assert not made.folders.sockets.exists()


def test_a_home_with_spaces_and_percents_works(make_plan: Callable[..., Plan], home: Path) -> None:
    with Stack(make_plan(DESK_HOME=str(home / "my desk %1"), DESK_PROVIDER="codex")) as stack, client(stack) as r:
        assert r.ping()


def test_what_a_crash_left_is_ended_before_a_new_start(make_plan: Callable[..., Plan], home: Path) -> None:
    made = make_plan(DESK_PROVIDER="codex")
    orphan = subprocess.Popen(["sleep", "600"])
    try:
        row = {"pid": orphan.pid, "created": psutil.Process(orphan.pid).create_time(), "command": "sleep 600"}
        other = {"pid": os.getpid(), "created": 1.0, "command": "another process with this pid, long ago"}
        made.folders.processes_file.write_text(json.dumps([row, other]), encoding="utf-8")
        with Stack(made) as stack:
            assert [member.pid for member in stack.left_over] == [orphan.pid]
            assert gone([orphan.pid], 1)
    finally:
        orphan.kill()


OUTER = """
import sys
from dataclasses import replace
from pathlib import Path
from models.setting_sources import load
from tasks.services import plan
from tasks.services.stack import Stack
import os, time
home = Path(sys.argv[1])
with Stack(plan.make(load(os.environ, home), os.environ, home, None)) as stack:
    print(*[member.pid for member in stack.members()], flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the tether polls")
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
    assert gone(seen, 9)
