"""`make secrets`: what it makes works with a real Redis over TLS and with the rights of its user, and is kept."""

from __future__ import annotations

import shutil
import ssl
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import redis
import yaml
from cryptography import x509
from sqlmodel import select

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run, Sweep
from chordesk.tasks.workflows.research import open_research
from deploy import credentials
from tests.conftest import valkey_binary
from tests.deploy.test_health import probe
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, free_port, listens, processes, wait_for

SERVERS = ("redis-server", "valkey-server")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made") / "secrets"
    credentials.make(made)
    return made


def test_every_secret_of_compose_is_made(folder: Path) -> None:
    with (REPOSITORY / "compose.yaml").open(encoding="utf-8") as file:
        declared = set(yaml.safe_load(file)["secrets"])
    assert {path.name for path in folder.iterdir()} == declared | {"authority_key", "redis_password"}
    assert {path.name for path in folder.iterdir() if not path.stat().st_size} == set(credentials.BROUGHT)


def test_the_folder_is_its_owners_and_containers_can_read_the_files(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes.pop("authority_key") == 0o400
    assert all(mode & 0o044 == 0o044 for mode in modes.values())


def test_a_second_time_keeps_what_is_there_and_adds_what_is_not(tmp_path: Path) -> None:
    credentials.make(tmp_path)
    (tmp_path / "provider_key").write_text("sk-mine\n", encoding="utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert credentials.make(tmp_path) == []
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "redis_key").unlink()
    (tmp_path / "api_token").unlink()
    (tmp_path / "redis_users").chmod(0o644)
    (tmp_path / "redis_users").write_text("user default on nopass\n", encoding="utf-8")  # of an older set
    (tmp_path / "database_url").chmod(0o644)
    shutil.copy(tmp_path / "admin_url", tmp_path / "database_url")  # of one in which all parts are the superuser
    new = ["api_token", "database_url", "redis_certificate", "redis_key"]
    assert credentials.make(tmp_path) == [*new, "redis_users"]
    changed = {path.name for path in tmp_path.iterdir() if path.read_bytes() != before[path.name]}
    assert changed == set(new)
    assert "//desk_rows:" in (tmp_path / "database_url").read_text("utf-8")


def test_half_of_an_authority_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    credentials.make(tmp_path)
    (tmp_path / "authority_key").unlink()
    assert credentials.main([str(tmp_path)]) == 1
    assert "bring the other back, or remove both" in capsys.readouterr().err
    assert credentials.main([]) == 2


def test_the_certificate_names_the_service(folder: Path) -> None:
    found = x509.load_pem_x509_certificate((folder / "redis_certificate").read_bytes())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["redis", "localhost"]
    authority = x509.load_pem_x509_certificate((folder / "authority").read_bytes())
    found.verify_directly_issued_by(authority)


@pytest.fixture(scope="module")
def secured(folder: Path) -> Iterator[Processes]:
    """A desk with a Redis that takes TLS alone and a user with the rights of the file. Started as compose.yaml does."""
    server = shutil.which("redis-server") or shutil.which("valkey-server")
    if server is None or b"tls-cert-file" not in Path(server).resolve().read_bytes():
        pytest.skip("needs a redis-server or valkey-server with TLS on the PATH: apt-get install redis-server")
    with (REPOSITORY / "compose.yaml").open(encoding="utf-8") as file:
        options = yaml.safe_load(file)["services"]["redis"]["command"][1:]
    port = free_port()
    with processes() as desk:
        given = [each.replace("/run/secrets", str(folder)) for each in options]
        given[given.index("--tls-port") + 1] = str(port)
        del desk.environ["DESK_REDIS_URL"]
        url = (folder / "redis_url").read_text(encoding="utf-8").replace("@redis:6379", f"@localhost:{port}")
        (desk.home / "url").write_text(url.replace("/run/secrets", str(folder)), encoding="utf-8")
        desk.environ["DESK_REDIS_URL_FILE"] = str(desk.home / "url")
        desk.environ["DESK_MESSAGE_KEY_FILE"] = str(folder / "message_key")
        data = desk.home / "tls"
        data.mkdir()
        desk.end("redis")
        desk.spawn("redis", server, *given, "--dir", str(data), "--bind", "127.0.0.1")
        wait_for(lambda: listens(port), "Redis listens")
        yield desk


@pytest.mark.long
def test_a_desk_works_over_tls_with_the_rights_of_its_user(secured: Processes, folder: Path) -> None:
    desk, port = secured, free_port()
    desk.rulebook()
    desk.workers("research", "ops", "trade")
    desk.desk("beat", "beat")
    run = open_research(desk.app, ["IBM"])

    def state() -> str:
        with desk.app.desk.store.read() as session:
            return session.get_one(Run, run.id).state

    def swept() -> bool:
        with desk.app.desk.store.read() as session:
            return session.exec(select(Sweep.last_at)).one() is not None

    wait_for(lambda: state() in RUN_FINAL, "the run ends")
    assert state() == "done"
    wait_for(swept, "a sweep that beat sent is done")
    for name in ("status", "doctor"):
        desk.desk(name, name).wait(PATIENCE)
        del desk.running[name]
    desk.desk("flower", "flower", "--port", str(port), environ={"DESK_FLOWER_AUTH_FILE": str(folder / "flower_auth")})
    wait_for(lambda: listens(port), "Flower listens")
    user, _, password = (folder / "flower_auth").read_text(encoding="utf-8").strip().partition(":")
    page = f"http://127.0.0.1:{port}/workers"
    logins = (None, (user, "not-it"), (user, password))
    assert [httpx.get(page, auth=login, timeout=PATIENCE).status_code for login in logins] == [401, 401, 200]
    assert probe(f"http://127.0.0.1:{port}/healthcheck").returncode == 0
    refused = {name: desk.log(name) for name in ("research", "ops", "trade", "beat", "flower", "status", "doctor")}
    assert {name: text[-2000:] for name, text in refused.items() if "NOPERM" in text or "no permissions" in text} == {}


def test_its_user_cannot_change_the_server_and_others_cannot_enter(secured: Processes, folder: Path) -> None:
    url = (secured.home / "url").read_text(encoding="utf-8").strip()
    with redis.Redis.from_url(url) as client:
        assert client.ping()
        for command in (("CONFIG", "SET", "save", ""), ("FLUSHALL",), ("ACL", "LIST"), ("SHUTDOWN",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command)
    address, _, query = url.partition("@")[2].partition("?")
    nobody = redis.Redis.from_url(f"rediss://{address}?{query}")
    with nobody, pytest.raises(redis.exceptions.AuthenticationError):
        nobody.ping()
    with redis.Redis.from_url(f"rediss://probe:any@{address}?{query}") as client:
        assert client.ping()  # the health check of the container
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.get("x")
    with pytest.raises(redis.exceptions.ConnectionError, match="certificate verify failed"):
        redis.Redis.from_url(url.replace(str(folder / "authority"), ssl.get_default_verify_paths().cafile or "")).ping()


def test_the_health_check_of_compose_answers_without_a_login(secured: Processes, folder: Path) -> None:
    client = shutil.which("redis-cli") or shutil.which("valkey-cli")
    if client is None:
        pytest.skip("needs redis-cli on the PATH")
    with (REPOSITORY / "compose.yaml").open(encoding="utf-8") as file:
        test = yaml.safe_load(file)["services"]["redis"]["healthcheck"]["test"]
    port = (secured.home / "url").read_text(encoding="utf-8").partition("localhost:")[2].partition("/")[0]
    given = [each.replace("/run/secrets", str(folder)) for each in test[2:]]
    for user, well in (("probe", True), ("nobody", False)):
        asked = [user if each == "probe" else each for each in given]
        done = subprocess.run([client, "-p", port, *asked], capture_output=True, timeout=PATIENCE, check=False)
        assert (done.returncode == 0) == well, done


def pings(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.exceptions.ConnectionError:
        return False


@pytest.mark.process
@pytest.mark.parametrize("server", sorted({valkey_binary(), *filter(None, map(shutil.which, SERVERS))}))
def test_a_transaction_is_there_after_a_kill(server: str, folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(place), "--dir", str(tmp_path), "--save", "", "--appendonly", "yes"]
    options += ["--appendfsync", "always", "--aclfile", str(folder / "redis_users")]
    password = (folder / "redis_password").read_text(encoding="utf-8").strip()

    @contextmanager
    def killed_after() -> Iterator[redis.Redis]:
        running = subprocess.Popen([server, *options], stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(unix_socket_path=str(place), username=credentials.USER, password=password) as client:
                wait_for(partial(pings, client), "Redis answers")
                yield client
        finally:
            running.kill()
            running.wait(PATIENCE)

    with killed_after() as client, client.pipeline(transaction=True) as both:
        both.set("kept", "yes").zadd("schedule", {"screen": 1.0}).execute()
    with killed_after() as client:
        assert (client.get("kept"), client.zscore("schedule", "screen")) == (b"yes", 1.0)
