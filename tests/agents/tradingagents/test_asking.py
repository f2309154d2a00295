"""What may be asked of TradingAgents, and what a desk needs to play it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chordesk.agents.tradingagents.project import (
    ANALYSTS,
    INSTALL,
    require_installed,
    require_playable,
    require_request,
)
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from tests.agents.tradingagents.test_project import folder, write

__all__ = ["folder"]


def test_its_analysts_and_depths_are_taken() -> None:
    require_request(ANALYSTS, 1)
    require_request(["news"], 10)


@pytest.mark.parametrize(
    ("analysts", "depth", "named"),
    [
        (["news", "stars"], 1, "--analysts has 'stars'"),
        (["news", "news"], 1, "--analysts has 'news' twice"),
        ([], 1, "--analysts names none"),
        (["news"], 0, "--depth 0 is not from 1 to 10"),
        (["news"], 11, "--depth 11 is not from 1 to 10"),
    ],
)
def test_analysts_that_there_are_not_are_named(analysts: list[str], depth: int, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_request(analysts, depth)
    assert caught.value.args[0].startswith(named)
    assert caught.value.remedy


def desk(home: Path, provider: str = "codex") -> Settings:
    return Settings(home=home, provider=provider, provider_url="http://127.0.0.1:1/v1")


def test_a_desk_with_a_model_can_play_it(project: Path, tmp_path: Path) -> None:
    require_playable(desk(tmp_path))
    assert not [name for name in sys.modules if name.split(".")[0] == "tradingagents"]  # nothing of it was loaded


def test_the_rulebook_cannot(project: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the rulebook has no rules for its debates") as caught:
        require_playable(desk(tmp_path, "rulebook"))
    assert "DESK_PROVIDER" in caught.value.remedy


def test_without_the_project_the_remedy_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tradingagents", None)  # Python's own mark of a module that is not there
    with pytest.raises(UsageError, match="TradingAgents is not installed") as caught:
        require_playable(desk(tmp_path))
    assert caught.value.remedy == INSTALL


def test_roles_of_the_desk_need_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tradingagents", None)
    require_playable(desk(tmp_path, "rulebook"), ("quick", "risk"))


def test_another_project_of_the_name_is_refused_unloaded(folder: Path) -> None:
    write(folder, tradingagents__bot="raise SystemExit")
    with pytest.raises(UsageError, match=r"is another project of the name tradingagents, or older than 0\.3\.0"):
        require_installed()
