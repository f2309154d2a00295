"""A desk that could not work does not start: each lack is reported with its remedy, before any process runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from chordesk.models import shortages
from chordesk.models.errors import BinaryMissing, DeskError, LoginMissing, SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor.check import CheckContext, CheckStatus, run_checks
from chordesk.tasks.doctor.checklist import ALL
from chordesk.tasks.services.stack import require_able
from tests.fakes.responses import FakeResponses
from tests.fakes.responses import Status as Http
from tests.tasks.cli.running import desk

RULEBOOK = "http://127.0.0.1:1/v1"


def settings(home: Path, **values: Any) -> Settings:
    return Settings(**{"home": home, "rulebook_url": RULEBOOK, **values})


def test_a_desk_that_lacks_nothing_passes(tmp_path: Path) -> None:
    require_able(settings(tmp_path))
    assert list((tmp_path / "codex" / "catalog").glob("*.json")), "the binary ran and wrote its catalog"
    assert not (tmp_path / "run").exists(), "nothing was started"


@pytest.mark.parametrize(
    ("day", "message"),
    [
        ("2010-08-15", "DESK_REPLAY_DATE=2010-08-15 is no session of the New York Stock Exchange"),
        ("2026-01-05", "DESK_REPLAY_DATE=2026-01-05 is outside the replay's data"),
    ],
)
def test_a_day_that_cannot_be_replayed(tmp_path: Path, day: str, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        require_able(settings(tmp_path, replay_date=day))


def test_a_universe_or_a_broker_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"the universe file '/nowhere/names\.txt' cannot be read"):
        require_able(settings(tmp_path, universe="/nowhere/names.txt"))
    with pytest.raises(UsageError, match="the replay market does not carry NOPE"):
        require_able(settings(tmp_path, universe="AAPL,NOPE"))
    monkeypatch.delenv("ALPACA_API_KEY", raising=False)
    with pytest.raises(SettingError, match="the broker alpaca-paper needs ALPACA_API_KEY"):
        require_able(settings(tmp_path, broker="alpaca-paper"))


def both(name: str, made: Settings) -> str:
    """Return what `desk up` ends with, of which the doctor says the same under this name."""
    with pytest.raises(DeskError) as error:
        require_able(made)
    context = CheckContext(made, Desk(made, "preflight"))
    (found,) = run_checks(context, [each for each in ALL if each.name == name])
    assert (found.status, found.detail, found.remedy) == (CheckStatus.FAIL, error.value.args[0], error.value.remedy)
    return f"{found.detail}; {found.remedy}"


def test_a_home_that_cannot_be_written_or_has_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert "set DESK_HOME to a folder you may write" in both("room", settings(tmp_path / "file" / "home"))
    monkeypatch.setattr(shortages, "SPACE", shortages.Bounds(2**62, 1.0, 2**62, 1.0))
    found = os.statvfs(tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda _path: found)  # others use this disk too
    assert "no room: space of home" in both("room", settings(tmp_path))


def test_a_provider_that_does_not_answer_or_refuses_the_key(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:1/v1"
    far = {"provider": "endpoint", "provider_url": nobody, "model": "m"}
    assert "set DESK_PROVIDER_URL" in both("server", settings(tmp_path, **far))
    assert "set DESK_LOCAL_URL" in both("server", settings(tmp_path, local_url=nobody, role_models="quick=local:m"))
    with FakeResponses() as fake:
        fake.policy = lambda _request: Http(401, {"error": {"message": "bad key"}})
        refused = {**far, "provider_url": fake.url, "provider_key": "wrong"}
        assert "check DESK_PROVIDER_KEY" in both("server", settings(tmp_path, **refused))


def test_a_binary_that_is_missing_or_does_not_run(tmp_path: Path) -> None:
    home, binary = tmp_path / "home", tmp_path / "codex"
    with pytest.raises(BinaryMissing, match=f"no executable Codex binary at {binary}"):
        require_able(settings(home, codex_binary=binary))
    binary.write_bytes(b"\x7fELF of another machine")
    binary.chmod(0o755)
    with pytest.raises(BinaryMissing, match=f"cannot run the Codex binary {binary}"):
        require_able(settings(home, codex_binary=binary))


def test_a_login_is_asked_for_where_the_provider_needs_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginMissing, match=str(tmp_path / ".codex" / "auth.json")):
        require_able(settings(tmp_path / "home", provider="codex"))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text("{}", encoding="utf-8")
    require_able(settings(tmp_path / "home", provider="codex"))


def test_a_place_for_blobs_that_no_file_system_knows_ends_it(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"DESK_BLOB_URL=nosuch://host/x cannot be used"):
        require_able(settings(tmp_path, blob_url="nosuch://host/x"))


@pytest.mark.parametrize("command", [("up",), ("worker",), ("screen", "--no-wait")])
def test_a_model_of_a_role_that_cannot_be_served_starts_and_writes_nothing(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    environ = {"DESK_ROLE_MODELS": "trader=codex:m:huge", "DESK_REDIS_URL": "redis://127.0.0.1:1/0"}
    done = desk(tmp_path, *command, **environ)
    assert done.returncode == 2
    assert "error: role_models (DESK_ROLE_MODELS) has 'trader=codex:m:huge': there is no effort 'huge'" in done.stderr
    assert "remedy: write ROLE=RUNTIME:MODEL[:EFFORT]" in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {".env", "desk.toml"}
