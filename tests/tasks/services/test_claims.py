"""One desk of a user on a machine has an id, and an account at a broker."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from chordesk.models.database.store import open_current, upgrade
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.home import Identity, claim
from chordesk.models.settings import Settings
from chordesk.tasks.services import claims
from chordesk.tasks.services.plan import prepare_folders

KEY = {"ALPACA_API_KEY": "one"}


def named(id_: str) -> Identity:
    return Identity(id_, "host", f"/srv/{id_}", 1, 2)


def test_an_id_and_an_account_are_of_one_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "claims_folder", lambda: tmp_path / "locks")
    paper, alpaca = Settings(home=tmp_path), Settings(home=tmp_path, broker="alpaca-paper")
    with claims.held(named("a"), alpaca, KEY, trades=True):
        in_use = "in use by the desk on /srv/a"
        with (
            pytest.raises(UsageError, match=f"the id a of /srv/a is {in_use}"),
            claims.held(named("a"), paper, KEY, trades=True),
        ):
            pass
        with (
            pytest.raises(UsageError, match=f"the account of alpaca-paper whose key is set here is {in_use}"),
            claims.held(named("b"), alpaca, KEY, trades=True),
        ):
            pass
        with claims.held(named("b"), paper, KEY, trades=True), claims.held(named("c"), alpaca, KEY, trades=False):
            pass
    with claims.held(named("b"), alpaca, KEY, trades=True):
        pass
    assert "one" not in "".join(path.name for path in (tmp_path / "locks").iterdir())


def test_nothing_is_made_where_a_running_desk_has_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    url = f"sqlite:///{home}/desk.db"
    with claims.held(claim(home), Settings(home=home), {}, trades=False):
        home.rename(tmp_path / "moved")
        for make in (lambda: prepare_folders(home), lambda: upgrade(url), lambda: open_current(url)):
            with pytest.raises(DeskError, match=rf"{home} of a running desk \(process \d+\) is away.*bring it back"):
                make()
        assert not home.exists()
        prepare_folders(other)
    prepare_folders(home)  # that desk has ended
