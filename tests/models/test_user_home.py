"""A user without an entry and without HOME, as in a container with a user id of its own."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from chordesk.agents.codex.launch import login_home
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.files import data_folder, expanded, user_home
from chordesk.models.settings.sources import load_settings


def _unknown(_uid: int) -> None:
    raise KeyError("uid not found")


def test_a_user_that_the_system_does_not_know_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", _unknown)
    assert user_home() is None
    assert login_home() == Path("/.codex")
    with pytest.raises(SettingError, match="set DESK_HOME"):
        data_folder()
    with pytest.raises(UsageError, match="~/x: there is no such home folder"):
        expanded("~/x")
    assert load_settings({"DESK_HOME": str(tmp_path)}, tmp_path).home == tmp_path
    with pytest.raises(SettingError, match="no such home folder"):
        load_settings({"DESK_HOME": str(tmp_path), "DESK_DATA": "~/data"}, tmp_path)
