"""The server of one process's metrics and health, its refusals, and telemetry that is set but cannot work."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import leases
from chordesk.tasks.services.plan import is_free
from chordesk.tasks.telemetry import metrics
from chordesk.tasks.telemetry.traces import endpoint
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, free_port, wait_for
from tests.tasks.telemetry.asking import ask, health

PATHS = ("/health", "/health/ready", "/health/live")


@contextmanager
def served(home: Path, **given: object) -> Iterator[tuple[Desk, int]]:
    """A desk's process that serves its metrics, and the port. Neither database nor Redis is there."""
    port, away = free_port(), {"redis_url": "unix:///nowhere.sock", "database_url": "postgresql://127.0.0.1:1/none"}
    desk = Desk(Settings(home=home, metrics_port=port, **away, **given), "research-1")
    desk.watch.serve("research")
    try:
        yield desk, port
    finally:
        desk.close()


def test_a_process_is_not_ready_while_it_starts_and_when_it_is_to_end_but_lives(tmp_path: Path) -> None:
    def state() -> list[int]:
        statuses = [health(port, path)[0] for path in PATHS]
        assert f'desk_ready{{role="research"}} {float(statuses[0] == 200)}' in ask(port, "/metrics")[1]
        return statuses

    with served(tmp_path) as (desk, port):
        _, found = health(port)
        assert (found["live"], found["ready"], found["why"]) == (True, False, ["it is starting"])
        assert (found["role"], found["name"]) == ("research", "research-1")
        assert state() == [503, 503, 200]
        desk.watch.health.ready_by(lambda: None)
        assert state() == [200, 200, 200]
        desk.drain.request()
        assert state() == [503, 503, 200]
        assert health(port)[1]["why"] == ["it is stopping"]
    assert is_free(port)


def test_clients_that_send_nothing_hold_up_no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "CLIENTS", 3)
    with served(tmp_path) as (_, port), ExitStack() as stack:
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(6)]
        assert health(port, "/health/live")[0] == 200
        idle[-1].sendall(b"GET /health HTTP/1.1\r\na: " + b"b" * 2 * metrics.HEAD_BYTES)
        for one in idle:
            with suppress(ConnectionResetError):
                assert one.recv(1) == b"", "it is let go"


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_cannot_be_had_is_an_error_that_names_it(tmp_path: Path, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = f"DESK_METRICS_HOST={host} and DESK_METRICS_PORT={port}"
        with pytest.raises(SettingError, match=where) as found:
            Desk(Settings(home=tmp_path, metrics_host=host, metrics_port=port)).watch.serve("ops")
    assert "set another one" in str(found.value.remedy)


def test_it_listens_on_loopback_unless_another_address_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as (_, port), pytest.raises(OSError):
        socket.create_connection(("127.0.0.2", port), timeout=1)
    assert "metrics.open" not in capsys.readouterr().out
    with served(tmp_path, metrics_host="0.0.0.0") as (_, port):
        assert ask(port, "/health/live", host="127.0.0.2")[0] == 200
    assert "metrics.open" in capsys.readouterr().out
    assert load_settings({"DESK_METRICS_HOST": ""}, tmp_path).metrics_host == "127.0.0.1"


def test_a_process_with_an_event_loop_that_stands_still_is_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "STALLED_SECONDS", 0.2)
    with served(tmp_path) as (desk, port):
        desk.watch.health.ready_by(lambda: None)
        stuck, released = desk.loop.loop, threading.Event()
        wait_for(lambda: health(port, "/health/live")[0] == 200, "it is live")
        stuck.call_soon_threadsafe(released.wait)
        wait_for(lambda: health(port, "/health/live")[0] == 503, "it is not live")
        status, found = health(port)
        assert (status, found["live"], found["ready"]) == (503, False, False)
        assert "event loop has not turned" in found["why"][0]
        released.set()
        wait_for(lambda: health(port)[0] == 200, "it is ready again")


# A finder that finds none of the extra's libraries, as where it is not installed.
WITHOUT = """
import sys
sys.modules["opentelemetry.exporter"] = None
from chordesk.tasks.cli.main import main
sys.argv = ["desk", *sys.argv[1:]]
main()
"""


def test_spans_without_the_extra_are_refused_before_anything_starts(tmp_path: Path) -> None:
    environ = {
        "DESK_HOME": str(tmp_path / "home"),
        "DESK_REDIS_URL": f"unix://{tmp_path}/none.sock",
        "DESK_TRACE_URL": "http://127.0.0.1:4318",
        "PATH": "/usr/bin:/bin",
    }
    whole = [sys.executable, "-c", WITHOUT, "up"]
    done = subprocess.run(whole, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr
    assert "DESK_TRACE_URL needs the package opentelemetry.exporter" in done.stderr
    assert "pip install 'chordesk[otel]'" in done.stderr


@pytest.mark.parametrize(
    ("given", "posted_to"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("https://collector/otlp/v1/traces?a=b", "https://collector/otlp/v1/traces?a=b"),
    ],
)
def test_a_bare_address_gets_the_path_of_the_protocol(given: str, posted_to: str) -> None:
    assert endpoint(given) == posted_to
