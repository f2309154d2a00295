"""The server of one process's metrics and health: addresses, paths, refusals, and a loop that stands still."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import leases
from chordesk.tasks.services.plan import is_free
from tests.stack import free_port, wait_for
from tests.tasks.telemetry.asking import ask, health


@contextmanager
def served(home: Path, **given: object) -> Iterator[tuple[Desk, int]]:
    """A desk's process that serves its metrics, and the port."""
    port = free_port()
    desk = Desk(Settings(home=home, metrics_port=port, **given), "research-1")
    desk.watch.serve("research")
    try:
        yield desk, port
    finally:
        desk.close()


def test_a_process_is_not_ready_while_it_starts_and_when_it_is_to_end_but_lives(tmp_path: Path) -> None:
    with served(tmp_path) as (desk, port):
        status, found = health(port)
        assert (status, found["ready"], found["why"]) == (503, False, ["it is starting"])
        assert (found["role"], found["name"]) == ("research", "research-1")
        assert health(port, "/health/ready")[0] == 503
        desk.watch.health.ready_by(lambda: None)
        assert [health(port, path)[0] for path in ("/health", "/health/ready", "/health/live")] == [200, 200, 200]
        desk.drain.request()
        status, found = health(port)
        assert (status, found["why"], found["live"]) == (503, ["it is stopping"], True)
        assert health(port, "/health/live")[0] == 200


def test_metrics_have_the_same_state(tmp_path: Path) -> None:
    def ready() -> dict[str, float]:
        families = text_string_to_metric_families(ask(port, "/metrics")[1])
        return {one.labels["role"]: one.value for each in families for one in each.samples if one.name == "desk_ready"}

    with served(tmp_path) as (desk, port):
        assert ready() == {"research": 0}
        desk.watch.health.ready_by(lambda: None)
        assert ready() == {"research": 1}


def test_other_paths_and_methods_are_refused_and_a_head_has_no_body(tmp_path: Path) -> None:
    with served(tmp_path) as (_, port):
        status, text = ask(port, "/metrics/../desk.toml")
        assert (status, "there is no" in text) == (404, True)
        assert ask(port, "/health", method="POST")[0] == 501
        assert ask(port, "/metrics", method="HEAD") == (200, "")
        assert ask(port, "/metrics?name[]=desk_ready")[0] == 200


def test_a_scrape_that_fails_is_logged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> Iterator[object]:
        raise KeyError("a bug")

    port = free_port()
    desk = Desk(Settings(home=tmp_path, metrics_port=port))
    desk.watch.add(broken)
    desk.watch.serve("ops")
    with pytest.raises(OSError):
        ask(port, "/metrics")
    wait_for(lambda: "metrics.failed" in capsys.readouterr().out, "it is logged")
    assert health(port, "/health/live")[0] == 200
    desk.close()


def test_a_client_that_sends_nothing_holds_up_no_probe(tmp_path: Path) -> None:
    with served(tmp_path) as (_, port), socket.create_connection(("127.0.0.1", port)) as idle:
        assert health(port, "/health/live")[0] == 200
        assert idle.recv(1) == b"", "it is let go"


def test_the_address_is_free_again_once_the_process_has_closed_it(tmp_path: Path) -> None:
    with served(tmp_path) as (_, port):
        assert not is_free(port)
    assert is_free(port)


def test_a_port_that_is_taken_is_an_error_that_names_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingError, match=f"DESK_METRICS_HOST=127.0.0.1 and DESK_METRICS_PORT={port}") as found:
            Desk(Settings(home=tmp_path, metrics_port=port)).watch.serve("ops")
    assert "set another one" in str(found.value.remedy)


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])
def test_an_address_that_this_machine_has_not_is_an_error(tmp_path: Path, host: str) -> None:
    desk = Desk(Settings(home=tmp_path, metrics_host=host, metrics_port=free_port()))
    with pytest.raises(SettingError, match=f"DESK_METRICS_HOST={host}"):
        desk.watch.serve("ops")


def test_it_listens_on_loopback_unless_another_address_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as (_, port), pytest.raises(OSError):
        socket.create_connection((_other_address(), port), timeout=1)
    assert "metrics.open" not in capsys.readouterr().out
    with served(tmp_path, metrics_host="0.0.0.0") as (_, port):
        assert health(port, "/health/live")[0] == 200
    assert "metrics.open" in capsys.readouterr().out
    assert load_settings({"DESK_METRICS_HOST": ""}, tmp_path).metrics_host == "127.0.0.1"


def _other_address() -> str:
    """An address of this machine that is not the loopback's usual one."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])
    return "127.0.0.2"


def test_a_process_with_an_event_loop_that_stands_still_is_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "STALLED_SECONDS", 0.2)
    with served(tmp_path) as (desk, port):
        desk.watch.health.ready_by(lambda: None)
        stuck = desk.loop.loop
        wait_for(lambda: health(port, "/health/live")[0] == 200, "it is live")
        released = threading.Event()
        stuck.call_soon_threadsafe(released.wait)
        wait_for(lambda: health(port, "/health/live")[0] == 503, "it is not live")
        status, found = health(port)
        assert (status, found["live"], found["ready"]) == (503, False, False)
        assert "event loop has not turned" in found["why"][0]
        released.set()
        wait_for(lambda: health(port)[0] == 200, "it is ready again")


def test_without_a_port_nothing_listens(tmp_path: Path) -> None:
    before = threading.active_count()
    desk = Desk(Settings(home=tmp_path))
    desk.watch.serve("ops")
    assert (threading.active_count(), desk.telemetry.metrics) == (before, None)
    desk.close()


def test_a_probe_asks_nothing_outside_the_process(tmp_path: Path) -> None:
    """Neither database nor Redis is there."""
    with served(tmp_path, redis_url="unix:///nowhere/redis.sock", database_url="postgresql://127.0.0.1:1/none") as (
        desk,
        port,
    ):
        desk.watch.health.ready_by(lambda: None)
        assert [health(port, path)[0] for path in ("/health", "/health/live")] == [200, 200]
