"""The health socket of a worker, asked as `desk ping` does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.cli import ping
from chordesk.tasks.engine.shortage_watch import ShortageWatch
from chordesk.tasks.telemetry.process_health import ProcessHealth
from chordesk.tasks.worker import sockets
from chordesk.tasks.worker.control import HealthSocket

NODE = "research-1@here"


class Timer:
    """The timer of a loop that turns when the test wants it to."""

    def __init__(self) -> None:
        self.ticks: list[Any] = []

    def call_repeatedly(self, _seconds: float, tick: Any) -> SimpleNamespace:
        self.ticks.append(tick)
        return SimpleNamespace(cancel=lambda: self.ticks.remove(tick))


def consumer(home: Path, node: str = NODE) -> Any:
    watch = SimpleNamespace(health=ProcessHealth("research"))
    shortages = ShortageWatch(Settings(home=home), lambda: Store("sqlite://"), bool)
    desk = SimpleNamespace(settings=SimpleNamespace(home=home), watch=watch, shortages=shortages)
    return SimpleNamespace(app=SimpleNamespace(desk=desk), hostname=node, timer=Timer())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESK_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def worker(home: Path) -> Iterator[tuple[HealthSocket, Any]]:
    step, made = HealthSocket(None), consumer(home)
    step.start(made)
    yield step, made
    step.shutdown(made)


def test_a_worker_answers_once_its_loop_turns(
    worker: tuple[HealthSocket, Any], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _step, made = worker
    assert [str(each) for each in sockets.ask_all(home)] == [f"{NODE} is starting"]
    assert made.app.desk.watch.health.why_not_ready() == [f"{NODE} is starting"]
    assert ping.ping("research", None) == 1
    assert capsys.readouterr().err.startswith(f"error: {NODE} is starting\n")
    (tick,) = made.timer.ticks
    tick()
    assert made.app.desk.watch.health.why_not_ready() == []
    assert ping.ping("research", None) == 0
    assert ping.ping("research", "research-1") == 0
    assert capsys.readouterr().out == f"{NODE} answers\n" * 2
    assert ping.ping("research", "research") == 1
    assert ping.ping("ops", None) == 1
    assert "no answer from ops*@" in capsys.readouterr().err


def test_a_loop_that_stands_still_is_not_well(
    worker: tuple[HealthSocket, Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _step, made = worker
    made.timer.ticks[0]()
    monkeypatch.setattr(sockets, "STALLED_SECONDS", 0.0)
    assert ping.ping("research", None) == 1
    assert f"the loop of {NODE} last turned 0 s ago" in capsys.readouterr().err
    (why,) = made.app.desk.watch.health.why_not_ready()
    assert why == f"the loop of {NODE} last turned 0 s ago: it is stuck, or waits for Redis"


def test_a_reconnect_goes_on_on_the_same_socket_and_the_end_leaves_none(
    worker: tuple[HealthSocket, Any], home: Path
) -> None:
    step, made = worker
    path = sockets.health_path(home, NODE)
    assert path.stat().st_mode & 0o777 == 0o600
    inode = path.stat().st_ino
    step.stop(made)
    assert made.timer.ticks == []
    step.start(made)
    assert (len(made.timer.ticks), path.stat().st_ino) == (1, inode)
    step.shutdown(made)
    assert not path.exists()
    assert list(sockets.ask_all(home)) == []


def test_the_socket_of_a_killed_worker_is_no_answer_and_no_hindrance(home: Path) -> None:
    sockets.make_folder(home)
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(sockets.health_path(home, NODE)))
    assert list(sockets.ask_all(home)) == []
    step, made = HealthSocket(None), consumer(home)
    step.start(made)
    assert [each.node for each in sockets.ask_all(home)] == [NODE]
    step.shutdown(made)


def test_the_home_is_found_where_the_settings_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, data = tmp_path / "here", tmp_path / "data"
    here.mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    monkeypatch.setenv("HOME", str(tmp_path))
    (here / ".env").write_text("DESK_MAX_CANDIDATES=5\n", encoding="utf-8")
    (here / "desk.toml").touch()
    plain = {"XDG_DATA_HOME": str(data)}
    assert ping._home({**plain, "DESK_HOME": "other"}, here) == Path.cwd() / "other"
    default = ping._home(plain, here)
    assert default.name == "chordesk"
    (here / ".env").write_text(f"DESK_HOME={tmp_path / 'mine'}\n", encoding="utf-8")
    assert ping._home(plain, here) == tmp_path / "mine"
    (here / ".env").unlink()
    (here / "desk.toml").write_text(f"home = '{tmp_path / 'toml'}'\n", encoding="utf-8")
    assert ping._home(plain, here) == tmp_path / "toml"
    json = f'{{"home": "{tmp_path / "json"}"}}'
    (here / "desk.toml").write_text("", encoding="utf-8")
    assert ping._home({**plain, "AUTONOMOUS_CONFIG_JSON": json}, here) == tmp_path / "json"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (["ping", "ops"], ("ops", None)),
        (["ping", "ops", "--name", "ops-2"], ("ops", "ops-2")),
        (["ping", "nonsense"], None),
        (["ping", "ops", "--name", "--help"], None),
        (["ping", "ops", "--help"], None),
        (["ping"], None),
        (["status"], None),
    ],
)
def test_only_a_plain_ping_is_read_without_the_parser(line: list[str], found: object) -> None:
    assert ping.asked(line) == found


def test_a_worker_without_a_place_for_a_socket_works_on(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    step, made = HealthSocket(None), consumer(tmp_path / "file")
    step.start(made)
    made.timer.ticks[0]()
    step.shutdown(made)
    assert list(sockets.ask_all(tmp_path / "file")) == []
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
