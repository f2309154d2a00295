"""The Codex login that setup offers to make."""

from __future__ import annotations

from pathlib import Path

import codex_cli_bin
import pytest

from chordesk.models.errors import LoginMissing
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import login_command
from chordesk.tasks.cli.setup.answers import Person
from chordesk.tasks.cli.setup.trial import ensure_login
from tests.tasks.cli.setup.test_answers import Typed

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
    with pytest.raises(LoginMissing, match=f"run `{own} login --device-auth`") as raised:
        Typed(answer)(lambda person: ensure_login(settings, person))
    assert ("did not succeed" in str(raised.value)) is (answer == "y")
    with pytest.raises(LoginMissing, match="`desk setup` at a terminal"):
        ensure_login(settings, Person(terminal=False))


def test_the_command_is_the_one_that_the_desk_brings(tmp_path: Path) -> None:
    command, own = login_command(Settings(home=tmp_path / "home", provider="codex"))
    assert command[0] == str(codex_cli_bin.bundled_codex_path())
    assert own == {"CODEX_HOME": str(tmp_path / ".codex")}


def test_a_provider_without_a_login_asks_for_none(tmp_path: Path) -> None:
    local = Settings(home=tmp_path, provider="local", provider_url="http://127.0.0.1:9/v1", model="m")
    ensure_login(local, Person(terminal=False))
    with pytest.raises(LoginMissing):
        ensure_login(local.model_copy(update={"role_models": "trader=codex:gpt-5.5"}), Person(terminal=False))
