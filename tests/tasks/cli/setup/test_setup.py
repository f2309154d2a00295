"""`desk setup` as people and scripts run it: real turns of the app-server, at servers on loopback."""

from __future__ import annotations

import fcntl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import LoginMissing
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import lock_path
from chordesk.tasks.cli.setup.command import ensure_login, screen_lines
from chordesk.tasks.cli.setup.setup_choices import Person
from tests.fakes.local_server import LocalServer, Pace, Says
from tests.fakes.responses import FakeResponses, Reply, Silence, Status, Text
from tests.tasks.cli.running import desk
from tests.tasks.cli.setup.terminal import Terminal
from tests.tasks.cli.setup.test_answers import Typed

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


@pytest.mark.parametrize(
    ("flags", "text", "words"),
    [
        (("--provider", "rulebook"), "", ("--yes is missing",)),
        (("--provider", "rulebook", "--yes"), "DESK_SHARD_SIZE=many\n", ("DESK_SHARD_SIZE='many' (from .env)",)),
        (("--provider", "rulebook", "--yes"), "DESK_MODELL=x\n", ("DESK_MODELL (from .env) is not a setting",)),
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


# In place of the binary: what it does of `login`, once the person has typed the code into a browser.
LOGIN = '#!/bin/sh\necho "$@" > "{seen}"\necho "{{}}" > "$CODEX_HOME/auth.json"\n'


pytestmark = pytest.mark.process  # a login is a command of its own


@pytest.fixture(autouse=True)
def _person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def binary(folder: Path, script: str) -> Path:
    path = folder / "codex"
    path.write_text(script, encoding="utf-8")
    path.chmod(0o755)
    return path


def test_the_login_is_made_from_here_where_app_servers_look_for_it(tmp_path: Path) -> None:
    own = binary(tmp_path, LOGIN.format(seen=tmp_path / "seen"))
    settings = Settings(home=tmp_path / "home", provider="codex", codex_binary=own)
    typed = Typed("y")
    typed(lambda person: ensure_login(settings, person))
    assert f"no Codex login at {tmp_path}/.codex/auth.json" in typed.shown
    assert (tmp_path / "seen").read_text() == '-c cli_auth_credentials_store="file" login --device-auth\n'
    Typed()(lambda person: ensure_login(settings, person))  # asks nothing any more


@pytest.mark.parametrize(("script", "answer"), [("#!/bin/sh\nexit 1\n", "y"), ("#!/bin/sh\nexit 1\n", "n")])
def test_without_a_login_its_command_is_named(tmp_path: Path, script: str, answer: str) -> None:
    own = binary(tmp_path, script)
    settings = Settings(home=tmp_path / "home", provider="codex", codex_binary=own)
    with pytest.raises(LoginMissing, match="run `desk login --device-auth`") as raised:
        Typed(answer)(lambda person: ensure_login(settings, person))
    assert ("did not succeed" in str(raised.value)) is (answer == "y")
    with pytest.raises(LoginMissing, match="`desk setup` at a terminal"):
        ensure_login(settings, Person(terminal=False))


def test_desk_login_and_logout_are_of_the_binary_that_the_desk_brings(tmp_path: Path) -> None:
    given = {"HOME": str(tmp_path), "DESK_PROVIDER": "rulebook"}
    assert "Not logged in" in desk(tmp_path / "home", "logout", **given).stderr
    (tmp_path / ".codex" / "auth.json").write_text('{"OPENAI_API_KEY":"sk-x"}', encoding="utf-8")
    assert "Successfully logged out" in desk(tmp_path / "home", "logout", **given).stderr
    assert not (tmp_path / ".codex" / "auth.json").exists()
    seen = tmp_path / "seen"
    own = binary(tmp_path, f'#!/bin/sh\necho "$@" "$CODEX_HOME" > {seen}\nexit 3\n')
    done = desk(tmp_path / "home", "login", "--device-auth", DESK_CODEX_BINARY=str(own), **given)
    assert done.returncode == 3, "the binary's own"
    assert seen.read_text().split()[-3:] == ["login", "--device-auth", str(tmp_path / ".codex")]


def test_a_provider_without_a_login_asks_for_none(tmp_path: Path) -> None:
    local = Settings(home=tmp_path, provider="local", provider_url="http://127.0.0.1:9/v1", model="m")
    ensure_login(local, Person(terminal=False))
    with pytest.raises(LoginMissing):
        ensure_login(local.model_copy(update={"role_models": "trader=codex:gpt-5.5"}), Person(terminal=False))


URL = "http://127.0.0.1:11434/v1"
FEW = "IBM,KO,GE,F"


@pytest.fixture
def home(tmp_path: Path, store: Store) -> Path:
    """A home with a database, which is empty."""
    assert (tmp_path / "desk.db").exists()
    return tmp_path


def lines(home: Path, seconds: float | None = None, **settings: Any) -> list[str]:
    return screen_lines(Settings(**{"home": home, "universe": FEW, "max_candidates": 2, **settings}), seconds)


def test_a_login_is_paid_by_its_plan_and_an_endpoint_by_its_price_where_that_is_known(tmp_path: Path) -> None:
    head, codex, time = lines(tmp_path, 20.0, provider="codex")
    assert head == "a screen of IBM,KO,GE,F (4 symbols):"
    assert codex.startswith("codex:gpt-5.5: at most 13 turns, ")
    assert "as assumed before the first one; paid by the plan of the login; over the API about 0." in codex
    assert time == "at least 1 min 20 s, where each turn takes as long as the one just tried"
    for prices, words in (("", "price unknown: set DESK_PRICES"), ("m=1000/1000/1000", " USD")):
        made = lines(tmp_path, provider="endpoint", provider_url=URL, model="m", prices=prices)
        assert len(made) == 2
        assert made[1].endswith(words)


def test_a_key_that_is_typed_is_shown_nowhere(tmp_path: Path) -> None:
    with FakeResponses(screening) as endpoint, Terminal(tmp_path, "setup", OLLAMA_HOST="") as terminal:
        terminal.types("Number", "2")
        terminal.types("Base URL [https://api.openai.com/v1]: ", endpoint.url)
        terminal.types("Key (it is not shown; Enter for none): ", SECRET)
        terminal.types("Model: ", "m-1")
        terminal.types("Number [1]: ", "1")
        terminal.types("Write it? [Y/n]: ", "y")
        assert terminal.ends() == 0, terminal.shown
    assert SECRET not in terminal.shown + written(tmp_path)
    assert next((tmp_path / "keys").iterdir()).read_text() == f"{SECRET}\n"


def test_ctrl_c_leaves_the_file_at_a_question_and_in_each_part_of_the_try(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_SHARD_SIZE=99\n", encoding="utf-8")
    with Terminal(tmp_path, "setup", "--no-try") as terminal:
        terminal.waits_for("Number")
        stopped(terminal)
    never = Says("x", pace=Pace(first=600.0))
    with LocalServer(lambda _body: never) as server, FakeResponses(silent) as endpoint:
        for far, provider, seen in ((server, "local", server.chats), (endpoint, "endpoint", endpoint.calls)):
            flags = ("--provider", provider, "--url", far.url, "--model", "small", *NO_KEY[provider])
            with Terminal(tmp_path, "setup", *flags) as terminal:
                terminal.waits_for("Ctrl-C ends it")
                while not any(request.body for request in seen()):
                    time.sleep(0.05)
                stopped(terminal)
    assert written(tmp_path) == "DESK_SHARD_SIZE=99\n"


def silent(body: dict[str, Any]) -> Reply:
    """What an endpoint does that never answers a turn."""
    return Silence(600.0) if body else Status(400, {"error": {}})


NO_KEY = {"local": (), "endpoint": ("--no-key",)}


def stopped(terminal: Terminal) -> None:
    terminal.interrupts()
    assert terminal.ends() == 130, terminal.shown
    assert terminal.shown.endswith("nothing was written: .env is as it was\n")


def test_a_choice_that_fails_is_written_where_the_person_insists(tmp_path: Path) -> None:
    with LocalServer(model="small") as server:
        flags = ("--provider", "local", "--url", server.url, "--model", "small")
        server.policy = lambda _body: Says("no JSON at all")
        with Terminal(tmp_path, "setup", *flags) as terminal:
            terminal.types("Write it all the same? [y/N]: ", "n")
            assert (terminal.ends(), written(tmp_path)) == (1, "")
        with Terminal(tmp_path, "setup", *flags) as terminal:
            terminal.types("Write it all the same? [y/N]: ", "y")
            terminal.types("Write it? [Y/n]: ", "y")
            assert terminal.ends() == 1, terminal.shown
    assert written(tmp_path).startswith("DESK_PROVIDER=local")
