"""Which server binary is taken, and how addresses are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import Redis, ResponseError

from chordesk.models.errors import RedisDown, ServiceError, SettingError
from chordesk.models.settings import Settings
from chordesk.tasks import running_processes
from chordesk.tasks.redis_clients import wait_ready, why_unfit
from chordesk.tasks.services import plan as embedded
from chordesk.tasks.services.plan import socket_url
from tests.patience import PATIENCE


def server(folder: Path, name: str, output: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{output}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_without_one_on_the_path_the_wheel_brings_it(tmp_path: Path) -> None:
    found = embedded.find_redis(tmp_path / "redis", str(tmp_path))
    assert found.origin == "wheel"
    assert found.version >= (7, 2, 0)


def test_one_on_the_path_comes_first_and_valkey_before_redis(tmp_path: Path) -> None:
    server(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    assert embedded.find_redis(tmp_path / "redis", str(tmp_path)).version == (7, 0, 15)
    mine = server(tmp_path, "valkey-server", "Valkey server v=8.1.0 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64")
    found = embedded.find_redis(tmp_path / "redis", str(tmp_path))
    assert (found.path, found.origin) == (mine, "PATH")


@pytest.mark.parametrize("output", ["Redis server v=6.0.16 sha=00000000:0", "something else"])
def test_one_that_is_too_old_or_unknown_is_passed_over(tmp_path: Path, output: str) -> None:
    server(tmp_path, "redis-server", output)
    assert embedded.find_redis(tmp_path / "redis", str(tmp_path)).origin == "wheel"


# As these servers wrote them, with REWRITEAOF done.
FILES = {
    "Valkey 9.1.2": b"VALKEY080\xfa\nvalkey-ver\x059.1.2\xfa\nredis-bits\xc0@",
    "Valkey 8.1.1": b"REDIS0011\xfa\nvalkey-ver\x058.1.1\xfa\nredis-bits\xc0@",
    "Redis 8.0.2": b"REDIS0012\xfa\tredis-ver\x058.0.2\xfa\nredis-bits\xc0@",
    "Redis 7.0.15": b"REDIS0010\xfa\tredis-ver\x067.0.15\xfa\nredis-bits\xc0@",
    "Redis 6.2.5": b"REDIS0009\xfa\tredis-ver\x056.2.5\xfa\nredis-bits\xc0@",
}


@pytest.mark.parametrize(
    ("writer", "on_path", "taken"),
    [
        ("Valkey 9.1.2", "Redis server v=7.0.15", "Valkey 9"),  # "Bad file format" with the one on the PATH
        ("Valkey 8.1.1", "Redis server v=8.0.2", "Valkey 9"),
        ("Redis 7.0.15", "Redis server v=7.0.15", "Redis 7.0.15"),
        ("Redis 7.0.15", "Redis server v=6.2.14", "Valkey 9"),  # 6.2 would begin an empty file beside it
        ("Redis 6.2.5", "Redis server v=7.4.1", "Redis 7.4.1"),
        ("Redis 8.0.2", "Redis server v=8.2.3", "Redis 8.2.3"),
    ],
)
def test_a_home_keeps_to_a_server_that_reads_its_file(writer: str, on_path: str, taken: str, tmp_path: Path) -> None:
    base = tmp_path / ("redis" if writer.startswith("Redis 6") else "redis/appendonlydir")
    base.mkdir(parents=True)
    (base / ("appendonly.aof" if base.name == "redis" else "appendonly.aof.2.base.rdb")).write_bytes(FILES[writer])
    server(tmp_path, "redis-server", f"{on_path} sha=0")
    assert str(embedded.find_redis(tmp_path / "redis", str(tmp_path))).startswith(taken)


def test_a_file_that_no_server_here_reads_is_named_with_the_remedy(tmp_path: Path) -> None:
    base = tmp_path / "redis" / "appendonlydir" / "appendonly.aof.1.base.rdb"
    base.parent.mkdir(parents=True)
    base.write_bytes(FILES["Redis 8.0.2"])
    with pytest.raises(ServiceError, match=r"written by Redis 8\.0\.2, and there is only Valkey 9.*sent again"):
        embedded.find_redis(tmp_path / "redis", str(tmp_path))


def test_an_unanswered_address_is_redis_down_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(RedisDown, match="desk up") as caught:
        wait_ready(socket_url(tmp_path / "none.sock"), 0.2)
    assert "none.sock" in str(caught.value)


def test_a_server_with_other_secrets_is_named_at_once(redis_server: str) -> None:
    with pytest.raises(RedisDown, match="knows no such login"):
        wait_ready(f"{redis_server}?username=desk&password=older", PATIENCE)


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


# Of each server with a default user of few rights: killed by -9 and started again, it had its transaction or not.
@pytest.mark.parametrize(
    ("info", "keeps"),
    [
        ({"redis_version": "6.2.14"}, True),
        ({"redis_version": "7.0.15"}, False),
        ({"redis_version": "7.4.1"}, False),
        ({"redis_version": "8.2.3"}, False),
        ({"redis_version": "7.2.4", "valkey_version": "8.1.1"}, False),
        ({"redis_version": "7.2.4", "valkey_version": "9.1.2"}, True),
    ],
)
def test_a_server_that_would_drop_its_own_transactions_is_unfit(info: dict[str, str], keeps: bool) -> None:
    kept = {**info, "aof_enabled": 1}
    assert (why_unfit(kept, {"categories": ["-@all"]}) is None) is keeps
    assert why_unfit(kept, {"categories": ["+@all"]}) is None
    assert why_unfit(kept, None) is None, "not known"


def test_a_redis_without_room_is_not_taken_for_one_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise ResponseError("Errors writing to the AOF file: No space left on device")

    monkeypatch.setattr(Redis, "set", refused)
    settings = Settings(home=tmp_path, redis_url="redis://127.0.0.1:1/0")
    with pytest.raises(RedisDown, match="has no room") as caught:
        running_processes.require_redis(settings, "a-desk")
    assert caught.value.remedy == "make room where it writes"
