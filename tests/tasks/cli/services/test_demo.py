"""`desk demo` whole, and the wall around it."""

from __future__ import annotations

import re
from pathlib import Path

import psutil
import pytest

from models.errors import UsageError
from models.settings.sources import load_settings
from tasks.services import demo
from tests.tasks.cli.running import desk

POISON = {
    "OPENAI_API_KEY": "sk-poison",
    "ALPACA_API_KEY": "poison",
    "APCA_API_SECRET_KEY": "poison",
    "AWS_SESSION_TOKEN": "poison",
    "SOME_NEW_THING": "poison",
    "TRADER_LIVE": "1",
    "DESK_PROVIDER": "codex",
    "DESK_MARKET": "yahoo",
    "DESK_DATABASE_URL": "postgresql://poison@127.0.0.1/desk",
    "DESK_REDIS_URL": "redis://127.0.0.1:1/0",
    "AUTONOMOUS_CONFIG_JSON": '{"maxCandidates": 1}',
}


def test_nothing_of_the_users_environment_gets_in(tmp_path: Path) -> None:
    made = demo.environment({**POISON, "PATH": "/bin", "LC_ALL": "C.UTF-8", "TERM": "xterm"}, tmp_path, live=False)
    assert not any("poison" in value for value in made.values())
    assert made["PATH"] == "/bin"
    assert made["LC_ALL"] == "C.UTF-8"
    assert "TRADER_LIVE" not in made
    settings = load_settings(made, demo.fresh_home(tmp_path / "home"))
    assert (settings.provider, settings.market, settings.broker) == ("rulebook", "replay", "paper")
    assert not settings.trader_live
    assert settings.max_candidates == 20


def test_fills_need_the_demos_own_switch(tmp_path: Path) -> None:
    assert demo.environment({}, tmp_path, live=True)["TRADER_LIVE"] == "1"


def test_files_further_up_do_not_reach_the_demo(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DESK_MAX_CANDIDATES=1\nDESK_PROVIDER_KEY=poison\n", encoding="utf-8")
    (tmp_path / "desk.toml").write_text("max_candidates = 2\n", encoding="utf-8")
    home = demo.fresh_home(tmp_path / "home")
    settings = load_settings(demo.environment({}, home, live=False), home)
    assert settings.max_candidates == 20
    assert settings.provider_key is None


def test_only_a_demos_folder_is_wiped(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis").touch()
    with pytest.raises(UsageError, match="not made by an earlier demo"):
        demo.fresh_home(tmp_path / "work")
    assert (tmp_path / "work" / "thesis").exists()
    home = demo.fresh_home(tmp_path / "mine")
    (home / "old").touch()
    assert not (demo.fresh_home(home) / "old").exists()


def test_the_demo_runs_the_whole_desk_and_leaves_nothing(tmp_path: Path) -> None:
    done = desk(tmp_path, "demo", "--home", str(tmp_path / "demo"), seconds=110, **POISON)
    output = done.stdout
    assert done.returncode == 0, output + done.stderr
    assert "MISSING" not in output
    screened = re.search(r"(\d+) symbols screened", output)
    assert screened
    assert int(screened[1]) >= 500
    candidates = re.search(r"(\d+) candidates; verdicts: (.*)", output)
    assert candidates
    assert int(candidates[1]) >= 10
    assert len(candidates[2].split(",")) >= 2
    assert re.search(r"Codex app-server processes seen at work: \d+", output)
    assert "filled" not in re.search(r"orders: (.*)", output)[1]  # type: ignore[index]
    assert "none left running" in output
    left = [each for each in psutil.process_iter(["cmdline"]) if str(tmp_path) in " ".join(each.info["cmdline"] or [])]
    assert left == []
