"""`desk up` whole: real Redis, workers, schedule and Flower, watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tasks.cli.services.up import change
from tasks.services.programs import desk_command
from tasks.services.supervision import Process
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk, environment
from tests.tasks.services.conftest import gone

DAY = "2010-08-11"
PROGRAMS = {"redis", "rulebook", "research", "ops", "trade", "beat", "flower", "api"}


class Up:
    """A running `desk up`: its lines so far, and the pids of its table."""

    def __init__(self, home: Path, *arguments: str, **environ: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            desk_command("up", *arguments),
            env=environment(home, **environ),
            cwd=home,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self.pids: dict[str, int] = {}

    def until(self, words: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            row = re.match(r"(\S+) +running +(\d+) ", line)
            if row:
                self.pids[row[1]] = int(row[2])
            if words in line:
                return line
        raise AssertionError(f"{words!r} never came: {''.join(self.lines)}")

    def everybody(self) -> list[int]:
        return [each.pid for each in psutil.Process(self.process.pid).children(recursive=True)]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


def test_what_is_told_of_a_program() -> None:
    ran = Process("ops", "RUNNING", 10, 0.0, "")
    died = replace(ran, state="BACKOFF", pid=0, message="Exited too quickly")
    starts = replace(ran, state="STARTING", pid=11)
    back = replace(ran, pid=11)
    assert change(10, ran, ran) is None
    assert change(10, ran, died) == "ops: backoff (Exited too quickly)"
    assert change(10, died, died) is None
    assert change(10, died, starts) is None
    assert change(10, starts, back) == "ops: running again as process 11"
    assert change(10, ran, back) == "ops: running again as process 11"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    up = Up(tmp_path_factory.mktemp("up") / "home", "--api", DESK_REPLAY_DATE=DAY, DESK_MODEL="gpt-5.4")
    try:
        up.until("Ctrl-C stops all")
        yield up
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            up.stop()
        up.process.kill()


def test_all_programs_run_and_the_workers_answer(running: Up) -> None:
    assert set(running.pids) == PROGRAMS
    assert all(psutil.pid_exists(pid) for pid in running.pids.values())
    for asked in (("ops",), ("trade",), ("research", "--name", "research")):
        answer = desk(running.home, "ping", *asked)
        assert answer.returncode == 0, answer.stderr
        assert re.fullmatch(rf"{asked[0]}@\S+ answers\n", answer.stdout)
    nobody = desk(running.home, "ping", "all")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "no answer from all*@" in nobody.stderr
    assert "--name" in nobody.stderr
    assert desk(running.home, "ping", "ops", "--name", "nobody").returncode == 1
    assert desk(running.home, "db", "current").returncode == 0


def test_whatever_listens_listens_on_loopback(running: Up) -> None:
    listening = {
        connection.laddr.ip
        for pid in [running.process.pid, *running.everybody()]
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_flower_is_where_the_table_says(running: Up) -> None:
    services = json.loads((running.home / "run" / "services.json").read_text(encoding="utf-8"))
    with urllib.request.urlopen(f"{services['flower_url']}/healthcheck", timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_the_service_is_where_the_table_says(running: Up) -> None:
    (line,) = [line for line in running.lines if line.startswith("api ")]
    token = (running.home / "run" / "api-token").read_text(encoding="ascii").strip()
    asked = urllib.request.Request(f"{line.split()[3]}/runs", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_a_second_one_on_the_home_is_refused(running: Up) -> None:
    again = desk(running.home, "up", DESK_REPLAY_DATE="2010-08-12")
    assert again.returncode == 2
    assert "already up" in again.stderr
    assert str(running.process.pid) in again.stderr


def test_a_second_terminal_has_what_the_workers_have(running: Up) -> None:
    rows = json.loads(desk(running.home, "config", "--json").stdout)
    found = {row["name"]: (row["value"], row["source"]) for row in rows}
    assert found["replay_date"] == (DAY, "replay_date (desk up)")
    assert found["model"] == ("gpt-5.4", "model (desk up)")
    done = desk(running.home, "research", "IBM", "--json", DESK_REPLAY_DATE=DAY)
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(done.stdout)
    assert (run["state"], run["spoken_by"]) == ("done", "rulebook (rules, no model)")
    (row,) = json.loads(desk(running.home, "runs", "list", "--json").stdout)
    assert (row["provider"], row["market"], row["market_now"][:10]) == ("rulebook", "replay", DAY)


@pytest.mark.parametrize("command", [("screen",), ("doctor",), ("runs", "list"), ("worker", "ops", "--name", "other")])
def test_a_terminal_with_settings_of_its_own_is_refused(running: Up, command: tuple[str, ...]) -> None:
    done = desk(running.home, *command, DESK_REPLAY_DATE="2010-08-12")
    assert (done.returncode, done.stdout) == (2, "")
    error, remedy = done.stderr.splitlines()
    assert "DESK_REPLAY_DATE='2010-08-12' (from environment)" in error
    assert f"replay_date='{DAY}'" in error
    assert "stop `desk up`" in remedy


def test_a_killed_worker_comes_back_and_the_end_leaves_nothing(running: Up) -> None:
    os.kill(running.pids["trade"], signal.SIGKILL)
    assert "trade" in running.until("running again")
    os.kill(running.pids["redis"], signal.SIGKILL)
    everybody = running.everybody()
    assert len(everybody) >= len(PROGRAMS)
    running.stop()
    assert running.process.returncode == 0
    assert gone(everybody)
    assert not (running.home / "run" / "services.json").exists()
