"""`desk setup` as people and scripts run it: real turns of the app-server, at servers on loopback."""

from __future__ import annotations

import fcntl
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.settings.running_desk import lock_path
from tests.fakes.local_server import LocalServer, Says
from tests.fakes.responses import FakeResponses, Reply, Status, Text
from tests.tasks.cli.running import desk
from tests.tasks.cli.test_commands import loaded

SECRET = "sk-of-nobody-1234"


@pytest.fixture(autouse=True)
def _no_login_of_this_person(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("person")))


NO_CANDIDATE = '{"candidates": []}'


def screening(body: dict[str, Any]) -> Reply:
    """The answer of an endpoint: no candidate, to a request that has a schema."""
    return Text(NO_CANDIDATE) if body.get("text", {}).get("format") else Status(400, {"error": {}})


class Screener(LocalServer):
    """A model server that does as it is asked, and finds no candidate."""

    def able(self, body: Any) -> Any:
        wanted = (body.get("response_format") or {}).get("json_schema", {}).get("schema", {})
        return Says(NO_CANDIDATE) if "candidates" in wanted.get("properties", {}) else super().able(body)


@pytest.fixture
def endpoint() -> Iterator[FakeResponses]:
    with FakeResponses(screening) as server:
        yield server


def setup(home: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return desk(home, "setup", *arguments, **environ)


def written(home: Path) -> str:
    return (home / ".env").read_text(encoding="utf-8")


def test_flags_alone_try_the_rulebook_and_write_it_once(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nDESK_PROVIDER=codex\nDESK_SHARD_SIZE=99\n", encoding="utf-8")
    for changes in ("  - DESK_PROVIDER=codex\n  + DESK_PROVIDER=rulebook\n", ".env has all of it already\n"):
        done = setup(tmp_path, "--provider", "rulebook", "--market", "replay", "--yes")
        assert done.returncode == 0, done
        assert "rulebook (rules, no model) answered in " in done.stdout
        assert changes in done.stdout
        assert written(tmp_path) == "# mine\nDESK_PROVIDER=rulebook\nDESK_SHARD_SIZE=99\nDESK_MARKET=replay\n"


def test_an_endpoint_is_tried_with_its_key_which_is_kept_in_a_file_and_shown_nowhere(
    tmp_path: Path, endpoint: FakeResponses
) -> None:
    flags = ("--provider", "endpoint", "--url", endpoint.url, "--model", "m-1", "--key-env", "MY_KEY", "--yes")
    for _ in range(2):
        done = setup(tmp_path, *flags, MY_KEY=SECRET)
        assert done.returncode == 0, done
        assert "endpoint:m-1 answered in " in done.stdout
        assert SECRET not in done.stdout + done.stderr + written(tmp_path)
    path = next((tmp_path / "keys").iterdir())
    assert written(tmp_path) == (
        f"DESK_PROVIDER=endpoint\nDESK_PROVIDER_URL={endpoint.url}\nDESK_MODEL=m-1\nDESK_PROVIDER_KEY_FILE={path}\n"
    )
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == (f"{SECRET}\n", 0o600)
    assert {seen.headers["authorization"] for seen in endpoint.calls()} == {f"Bearer {SECRET}"}


def test_a_local_server_is_asked_what_it_can_do_and_tried(tmp_path: Path) -> None:
    with Screener(kind="ollama", models=["qwen3:8b", "phi:latest"]) as server:
        flags = ("--provider", "local", "--url", server.root, "--model", "qwen3:8b", "--yes")
        done = setup(tmp_path, *flags)
        assert done.returncode == 0, done
        assert f"  qwen3:8b on ollama 1.2.3 at {server.url}\n" in done.stdout
        assert "  answers    held to the JSON schema by the server" in done.stdout
        assert "  local:qwen3:8b answered in " in done.stdout
        text = f"DESK_PROVIDER=local\nDESK_PROVIDER_URL={server.url}\nDESK_MODEL=qwen3:8b\n"
        assert written(tmp_path) == text
        flags = ("--provider", "local", "--url", server.url, "--model", "qwen3:8b")
        assert setup(tmp_path, *flags, "--no-try").stdout.startswith(".env has all of it already\n")


def test_what_fails_writes_nothing_but_without_a_try(tmp_path: Path) -> None:
    """A server that answers with a page, one that is not there, a model that it lacks, and one that fails."""
    with LocalServer(lambda _body: Status(500, {"error": {"message": "out of memory"}})) as server:
        cases = [("nowhere", "http://127.0.0.1:9/v1", "cannot be reached"), ("x", server.url, "it has small")]
        cases += [("small", server.url, "out of memory")]
        for model, url, words in cases:
            done = setup(tmp_path, "--provider", "local", "--url", url, "--model", model, "--yes")
            assert done.returncode == 1, done
            assert words in done.stdout + done.stderr
            assert done.stdout.endswith("nothing was written: .env is as it was\n")
            assert "Traceback" not in done.stderr
            assert written(tmp_path) == ""
    done = setup(tmp_path, "--provider", "local", "--url", server.url, "--model", "any", "--yes", "--no-try")
    assert (done.returncode, written(tmp_path).startswith("DESK_PROVIDER=local\n")) == (0, True)


def test_a_login_that_is_missing_is_named_with_a_command_that_there_is(tmp_path: Path) -> None:
    done = setup(tmp_path, "--provider", "codex", "--yes", HOME=str(tmp_path))
    assert done.returncode == 1, done
    assert f"no Codex login at {tmp_path}/.codex/auth.json" in done.stderr
    command = done.stderr.partition("run `")[2].partition("`")[0].split()
    assert (Path(command[0]).is_file(), command[1:]) == (True, ["login", "--device-auth"])
    assert "or `desk setup` at a terminal" in done.stderr
    assert written(tmp_path) == ""


@pytest.mark.parametrize(
    ("flags", "text", "words"),
    [
        ((), "", ("--provider is missing, and there is no terminal", "rulebook, codex, endpoint, local")),
        (("--provider", "rulebook"), "", ("--yes is missing",)),
        (("--provider", "rulebook", "--yes"), "DESK_SHARD_SIZE=many\n", ("DESK_SHARD_SIZE='many' (from .env)",)),
        (("--provider", "rulebook", "--yes"), "DESK_MODELL=x\n", ("DESK_MODELL (from .env) is not a setting",)),
        (("--provider", "codex", "--yes"), "DESK_ROLE_MODELS=a=b\n", ("DESK_ROLE_MODELS",)),
    ],
)
def test_wrong_input_ends_with_2_and_leaves_the_file(
    tmp_path: Path, flags: tuple[str, ...], text: str, words: tuple[str, ...]
) -> None:
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    done = setup(tmp_path, *flags, "--no-try")
    assert done.returncode == 2, done
    for each in words:
        assert each in done.stderr
    assert written(tmp_path) == text


def test_a_provider_that_the_file_has_wrong_is_put_right_and_an_odd_line_stays(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_PROVIDER=gpt\nwhat is this\nDESK_MODEL=x # mine\n", encoding="utf-8")
    done = setup(tmp_path, "--provider", "codex", "--yes", "--no-try")
    assert done.returncode == 0, done
    assert f"{tmp_path / '.env'}, line 2: no NAME=VALUE, so that no desk reads it" in done.stderr
    assert written(tmp_path) == "DESK_PROVIDER=codex\nwhat is this\nDESK_MODEL=gpt-5.5 # mine\n"


def test_what_goes_before_the_file_is_named_and_a_running_desk_too(tmp_path: Path) -> None:
    flags = ("--provider", "local", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--yes", "--no-try")
    lock_path(tmp_path).parent.mkdir(parents=True)
    with lock_path(tmp_path).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = setup(tmp_path, *flags, DESK_PROVIDER="rulebook", DESK_MODEL="m", DESK_PROVIDER_KEY=SECRET)
    assert done.returncode == 0, done
    warned = done.stderr.splitlines()
    assert "warning: DESK_PROVIDER=rulebook is set in this shell and goes before .env: `unset DESK_PROVIDER`" in warned
    assert (
        "warning: DESK_PROVIDER_KEY=******** is set in this shell and goes before .env: `unset DESK_PROVIDER_KEY`"
        in warned
    )
    assert (
        f"warning: a `desk up` runs on {tmp_path} and keeps the settings that it has: stop it and start it again"
        in warned
    )
    assert len(warned) == 3
    assert SECRET not in done.stdout + done.stderr + written(tmp_path)


def test_another_file_can_be_named_and_says_where_it_counts(tmp_path: Path) -> None:
    other = tmp_path / "other" / "desk.env"
    done = setup(tmp_path, "--provider", "rulebook", "--yes", "--no-try", "--env", str(other))
    assert (done.returncode, other.read_text(encoding="utf-8")) == (0, "DESK_PROVIDER=rulebook\n")
    assert f"no desk reads {other} by itself" in done.stderr
    assert written(tmp_path) == ""


def test_a_key_goes_to_no_other_server_and_a_file_that_others_may_read_is_named(tmp_path: Path) -> None:
    text = f"DESK_PROVIDER=endpoint\nDESK_PROVIDER_URL=https://one.example/v1\nDESK_PROVIDER_KEY={SECRET}\n"
    (tmp_path / ".env").write_text(text, encoding="utf-8")
    flags = ("--provider", "local", "--url", "http://127.0.0.1:9/v1", "--model", "m", "--yes", "--no-try")
    done = setup(tmp_path, *flags)
    assert "  - DESK_PROVIDER_KEY=********\n" in done.stdout
    assert "KEY" not in written(tmp_path)
    own = tmp_path / "own.key"
    own.write_text(SECRET, encoding="utf-8")
    own.chmod(0o644)
    done = setup(tmp_path, *flags, "--key-file", "own.key")
    assert f"warning: others may read {own}: `chmod 600 {own}`" in done.stderr
    assert written(tmp_path).endswith(f"DESK_PROVIDER_KEY_FILE={own}\n")
    assert SECRET not in done.stdout + done.stderr
    done = setup(tmp_path, *flags, DESK_PROVIDER_KEY=SECRET)
    assert done.stdout.startswith(".env has all of it already\n")


def test_a_hosted_server_of_chat_completions_has_no_price_and_that_is_said(tmp_path: Path) -> None:
    flags = ("--provider", "local", "--url", "https://chat.example/v1", "--model", "m", "--key-env", "MY_KEY")
    done = setup(tmp_path, *flags, "--yes", "--no-try", MY_KEY=SECRET)
    assert "warning: https://chat.example/v1 counts as local, without a price" in done.stderr
    assert f"the key is in {tmp_path / 'keys' / 'chat.example.key'}, which only you may read" in done.stdout


def test_the_first_question_waits_for_little(tmp_path: Path) -> None:
    done, modules = loaded(tmp_path, "setup", "--provider", "local", "--url", "http://127.0.0.1:9/v1", "--no-try")
    assert done.returncode == 2
    assert "--model is missing" in done.stderr
    assert not {"chordesk.tasks.bootstrap", "sqlalchemy", "aiohttp", "chordesk.agents.roles"} & modules
