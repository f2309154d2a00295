"""`desk api` as a command: where it listens, which token it takes, how it ends, and what it costs the others."""

from __future__ import annotations

import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from chordesk.models.settings import Settings
from chordesk.tasks.web.app import GONE_SECONDS, bind
from chordesk.tasks.web.security import host_names
from tests import zygote
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, free_port, processes, wait_for
from tests.tasks.cli.running import desk
from tests.tasks.web.kit import start

OWN = "chosen-by-a-person"


@pytest.fixture(scope="module")
def stack() -> Iterator[Processes]:
    with processes() as made:
        yield made


def refused(stack: Processes, *arguments: str, **environ: str) -> str:
    """Return the error of a refused start."""
    done = zygote.run(("api", *arguments), {**stack.environ, **environ}, REPOSITORY)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def asked(url: str, token: str) -> int:
    return httpx.get(f"{url}/runs", headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE).status_code


def test_the_token_is_the_users_alone_stays_and_is_never_shown(stack: Processes) -> None:
    url, token = start(stack)
    path = stack.home / "run" / "api-token"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(token) == 43
    assert asked(url, token) == 200
    stack.end("api")
    assert start(stack)[1] == token, "a program that reads it once goes on after a restart"
    stack.end("api")
    assert token not in stack.log("api")
    path.chmod(0o640)
    again, other = start(stack)
    assert other != token, "others could have read it"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (asked(again, other), asked(again, token)) == (200, 401)
    stack.end("api")


@pytest.mark.parametrize("text", ["", "short\n", "x" * 44 + "\n", "é" * 43])
def test_a_token_file_that_we_did_not_write_is_replaced(stack: Processes, text: str) -> None:
    path = stack.home / "run" / "api-token"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    url, token = start(stack)
    assert len(token) == 43
    assert asked(url, token) == 200
    stack.end("api")


def test_a_token_file_that_leads_elsewhere_is_refused(stack: Processes, tmp_path: Path) -> None:
    path, elsewhere = stack.home / "run" / "api-token", tmp_path / "elsewhere"
    path.unlink(missing_ok=True)
    elsewhere.write_text("A" * 43, encoding="ascii")
    path.symlink_to(elsewhere)
    error = refused(stack)
    path.unlink()
    assert "cannot be used" in error
    assert "remove it, or set DESK_API_TOKEN" in error
    assert elsewhere.read_text(encoding="ascii") == "A" * 43


def test_two_that_start_at_once_share_one_token(stack: Processes) -> None:
    (stack.home / "run" / "api-token").unlink(missing_ok=True)
    names = [f"api-{number}" for number in range(4)]
    for name in names:
        stack.desk(name, "api")
    wait_for(lambda: all("listening on" in stack.log(name) for name in names), "all of them listen")
    token = (stack.home / "run" / "api-token").read_text(encoding="ascii").strip()
    urls = [re.search(r"http://\S+(?=,)", stack.log(name)) for name in names]
    assert [asked(url[0], token) for url in urls if url] == [200] * 4
    for name in names:
        stack.end(name)
    left = sorted(path.name for path in (stack.home / "run").iterdir())
    assert left == ["api-token", "api.json", "life", "redis.sock"]


def test_a_weak_token_is_refused_and_not_repeated(stack: Processes) -> None:
    for token in ("secret-word", "secret word that is long enough", "secrét-word-of-some-length"):
        error = refused(stack, DESK_API_TOKEN=token)
        assert "DESK_API_TOKEN" in error
        assert "secr" not in error


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "desk.example"])
def test_other_machines_are_let_in_only_with_a_token_of_the_users(stack: Processes, host: str) -> None:
    error = refused(stack, DESK_API_HOST=host)
    assert f"DESK_API_HOST='{host}' lets other machines in, and DESK_API_TOKEN is not set" in error


def test_off_loopback_it_answers_to_the_names_it_was_given(stack: Processes) -> None:
    port = free_port()
    environ = {"DESK_API_TOKEN": OWN, "DESK_API_HOST": "0.0.0.0", "DESK_API_HOSTS": "desk.example, Other.Example"}
    process = stack.desk("api", "api", "--port", str(port), environ=environ)
    wait_for(lambda: f"listening on http://0.0.0.0:{port}," in stack.log("api"), "it listens")
    url, headers = f"http://127.0.0.1:{port}/runs", {"Authorization": f"Bearer {OWN}"}
    answers = {
        host: httpx.get(url, headers={**headers, "Host": host}).status_code
        for host in ("desk.example", "DESK.example:443", "other.example", "localhost", "0.0.0.0", "third.example")
    }
    assert answers == {
        "desk.example": 200, "DESK.example:443": 200, "other.example": 200, "localhost": 200, "0.0.0.0": 421,
        "third.example": 421,
    }  # fmt: skip
    own = {**headers, "Host": "desk.example", "Origin": "https://desk.example"}
    assert httpx.get(url, headers=own).status_code == 200, "TLS ends in front of it"
    assert httpx.get(url, headers={**own, "Origin": "https://other.example"}).status_code == 403
    assert "put TLS in front" in " ".join(stack.log("api").split())
    assert process.poll() is None
    stack.end("api")


def test_an_address_of_its_own_is_a_name_too(tmp_path: Path) -> None:
    assert "192.0.2.1" in host_names(Settings(home=tmp_path, api_host="192.0.2.1"))
    for everywhere in ("0.0.0.0", "::", ""):
        assert everywhere not in host_names(Settings(home=tmp_path, api_host=everywhere))
    assert "::2" in host_names(Settings(home=tmp_path, api_hosts="[::2]"))


@pytest.mark.parametrize("hosts", ["https://desk.example", "*", "desk.example:80", "a b", "desk.example/x"])
def test_an_invalid_host_name_is_refused(tmp_path: Path, hosts: str) -> None:
    error = desk(tmp_path / "home", "config", DESK_API_HOSTS=hosts)
    assert error.returncode == 2
    assert "give names by comma, without scheme, port or *" in error.stderr
    with pytest.raises(ValueError, match="is not a Host name"):
        Settings(home=tmp_path, api_hosts=hosts)


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels have no such option")
def test_a_reader_that_acknowledges_nothing_is_let_go() -> None:
    with bind("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == GONE_SECONDS * 1000


def test_a_port_that_is_taken_is_named(stack: Processes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"cannot listen on '127.0.0.1' port {port}" in refused(stack, "--port", str(port))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_it_ends_on_a_signal_without_output(stack: Processes, number: int, code: int) -> None:
    start(stack)
    before = len(stack.log("api"))
    process = stack.running.pop("api")
    process.send_signal(number)
    assert process.wait(PATIENCE) == code
    assert stack.log("api")[before:] == ""
