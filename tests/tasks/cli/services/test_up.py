"""`desk up` whole: real Redis, workers, schedule and Flower, watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS
from chordesk.tasks.cli.up import WATCH_SECONDS
from chordesk.tasks.services.plan import desk_command
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk, environment
from tests.tasks.services.conftest import gone

DAY = "2010-08-11"
SECRETS = {
    **{name: f"secret of {name}" for name in (*BROKER_KEYS, *Settings.DATA_CREDENTIALS)},
    **{name: f"secret of {name}" for names in PROVIDER_KEYS.values() for name in names},
    **{f"DESK_{name}": f"desk:{'0123456789abcdef' * 2}" for name in ("PROVIDER_KEY", "FLOWER_AUTH", "MESSAGE_KEY")},
}
PROGRAMS = {"redis", "rulebook", "research", "ops", "trade", "beat", "flower", "api"}


class Up:
    """A running `desk up`, begun as a script begins what it leaves in the background, with Ctrl-C ignored: its lines so
    far, and the pids of its table."""

    def __init__(self, home: Path, *arguments: str, **environ: str) -> None:
        self.home = home
        self.process = subprocess.Popen(
            desk_command("up", *arguments),
            env=environment(home, **environ),
            cwd=home,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
        self.lines: list[str] = []
        self.pids: dict[str, int] = {}

    def until(self, expected: str) -> str:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            row = re.match(r"(\S+) +running +(\d+) ", line)
            if row:
                self.pids[row[1]] = int(row[2])
            if expected in line:
                return line
        raise AssertionError(f"{expected!r} never came: {''.join(self.lines)}")

    def everybody(self) -> list[int]:
        return [each.pid for each in psutil.Process(self.process.pid).children(recursive=True)]

    def stop(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENCE)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    own = {"TRADER_LIVE": "1", "SCREENER_MAX_CANDIDATES": "3", "DESK_MAX_ORDER_NOTIONAL": "900"}
    home = tmp_path_factory.mktemp("up") / "home"
    up = Up(home, "--page", "--flower", DESK_REPLAY_DATE=DAY, DESK_MODEL="gpt-5.4", **own, **SECRETS)
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
    unanswered = desk(running.home, "ping", "all")
    assert (unanswered.returncode, unanswered.stdout) == (1, "")
    assert "no answer from all*@" in unanswered.stderr
    assert "--name" in unanswered.stderr
    assert desk(running.home, "ping", "ops", "--name", "unanswered").returncode == 1
    assert desk(running.home, "db", "current").returncode == 0


def test_each_process_has_the_secrets_that_it_needs_alone(running: Up) -> None:
    providers = {name for names in PROVIDER_KEYS.values() for name in names}
    has = {
        name: {one for one, value in psutil.Process(pid).environ().items() if value and one in SECRETS}
        for name, pid in running.pids.items()
    }
    assert has == {
        "redis": set(),
        "rulebook": set(),
        "research": {*providers, *Settings.DATA_CREDENTIALS, "DESK_PROVIDER_KEY", "DESK_MESSAGE_KEY"},
        "ops": {"DESK_MESSAGE_KEY"},
        "trade": {*BROKER_KEYS, *Settings.DATA_CREDENTIALS, "DESK_MESSAGE_KEY"},
        "beat": {"DESK_MESSAGE_KEY"},
        "flower": {"DESK_FLOWER_AUTH", "DESK_MESSAGE_KEY"},
        "api": {"DESK_PROVIDER_KEY", "DESK_MESSAGE_KEY"},
    }


def test_the_page_opens_by_the_link_that_it_prints(running: Up) -> None:
    line = next((line for line in running.lines if line.startswith("the page: ")), None) or running.until("the page: ")
    url, _, code = line.split()[-1].partition("/#")
    with urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": "text/html"})) as answer:
        assert b'<script type="module" src="/page/app.js">' in answer.read()
    body = json.dumps({"code": code}).encode()
    asked = urllib.request.Request(f"{url}/session", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        assert json.load(answer)["token"]
    again = desk(running.home, "page", "/runs", "--by", "Ann Lee", SSH_CONNECTION="somewhere")
    assert re.search(rf"the page: {url}/#\S{{43}}/runs\nthe link works once, for 60 s\n", again.stdout), again.stderr


def test_whatever_listens_listens_on_loopback(running: Up) -> None:
    listening = {
        connection.laddr.ip
        for pid in [running.process.pid, *running.everybody()]
        for connection in psutil.Process(pid).net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_flower_answers_at_the_url_of_the_table(running: Up) -> None:
    (line,) = [line for line in running.lines if line.startswith("flower ")]
    with urllib.request.urlopen(f"{line.split()[3]}/healthcheck", timeout=PATIENCE) as answer:
        assert answer.status == 200


def test_a_second_one_on_the_home_is_refused(running: Up) -> None:
    again = desk(running.home, "up", DESK_REPLAY_DATE="2010-08-12")
    assert again.returncode == 2
    assert "already up" in again.stderr
    assert str(running.process.pid) in again.stderr


STANDING = f"LIVE; broker paper; account paper; model rulebook (rules, no model); market replay on {DAY}"


def test_every_terminal_shows_the_standing_of_the_running_desk(running: Up) -> None:
    """It is live though no other terminal has the switch, and its limits are in force everywhere."""
    assert running.lines[1].strip() == STANDING, "before anything starts"
    assert [line.strip() for line in running.lines].count(STANDING) == 2
    line_of_desk = f"the desk that runs on {running.home}: {STANDING}"
    for command in ("status", "doctor", "config"):
        assert line_of_desk in desk(running.home, command).stdout, command
    assert line_of_desk in desk(running.home, "config", TRADER_LIVE="1", DESK_MAX_CANDIDATES="3").stdout
    theirs = {
        row["name"]: row["value"] for row in json.loads(desk(running.home, "config", "--running", "--json").stdout)
    }
    assert (theirs["trader_live"], theirs["max_candidates"], theirs["max_order_notional"]) == (True, 3, 900)
    codes = json.loads(desk(running.home, "risk", "codes", "--json").stdout)
    (limit,) = (row["settings"] for row in codes if row["code"] == "notional_per_order")
    assert limit == {"DESK_MAX_ORDER_NOTIONAL": "900"}
    (line,) = [line for line in running.lines if line.startswith("api ")]
    token = (running.home / "run" / "api-token").read_text(encoding="ascii").strip()
    asked = urllib.request.Request(f"{line.split()[3]}/", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:
        found = json.load(answer)
    assert (found["standing"]["live"], found["running"], found["settings"]["max_candidates"]) == (True, True, 3)


def test_a_run_is_opened_with_the_running_desks_settings_and_keeps_them(running: Up) -> None:
    done = desk(running.home, "screen", "--lens", "technical", "--lens", "fundamental")
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()[1:3]
    assert (first.startswith("run "), second.strip()) == (True, STANDING)
    run_id = first.split()[1]
    run = json.loads(desk(running.home, "runs", "show", run_id, "--json").stdout)
    kept = run["settings"]
    assert (kept["trader_live"], kept["max_candidates"], kept["max_order_notional"]) == (True, 3, 900)
    assert kept["lenses"] == ["technical", "fundamental"]
    assert len(run["candidates"]) == 3
    states = {row["state"] for row in run["actions"] if row["order_id"]}
    assert "submitted" in states
    assert "previewed" not in states
    assert STANDING in desk(running.home, "runs", "show", run_id).stdout
    with subprocess.Popen(
        desk_command("watch", run_id), env=environment(running.home), stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().strip() == STANDING
        watching.terminate()


@pytest.mark.parametrize(
    ("name", "value", "desks"),
    [
        ("TRADER_LIVE", "0", "trader_live=True"),
        ("DESK_MAX_ORDER_NOTIONAL", "5", "max_order_notional=900.0"),
        ("DESK_REPLAY_DATE", "2010-08-12", f"replay_date='{DAY}'"),
    ],
)
def test_a_terminal_with_settings_of_its_own_is_refused_with_both_values(
    running: Up, name: str, value: str, desks: str
) -> None:
    for command in ("screen --no-wait", "doctor", "worker ops --name other", "resume"):
        done = desk(running.home, *command.split(), **{name: value})
        assert (done.returncode, done.stdout) == (2, ""), command
        error, remedy = done.stderr.splitlines()
        assert f"{name}=" in error
        assert desks in error
        assert "stop `desk up`" in remedy


def test_one_that_is_still_loading_in_the_background_of_a_script_takes_ctrl_c(tmp_path: Path) -> None:
    up = Up(tmp_path / "home")
    while up.process.poll() is None:
        up.process.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert up.process.stdout is not None
    assert (up.process.returncode, up.process.stdout.read()) == (130, "")


def test_a_killed_worker_or_supervisor_comes_back_and_the_end_leaves_nothing(running: Up) -> None:
    os.kill(running.pids["trade"], signal.SIGKILL)
    assert "trade" in running.until("running again")
    below = psutil.Process(running.process.pid).children()  # and the fork that answers commands
    (supervisor,) = [one for one in below if any("supervisord" in part for part in one.cmdline())]
    supervisor.kill()
    assert "supervisord has ended" in running.until("started again")
    running.until("Ctrl-C stops all")
    assert running.process.stdout is not None
    running.process.stdout.close()  # nobody reads on, or its disk is full
    os.kill(running.pids["redis"], signal.SIGKILL)
    time.sleep(5 * WATCH_SECONDS)  # it says meanwhile that Redis runs again
    assert running.process.poll() is None
    everybody = running.everybody()
    assert len(everybody) >= len(PROGRAMS)
    running.stop(signal.SIGINT)
    assert running.process.returncode == 0
    assert gone(everybody)
    assert not (running.home / "run" / "services.json").exists()
