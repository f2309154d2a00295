"""Which server binary is taken, and how addresses are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import RedisDown, SettingError
from chordesk.tasks.redis_clients import wait_ready
from chordesk.tasks.services import plan as embedded
from chordesk.tasks.services.plan import socket_url


def server(folder: Path, name: str, output: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_one_on_the_path_the_wheel_brings_it(tmp_path: Path) -> None:
    found = embedded.find_redis(str(tmp_path))
    assert found.origin == "wheel"
    assert found.version >= (7, 2, 0)


def test_one_on_the_path_comes_first_and_valkey_before_redis(tmp_path: Path) -> None:
    server(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    assert embedded.find_redis(str(tmp_path)).version == (7, 0, 15)
    mine = server(tmp_path, "valkey-server", "Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    found = embedded.find_redis(str(tmp_path))
    assert (found.path, found.origin) == (mine, "PATH")


@pytest.mark.parametrize("output", ["Redis server v=6.0.16 sha=00000000:0", "something else"])
def test_one_that_is_too_old_or_unknown_is_passed_over(tmp_path: Path, output: str) -> None:
    server(tmp_path, "redis-server", output)
    assert embedded.find_redis(str(tmp_path)).origin == "wheel"


def test_an_unanswered_address_is_redis_down_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RedisDown, match="desk up") as caught:
        wait_ready(socket_url(tmp_path / "none.sock"), 0.2)
    assert "none.sock" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:6379",
        "redis://host:port/0",
        "redis://:hidden/word@host",
        "redis://host/0?nonsense=1",
        "redis://host/0?socket_timeout=long",
        "redis://[host",
        "unix:///run/redis.sock?db=first",
    ],
)
def test_a_url_that_no_client_can_use_is_an_error_that_keeps_the_password(url: str) -> None:
    with pytest.raises(
        SettingError, match=r"DESK_REDIS_URL=.* is not an address of a Redis \(write redis://"
    ) as caught:
        wait_ready(url, 0.0)
    assert "hidden" not in str(caught.value)
