"""The rehearsal's Postgres, Redis and Prometheus, for real: what the desk's URLs reach, and what is refused."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis
from redis.exceptions import AuthenticationError, NoPermissionError
from sqlalchemy import text

from chordesk.models.database.store import Store, current, upgrade
from chordesk.models.errors import DatabaseDown
from chordesk.models.settings import Settings
from chordesk.tasks.redis_clients import client
from chordesk.tasks.worker.app import create_app
from tests.ordeal.servers import ADDRESS, Authority, found
from tests.patience import PATIENCE
from tests.stack import wait_for

pytest.importorskip("psycopg", reason="PostgreSQL's driver is not installed")
from tests.ordeal.servers import Postgres, Prometheus, Redis

PROGRAMS = found()


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(program not in PROGRAMS, reason=f"no {program} on the PATH: `make fleet` brings it")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder that a server's own user can get into."""
    made = Path(tempfile.mkdtemp(prefix="desk-fleet-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def redis_with_tls(folder: Path, authority: Authority) -> Iterator[Redis]:
    made = Redis.make(PROGRAMS["redis-server"], folder / "redis", authority)
    made.server.start()
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def postgres_with_tls(folder: Path, authority: Authority) -> Iterator[Postgres]:
    made = Postgres.make(PROGRAMS["postgres"], folder / "postgres", authority)
    made.server.start()
    made.make_database()
    yield made
    made.server.stop()


@needs("redis-server")
def test_the_desks_clients_read_the_url_of_redis(redis_with_tls: Redis, tmp_path: Path) -> None:
    address = redis_with_tls.url(redis_with_tls.root)
    with closing(client(address, PATIENCE)) as plain:
        plain.set("desk:test", "1")
        assert plain.get("desk:test") == b"1"
    app = create_app(Settings(home=tmp_path, redis_url=address), "test")
    try:
        app.send_task("desk.documents")
        with closing(client(address, PATIENCE)) as plain:
            assert plain.llen("ops") == 1, "a message is in the queue"
    finally:
        app.close()


@needs("redis-server")
def test_redis_refuses_what_a_desk_has_no_use_for(redis_with_tls: Redis) -> None:
    with closing(redis_with_tls.client()) as desk:
        assert desk.info("server")["redis_version"]
        for command in ("FLUSHALL", "CONFIG GET *", "ACL LIST", "SHUTDOWN"):
            with pytest.raises(NoPermissionError):
                desk.execute_command(*command.split())


@needs("redis-server")
def test_redis_knows_no_other_user_and_no_line_without_tls(redis_with_tls: Redis, tmp_path: Path) -> None:
    port, root = redis_with_tls.server.port, str(redis_with_tls.root)
    with (
        closing(redis.Redis(ADDRESS, port, ssl=True, ssl_ca_certs=root)) as unnamed,
        pytest.raises(AuthenticationError),
    ):
        unnamed.ping()
    with (
        closing(redis.Redis(ADDRESS, port, username="desk", password=redis_with_tls.password)) as plain,
        pytest.raises(redis.ConnectionError),
    ):
        plain.ping()
    other = Authority().write_root(tmp_path / "other.crt")
    with (
        closing(client(redis_with_tls.url(other), PATIENCE)) as stranger,
        pytest.raises(redis.ConnectionError, match="certificate verify failed"),
    ):
        stranger.ping()


@needs("redis-server")
def test_redis_keeps_its_data_over_a_restart(redis_with_tls: Redis) -> None:
    with closing(redis_with_tls.client()) as desk:
        desk.set("desk:kept", "1")
    assert redis_with_tls.server.restart() < PATIENCE
    with closing(redis_with_tls.client()) as desk:
        assert desk.get("desk:kept") == b"1"


@needs("postgres")
def test_the_desk_has_its_tables_and_is_no_superuser(postgres_with_tls: Postgres) -> None:
    url = postgres_with_tls.url(postgres_with_tls.root)
    upgrade(url)
    assert current(url)[0] == current(url)[1]
    with closing(Store(url)) as store, store.read() as session:
        rows = session.connection().execute(
            text("select ssl, usesuper from pg_stat_ssl, pg_user where pid = pg_backend_pid() and usename = user")
        )
        assert tuple(rows.one()) == (True, False)


@needs("postgres")
def test_postgres_is_reached_with_its_root_and_tls_alone(postgres_with_tls: Postgres, tmp_path: Path) -> None:
    url = postgres_with_tls.url(postgres_with_tls.root)
    with pytest.raises(DatabaseDown, match="no encryption"):
        current(url.replace("verify-full", "disable"))
    other = Authority().write_root(tmp_path / "other.crt")
    with pytest.raises(DatabaseDown, match="certificate verify failed"):
        current(postgres_with_tls.url(other))
    with pytest.raises(DatabaseDown, match="password authentication failed"):
        current(url.replace(postgres_with_tls.password, "wrong"))


@needs("postgres")
def test_a_restart_of_postgres_cuts_connections_and_a_store_comes_back(postgres_with_tls: Postgres) -> None:
    with closing(Store(postgres_with_tls.url(postgres_with_tls.root))) as store:
        with store.read() as session:
            session.connection().execute(text("select 1"))
        postgres_with_tls.server.restart()
        with store.read() as session:
            assert session.connection().execute(text("select 1")).scalar_one() == 1


@needs("prometheus")
def test_prometheus_scrapes_what_its_list_names(folder: Path) -> None:
    prometheus = Prometheus.make(PROGRAMS["prometheus"], folder / "prometheus", 0.5)
    prometheus.server.start()
    try:
        prometheus.watch({"itself-1": prometheus.server.port})
        wait_for(lambda: bool(prometheus.query("up == 1")), "a scrape of its own metrics")
        ((labels, _),) = prometheus.query("up == 1")
        assert (labels["process"], labels["role"]) == ("itself-1", "itself")
        prometheus.watch({})
        wait_for(lambda: not prometheus.query("up"), "it is left out again")
    finally:
        prometheus.server.stop()
